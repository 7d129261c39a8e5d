package emergency

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// Guard is what an Executor needs of a *lockguard.Guard.
type Guard interface {
	Override(ctx context.Context, o override.Override, work func(ctx context.Context) error) error
}

// ExecutorConfig says what an Executor works with. Client, Desk and Guard have
// to be set.
type ExecutorConfig struct {
	// Auditor writes down which overrides begin and end. What is done for them the
	// Guard announces to its own, which should be the same one. nil: nothing does.
	Auditor lockguard.Auditor

	// Client is that of the Guard.
	Client *lock.Client

	// Desk knows what is in force.
	Desk *Desk

	// Guard takes the locks.
	Guard Guard

	// Logger defaults to silence.
	Logger *slog.Logger
}

// An Executor does what overrides want done: it takes locks and keeps them for a
// person (hold), preempts holders (preempt-now), and writes down which
// overrides have begun and ended. Of all Executors of a root one does it for
// each override; when that one ends, or is cut off, another one goes on.
//
// It needs what the locks need: as long as ZooKeeper does not answer, nothing is
// done.
type Executor struct {
	cfg ExecutorConfig
	log *slog.Logger
}

// NewExecutor validates cfg.
func NewExecutor(cfg ExecutorConfig) (*Executor, error) {
	var problems []error
	if cfg.Client == nil {
		problems = append(problems, errors.New("emergency: the client is nil; give that of the guard"))
	}
	if cfg.Desk == nil {
		problems = append(problems, errNoDesk)
	}
	if cfg.Guard == nil {
		problems = append(problems, errors.New("emergency: the guard is nil; give a *lockguard.Guard"))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	e := &Executor{cfg: cfg, log: cfg.Logger}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	return e, nil
}

// Run does what there is to do until ctx ends. It returns when all that it held
// is given back: others take it up then. Call it once.
func (e *Executor) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { e.sweep(ctx) })
	duties := make(map[string]*duty)
	for {
		active, changed := e.cfg.Desk.Active()
		there := make(map[string]bool, len(active))
		for _, a := range active {
			there[a.ID] = true
			if d := duties[a.ID]; d != nil {
				d.update(a)
				continue
			}
			d := newDuty(ctx, e, a)
			duties[a.ID] = d
			running.Go(d.run)
		}
		for id, d := range duties {
			if !there[id] {
				d.end(e.now())
				delete(duties, id)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (e *Executor) now() time.Time { return e.cfg.Desk.now() }

// auditTimeout bounds the writing of one entry.
const auditTimeout = 5 * time.Second

// audit writes an entry, also when ctx has ended.
func (e *Executor) audit(ctx context.Context, entry opstore.AuditEntry) error {
	if e.cfg.Auditor == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer cancel()
	return e.cfg.Auditor.Audit(ctx, entry)
}

// entry is what all entries about an override say.
func (a Active) entry(action opstore.AuditAction, phase opstore.AuditPhase) opstore.AuditEntry {
	entry := opstore.AuditEntry{
		Action: action, Phase: phase, Scope: a.Match.Scope, Job: a.Match.Job, By: a.By, Reason: a.Reason, Override: a.ID,
		After: map[string]string{"override": a.String(), "source": string(a.Source)},
	}
	if a.PostedBy != "" {
		entry.After["posted_by"] = a.PostedBy
	}
	if phase == opstore.AuditOutcome {
		entry.Result = opstore.AuditDone
	}
	return entry
}

// failed makes an outcome that of something that was not done.
func failed(entry opstore.AuditEntry, err error) opstore.AuditEntry {
	entry.Result, entry.Error = opstore.AuditFailed, err.Error()
	return entry
}
