package temporal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A lockService is what an agent needs of a Guard.
type lockService interface {
	enqueue(ctx context.Context, requirement lockguard.Requirement) pendingLock
	adopt(ctx context.Context, requirement lockguard.Requirement, reference lockguard.Reference) (heldLock, error)
	join(ctx context.Context, requirement lockguard.Requirement,
		reference lockguard.Reference, cleanup bool) (heldLock, error)
}

// A pendingLock is a request for a lock that goes on in the background.
type pendingLock interface {
	Reference() (lockguard.Reference, bool)
	Joined() <-chan struct{}
	Done() <-chan struct{}
	held() (heldLock, error)
}

// A heldLock is what an agent needs of a Hold.
type heldLock interface {
	Context() context.Context
	Reference() lockguard.Reference
	Lost() <-chan struct{}
	Check() error
	Deadline() time.Time
	OnCleanup(hook lockguard.Hook) error
	Release(ctx context.Context) error
}

// What an agent needs of a client.
type (
	signaler interface {
		SignalWorkflow(ctx context.Context, workflowID, runID, name string, arg any) error
	}
	heartbeater interface {
		RecordActivityHeartbeat(ctx context.Context, taskToken []byte, details ...any) error
	}
	completer interface {
		CompleteActivity(ctx context.Context, taskToken []byte, result any, err error) error
	}
	describer interface {
		DescribeWorkflowExecution(ctx context.Context,
			workflowID, runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error)
	}
	service interface {
		signaler
		heartbeater
		completer
		describer
	}
)

var _ service = client.Client(nil)

// An agent keeps the locks of workflows in a process, for all its workers.
type agent struct {
	locks    lockService
	logger   *slog.Logger
	handover time.Duration // how long a lock is kept for the worker that takes it over

	mu      sync.Mutex
	keepers map[string]*keeper     // by the id of the hold
	kept    map[string]*possession // that have no keeper, for a while
	workers map[string]bool        // that run
	stopped map[string]bool        // that take no more
}

func newAgent(locks lockService, logger *slog.Logger) *agent {
	return &agent{
		locks: locks, logger: logger, handover: DefaultHandover,
		keepers: make(map[string]*keeper), kept: make(map[string]*possession), workers: make(map[string]bool),
		stopped: make(map[string]bool),
	}
}

// DefaultHandover is how long a worker that stops keeps the locks of workflows
// for the workers that take them over.
const DefaultHandover = 10 * time.Second

// holdID names the hold of one WithLock of one run. After a reset it is another
// one.
func holdID(namespace, workflow, run, name string) string {
	id := namespace + "/" + workflow + "/" + run + "/" + name
	if len(id) <= priority.MaxHold && printable(id) {
		return id
	}
	sum := sha256.Sum256([]byte(namespace + "/" + workflow))
	return hex.EncodeToString(sum[:16]) + "/" + run + "/" + name
}

// printable is stricter than what a hold id may be.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// admit takes the keepers of a worker that starts.
func (a *agent) admit(worker string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.workers[worker] = true
	delete(a.stopped, worker)
}

// take starts a keeper, which takes over what this process has of the hold. It
// returns false when its worker stops.
func (a *agent) take(k *keeper) bool {
	for {
		a.mu.Lock()
		if a.stopped[k.worker] {
			a.mu.Unlock()
			return false
		}
		before := a.keepers[k.id]
		if before == nil {
			if p := a.kept[k.id]; p != nil && p.unkeep() {
				k.possession = p
			}
			delete(a.kept, k.id)
			a.keepers[k.id] = k
			a.mu.Unlock()
			k.start()
			return true
		}
		a.mu.Unlock()
		before.order(errSucceeded)
		<-before.done
	}
}

// done is called when a keeper has ended, and what it leaves for d; nil: nothing.
func (a *agent) done(k *keeper, p *possession, d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.keepers[k.id] == k {
		delete(a.keepers, k.id)
	}
	if p != nil {
		a.keepLocked(k.id, p, d)
	}
}

// keepLocked keeps p for d at most, for its successor.
func (a *agent) keepLocked(id string, p *possession, d time.Duration) {
	a.kept[id] = p
	p.keep(d, func() {
		a.mu.Lock()
		if a.kept[id] == p {
			delete(a.kept, id)
		}
		a.mu.Unlock()
	})
}

// errNotHere says that this process can do nothing about a request.
var errNotHere = errors.New("the request is not one of this process")

// release gives the lock of a hold away, wherever it is kept, or keeps it here for
// the next run.
func (a *agent) release(ctx context.Context, id string, in releaseInput) (lockguard.Reference, error) {
	for {
		a.mu.Lock()
		k, p := a.keepers[id], a.kept[id]
		a.mu.Unlock()
		if k == nil {
			return a.releaseKept(ctx, id, p, in)
		}
		ordered, end := errReleased, k.vacated
		if in.Keep > 0 {
			k.mu.Lock()
			k.keepFor = in.Keep
			k.mu.Unlock()
			ordered, end = errKept, k.done
		}
		k.order(ordered)
		if err := await(ctx, end); err != nil {
			return lockguard.Reference{}, err
		}
		for _, end := range []error{errReleased, errCanceled, errClosed, errMaxHold} {
			if errors.Is(context.Cause(k.ctx), end) {
				return in.Reference, nil
			}
		}
		if err := await(ctx, k.done); err != nil { // another one may have it now, or will
			return lockguard.Reference{}, err
		}
	}
}

// releaseKept does that for a hold without a keeper in this process, of which p,
// if it is there, is kept.
func (a *agent) releaseKept(
	ctx context.Context, id string, p *possession, in releaseInput,
) (lockguard.Reference, error) {
	switch {
	case p == nil:
		return a.releaseElsewhere(ctx, id, in)
	case !p.unkeep():
		return in.Reference, await(ctx, p.gone)
	case in.Keep > 0:
		a.mu.Lock()
		a.keepLocked(id, p, in.Keep)
		a.mu.Unlock()
		return p.reference(), nil
	}
	a.mu.Lock()
	delete(a.kept, id)
	a.mu.Unlock()
	return in.Reference, p.release(ctx)
}

// releaseElsewhere takes over what another process keeps: it notices, and leaves
// the rest to us.
func (a *agent) releaseElsewhere(ctx context.Context, id string, in releaseInput) (lockguard.Reference, error) {
	if in.Reference.Token == 0 {
		return lockguard.Reference{}, errNotHere // it hears of the end by itself
	}
	p := newPossession(ctx)
	err := p.adopt(ctx, a.locks, in.Requirement, in.Reference)
	switch {
	case errors.As(err, new(*lock.NotThereError)) && in.Keep == 0:
		return in.Reference, nil
	case err != nil:
		return lockguard.Reference{}, err
	case in.Keep > 0:
		a.mu.Lock()
		a.keepLocked(id, p, in.Keep)
		a.mu.Unlock()
		return p.reference(), nil
	}
	return in.Reference, p.release(ctx)
}

// drain hands over the locks of a worker that has stopped: to other workers, or
// it releases them if none has come in time. With the last worker, what is
// kept for next runs goes the same way.
func (a *agent) drain(ctx context.Context, worker string) {
	a.mu.Lock()
	a.stopped[worker] = true
	delete(a.workers, worker)
	last := len(a.workers) == 0
	var leaving []*keeper
	for _, k := range a.keepers {
		if k.worker == worker {
			leaving = append(leaving, k)
		}
	}
	a.mu.Unlock()
	for _, k := range leaving {
		k.order(errHandover)
		k.abandon()
	}
	for _, k := range leaving {
		if await(ctx, k.done) == nil && k.leaves != nil {
			_ = await(ctx, k.leaves.unwanted())
		}
	}
	if last {
		a.close(ctx)
	}
}

// close releases what is kept, unless it is taken over in time: the process
// ends.
func (a *agent) close(ctx context.Context) {
	a.mu.Lock()
	kept := maps.Clone(a.kept)
	a.mu.Unlock()
	patient, done := context.WithTimeout(ctx, a.handover)
	defer done()
	for id, p := range kept {
		if await(patient, p.unwanted()) != nil && p.unkeep() {
			a.mu.Lock()
			if a.kept[id] == p {
				delete(a.kept, id)
			}
			a.mu.Unlock()
			_ = p.release(context.WithoutCancel(ctx)) // its time is bounded by itself
		}
	}
}

// await waits for c to be closed.
func await(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
