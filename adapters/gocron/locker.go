package gocron

import (
	"context"
	"errors"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// A Locker is what gocron.WithDistributedLocker and
// gocron.WithDistributedJobLocker ask for. See NewLocker.
type Locker struct {
	guard       Acquirer
	requirement func(key string) lockguard.Requirement
}

// Acquirer acquires locks; *lockguard.Guard does.
type Acquirer interface {
	Acquire(ctx context.Context, requirement lockguard.Requirement) (*lockguard.Hold, error)
}

// NewLocker returns a Locker. requirement says which lock a job needs, by the
// job's name: give jobs names (gocron.WithName), because the default is that of
// their Go function. A slash in a name is part of the scope's path.
//
// An acquire timeout that is unset is 0: a job whose lock is held does not run.
// gocron plans nothing more of a job while it waits for its lock.
//
// An error of Lock is seen by the listener gocron.AfterLockError; that of
// Unlock, such as the *lockguard.LostError of a run that had lost its lock, is
// dropped by gocron, but the events of the guard tell it.
func NewLocker(guard Acquirer, requirement func(key string) lockguard.Requirement) (*Locker, error) {
	if guard == nil || requirement == nil {
		return nil, errors.New("gocron: NewLocker: guard and requirement must not be nil; " +
			"make a guard with lockguard.New, and write which lock a job needs")
	}
	return &Locker{guard: guard, requirement: requirement}, nil
}

// Lock acquires the lock of the job with this name.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	hold, err := l.guard.Acquire(ctx, tried(l.requirement(key)))
	if err != nil {
		return nil, err // not a nil *heldLock in an interface
	}
	return &heldLock{hold}, nil
}

// unlockTimeout is how long gocron's Unlock waits. The release is tried on in the
// background after it.
const unlockTimeout = 10 * time.Second

type heldLock struct{ hold *lockguard.Hold }

// Unlock releases the lock, also with a context that has ended: at Shutdown
// gocron gives no other one.
func (l *heldLock) Unlock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
	defer cancel()
	return l.hold.Release(ctx)
}

var _ gocron.Locker = (*Locker)(nil)
