package gocron

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// ErrNotLeader is why a job does not run here: another instance leads, or none
// does right now.
var ErrNotLeader = errors.New("gocron: this instance does not lead")

// An Elector is what gocron.WithDistributedElector asks for. It leads while it
// holds a lock. See NewElector.
type Elector struct {
	guard       Acquirer
	requirement lockguard.Requirement
	logger      *slog.Logger
	stop        context.CancelFunc
	stopped     chan struct{}

	mu   sync.Mutex
	hold *lockguard.Hold // while it leads
}

// NewElector requests the lock that requirement declares until Close, and
// leads while it holds it. Who leads goes to the logger; nil is slog.Default().
//
// Who is more important leads (Requirement.Priority), which a latch does not
// know: an instance on a better machine takes the leadership over when it comes.
// The leader goes when it is asked to. Runs that have begun then go on: gocron has
// no way to tell them, and they are not under the lock. Use Task for what must
// not run twice at a time.
//
// A lease timeout that is unset is a year here: after it the leader can be preempted
// by any other waiter, whatever its priority.
//
// gocron tells neither its locker nor its tasks which tick they run for, and
// its instances compute their ticks on their own clocks. So a lock keeps two runs
// apart, but a job that is done before a late instance comes runs there once
// more (gocron's issue 841). With an elector each instant runs once as long as
// the leader stays; around a change of the leader a tick may run twice, or not
// at all. A tick that runs once in the whole cluster needs a record of the tick,
// not a lock: package scheduler of Lockkeeper keeps one.
func NewElector(guard Acquirer, requirement lockguard.Requirement, logger *slog.Logger) (*Elector, error) {
	if guard == nil {
		return nil, errors.New("gocron: NewElector: the guard is nil; make one with lockguard.New")
	}
	if requirement.LeaseTimeout == 0 {
		requirement.LeaseTimeout = year
	}
	if err := requirement.Validate(); err != nil {
		return nil, err
	}
	if logger == nil {
		logger = slog.Default()
	}
	ctx, stop := context.WithCancel(context.Background())
	e := &Elector{guard: guard, requirement: requirement, logger: logger, stop: stop, stopped: make(chan struct{})}
	go e.campaign(ctx)
	return e, nil
}

// IsLeader returns nil if this instance certainly leads right now, or else an
// error that wraps ErrNotLeader. It does not ask ZooKeeper.
func (e *Elector) IsLeader(context.Context) error {
	e.mu.Lock()
	hold := e.hold
	e.mu.Unlock()
	if hold == nil {
		return ErrNotLeader
	}
	if err := hold.Context().Err(); err != nil {
		return errors.Join(ErrNotLeader, context.Cause(hold.Context()))
	}
	if err := hold.Check(); err != nil {
		return errors.Join(ErrNotLeader, err)
	}
	return nil
}

// Close gives the leadership up, and returns when that is done.
func (e *Elector) Close() {
	e.stop()
	<-e.stopped
}

const year = 365 * 24 * time.Hour

// pause keeps an elector without a connection from retrying as fast as it can.
const pause = time.Second

func (e *Elector) campaign(ctx context.Context) {
	defer close(e.stopped)
	for ctx.Err() == nil {
		hold, err := e.guard.Acquire(ctx, e.requirement)
		if err == nil {
			e.lead(hold)
			continue
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

func (e *Elector) lead(hold *lockguard.Hold) {
	e.set(hold)
	e.logger.Info("this instance leads", "scope", e.requirement.Scope, "token", hold.Token())
	<-hold.Context().Done()
	e.set(nil)
	cause := context.Cause(hold.Context())
	if err := hold.Release(context.Background()); err != nil && !errors.As(err, new(*lockguard.LostError)) {
		e.logger.Warn("the leadership is being given up in the background", "scope", e.requirement.Scope, "error", err)
	}
	e.logger.Info("this instance does not lead any more", "scope", e.requirement.Scope, "cause", cause)
}

func (e *Elector) set(hold *lockguard.Hold) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hold = hold
}

var _ gocron.Elector = (*Elector)(nil)
