package lockguard

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// releaseTimeout is how long a release waits for ZooKeeper's confirmation, and
// then for the observers. It has nothing to do with how long the lock stays.
const releaseTimeout = 5 * time.Second

// A heldLock is a lock from its grant to its end, with all Holds on it: the
// first, and those nested in it.
//
// Contexts are cancelled under mu, so that the causes of nested Holds agree;
// observers are called outside.
type heldLock struct {
	guard      *Guard
	claim      claim // as declared
	early      bool  // granted before other locks that the work needs
	stream     *stream
	grant      grant
	since      time.Time
	unfollow   func()        // ends the watch on overrides
	lostSignal chan struct{} // closed when the lock is lost
	first      *Hold         // that the others are nested in

	mu          mutex
	requirement Requirement // what it was granted for
	lease       lease
	over        bool    // work and hooks have returned
	holds       []*Hold // whose work or hooks have not returned
	asked       error   // the first *PreemptedError, *LeaseExpiredError or *OverriddenError
	overran     bool
	sharing     int // > 0: it is, or may soon be, shared
	risk        risk
	lost        *LostError
}

// heldUnder makes terms what is held. What was declared to begin when all locks
// are held stays as it was.
func (l *heldLock) heldUnder(terms priority.Terms) {
	terms.MinRuntime, terms.AcquireTimeout = l.requirement.MinRuntime, l.requirement.AcquireTimeout
	l.requirement.Terms = terms
	l.lease = lease{length: terms.LeaseTimeout, end: l.since.Add(terms.LeaseTimeout), prolonged: terms.LeaseTimeout}
}

// A leaver gives the lock away if the Hold that has left it was the last one; it
// then waits for ZooKeeper's confirmation, within a limit.
type leaver func(ctx context.Context, limit time.Duration) departure

// remove takes h, whose work and hooks have returned, off the lock.
func (l *heldLock) remove(h *Hold) leaver {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.endLocked()
	l.holds = slices.DeleteFunc(l.holds, func(o *Hold) bool { return o == h })
	lost, cause, since := l.lost, h.cause, h.since
	if len(l.holds) > 0 {
		return func(context.Context, time.Duration) departure { return departure{lost: lost} }
	}
	l.over = true
	l.unfollow()
	return func(ctx context.Context, limit time.Duration) departure {
		return departure{lost, l.release(ctx, limit, cause, since, lost != nil)}
	}
}

// release gives the lock away. It returns a *LostError if the lock may have
// been lost before the work and the hooks returned.
func (l *heldLock) release(ctx context.Context, limit time.Duration, cause error, since time.Time, told bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	began := time.Now()
	err := l.grant.Release(ctx)

	l.mu.Lock()
	took := time.Since(began)
	held := time.Since(l.since)
	lost := l.lost // also when it was noticed meanwhile
	if errors.As(err, &lost); err != nil && lost != nil {
		err = lost
	}
	switch {
	case told:
	case err != nil && lost != nil && lost.Reason != lock.LossSession:
		l.markLostLocked(lost)
		l.stream.note(Lost{held, lost})
	default:
		l.stream.note(Released{held, cause, err, since, took})
	}
	l.mu.Unlock()
	l.stream.deliver()
	l.stream.flush(ctx)
	return err
}

// check returns the loss, also one that was not noticed yet.
func (l *heldLock) check() error {
	err := l.grant.Check()
	lost := (*LostError)(nil)
	l.mu.Lock()
	if errors.As(err, &lost) {
		l.loseLocked(lost) // if the notice has not come yet
	}
	lost = l.lost
	l.mu.Unlock()
	l.stream.deliverSoon()
	if lost != nil {
		return lost
	}
	return err
}

// standing returns why the holder is preempted, or has gone.
func (l *heldLock) standing() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.lost != nil:
		return l.lost
	case l.over:
		return ErrReleased
	}
	return l.asked
}

// isOver reports whether it is too late to change anything.
func (l *heldLock) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over || l.lost != nil
}

// A risk is that a silence of ZooKeeper loses the lock.
type risk struct {
	signal chan struct{} // closed in a silence
	end    time.Time     // when the lock will be lost to that silence
}

// mark says that ZooKeeper is silent.
func (r *risk) mark(end time.Time) {
	r.end = end
	if !isClosed(r.signal) {
		close(r.signal)
	}
}

// now returns what is closed in a silence. The deadline moves on with the answer
// that ends it.
func (r *risk) now(deadline time.Time) <-chan struct{} {
	const sameDeadline = time.Millisecond // computed at another moment
	if isClosed(r.signal) && deadline.Sub(r.end) > sameDeadline {
		r.signal = make(chan struct{})
	}
	return r.signal
}

func (l *heldLock) atRisk() <-chan struct{} {
	deadline := l.grant.Deadline()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.risk.now(deadline)
}

// A mutex guards what happens to a lock. What happens to a member of a bundle
// takes the mutexes of other locks, and so has to wait until this one is free.
type mutex struct {
	sync.Mutex
	later []func()
}

// whenFree has f called by Unlock.
func (m *mutex) whenFree(f func()) { m.later = append(m.later, f) }

// Unlock unlocks m, and does what was left for then.
func (m *mutex) Unlock() {
	later := m.later
	m.later = nil
	m.Mutex.Unlock()
	for _, f := range later {
		f()
	}
}
