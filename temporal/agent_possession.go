package temporal

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A possession is a lock that is held for a workflow, or waited for, in this
// process. Keepers come and go; it stays.
type possession struct {
	ctx    context.Context // from which the Hold derives; ends when it is gone
	cancel context.CancelFunc

	ticket pendingLock // nil: it was taken over
	lock   heldLock    // nil: it is waited for
	asked  error       // why it was preempted before it was joined; nil: it was not

	vacated chan struct{} // closed when the workflow does not need it any more
	gone    chan struct{} // closed when it is given away, or lost
	vacate  sync.Once
	depart  sync.Once

	mu    sync.Mutex
	timer *time.Timer   // while no keeper has it
	idle  chan struct{} // closed when that is over
}

// newPossession returns one whose spans are parts of what ctx is about. It does not
// end with it.
func newPossession(ctx context.Context) *possession {
	p := &possession{vacated: make(chan struct{}), gone: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return p
}

// request asks for the lock.
func (p *possession) request(locks lockService, requirement lockguard.Requirement) {
	p.ticket = locks.enqueue(p.ctx, requirement)
}

// adopt takes the lock over from the process that has it by that reference; or becomes a
// member of the hold when only others of it are there.
func (p *possession) adopt(
	ctx context.Context, locks lockService, requirement lockguard.Requirement, reference lockguard.Reference,
) error {
	stop := context.AfterFunc(ctx, p.cancel)
	requirement.Hold, requirement.AcquireTimeout = reference.Hold, nil
	lock, err := locks.adopt(p.ctx, requirement, reference)
	if heldByOthers(err) {
		lock, err = locks.join(p.ctx, requirement, reference, false)
		if i, _ := interruptionBy(err, reference); err != nil && i.Held() {
			p.asked = err // a member that joins for cleanup is not notified
			lock, err = locks.join(p.ctx, requirement, reference, true)
		}
	}
	if err != nil {
		p.cancel()
		return err
	}
	p.hold(lock, requirement)
	stop() // too late: the context of the Hold has ended, and its keeper sees that
	return nil
}

// hold begins the hold.
func (p *possession) hold(lock heldLock, requirement lockguard.Requirement) {
	p.lock = lock
	if requirement.CleanupTimeout > 0 {
		_ = lock.OnCleanup(func(context.Context) error {
			// What the workflow does is the cleanup.
			select {
			case <-p.vacated:
			case <-lock.Lost():
			}
			return nil
		})
	}
}

// reference is what the next keeper can take over; zero as long as that is not possible.
func (p *possession) reference() lockguard.Reference {
	if p.lock != nil {
		return p.lock.Reference()
	}
	if p.ticket != nil {
		if r, ok := p.ticket.Reference(); ok {
			return r
		}
	}
	return lockguard.Reference{}
}

// leave begins the end of the hold: at once, or after cleanup.
func (p *possession) leave() {
	p.depart.Do(func() {
		go func() {
			defer close(p.gone)
			defer p.cancel()
			lock := p.lock
			if lock == nil { // it may be granted in this moment
				p.cancel()
				<-p.ticket.Done()
				if lock, _ = p.ticket.held(); lock == nil {
					return
				}
			}
			_ = lock.Release(context.WithoutCancel(p.ctx)) // tried on in the background
		}()
	})
}

// release gives the lock away, and waits until that is done, or ctx ends.
func (p *possession) release(ctx context.Context) error {
	p.vacate.Do(func() { close(p.vacated) })
	p.leave()
	return await(ctx, p.gone)
}

// keep gives the lock away after d, unless it is unkept or taken over
// from elsewhere. Then it calls over.
func (p *possession) keep(d time.Duration, over func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	end := func() {
		if idle := p.claim(); idle != nil {
			over()
			_ = p.release(context.Background())
			close(idle) // not before: a waiter for it may be about to close the client
		}
	}
	idle := make(chan struct{})
	p.idle, p.timer = idle, time.AfterFunc(d, end)
	if p.lock != nil {
		go func() {
			select {
			case <-p.lock.Lost():
				end()
			case <-idle:
			}
		}()
	}
}

// unkeep stops that; false if it is too late.
func (p *possession) unkeep() bool {
	idle := p.claim()
	if idle == nil {
		return false
	}
	close(idle)
	return true
}

// claim returns what its caller has to close; nil: another one has claimed p, or
// no keeper has it.
func (p *possession) claim() (idle chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idle == nil {
		return nil
	}
	p.timer.Stop()
	idle, p.idle = p.idle, nil
	return idle
}

// unwanted is closed when waiting for a successor of p has ended.
func (p *possession) unwanted() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idle == nil {
		return p.gone
	}
	return p.idle
}

// heldByOthers reports whether others are members of the hold yet.
func heldByOthers(err error) bool {
	there, ok := errors.AsType[*lock.NotThereError](err)
	return ok && there.Held
}
