package temporaltesting

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A Rival is another process that has a lock, or wants it. When it is preempted,
// it releases the lock at once.
type Rival struct {
	locks  *Locks
	scope  string
	ticket *lockguard.Ticket
	let    chan struct{} // closed by Release
	gone   chan struct{}
}

// Hold has a rival hold the lock, and returns when it has it. Only the scope has to
// be set; the owner defaults to "rival".
func (l *Locks) Hold(requirement lockguard.Requirement) *Rival {
	l.t.Helper()
	r := l.enter(requirement)
	r.AwaitAcquired()
	return r
}

// Preempt has a rival preempt the holders of the lock. It waits until the code
// under test holds it, and returns when all holders are notified: their contexts
// have ended, and workflows have the news. The rival has the lock when they are gone
// (AwaitAcquired). It is polite, unless the requirement is Forceful: then it takes
// the lock when their cleanup timeout is over.
//
// Only the scope has to be set. A priority of 0 is replaced by one that is higher
// than those of all holders; the owner defaults to "rival".
func (l *Locks) Preempt(requirement lockguard.Requirement) *Rival {
	l.t.Helper()
	scope := requirement.Scope
	l.AwaitHeld(scope)
	l.tracker.mu.Lock()
	holders := l.tracker.ofLocked(scope, held)
	if requirement.Priority == 0 {
		for _, h := range holders {
			requirement.Priority = max(requirement.Priority, h.about.Priority+1)
		}
	}
	l.tracker.mu.Unlock()

	r := l.enter(requirement)
	l.await(scope, fmt.Sprintf("the holders of the lock %q are preempted for a request with priority %d",
		scope, requirement.Priority), func() bool {
		for _, h := range holders {
			if l.tracker.requests[h.about.ID] == h && !h.asked {
				return false
			}
		}
		return true
	})
	l.settle(scope)
	return r
}

// enter has a rival ask for a lock.
func (l *Locks) enter(requirement lockguard.Requirement) *Rival {
	l.t.Helper()
	requirement.Owner = cmp.Or(requirement.Owner, "rival")
	if err := requirement.Validate(); err != nil {
		l.t.Fatalf("temporaltesting: the requirement of a rival: %v", err)
	}
	if requirement.MinRuntime > 0 {
		l.tracker.mu.Lock()
		l.tracker.protected[requirement.Scope] = true
		l.tracker.mu.Unlock()
	}
	ctx, end := context.WithCancel(l.ctx)
	r := &Rival{
		locks: l, scope: requirement.Scope, ticket: l.rivals.Enqueue(ctx, requirement), let: make(chan struct{}),
		gone: make(chan struct{}),
	}
	l.others.Go(func() {
		defer close(r.gone)
		defer end()
		<-r.ticket.Done() // also when the test ends
		hold, err := r.ticket.Hold()
		if err != nil {
			return
		}
		select {
		case <-r.let:
		case <-hold.Context().Done():
		}
		_ = hold.Release(context.WithoutCancel(ctx))
	})
	return r
}

// AwaitAcquired waits until the rival has had its lock, and returns the fencing
// token.
func (r *Rival) AwaitAcquired() lockguard.Token {
	l := r.locks
	l.t.Helper()
	timer := time.NewTimer(l.tracker.patience)
	defer timer.Stop()
	select {
	case <-r.ticket.Done():
	case <-timer.C:
	}
	hold, err := r.ticket.Hold()
	if err != nil {
		l.t.Fatalf("temporaltesting: a rival gets the lock %q: %v; now: %s", r.scope, err, l.tracker.now(r.scope))
		return 0
	}
	return hold.Token()
}

// Release gives the lock back, and returns when it is with the next waiter. A rival
// that does not have it yet gives it back as soon as it gets it: then Release does
// not wait. Once is enough: more does nothing.
func (r *Rival) Release() {
	l := r.locks
	l.t.Helper()
	l.mu.Lock()
	select {
	case <-r.let:
	default:
		close(r.let)
	}
	l.mu.Unlock()
	select {
	case <-r.ticket.Done():
	default:
		return
	}
	<-r.gone
	l.settle(r.scope)
}

// Lose takes the lock of a scope away from the code under test without asking it, as
// an operator does who breaks it. It waits until the code holds it, and returns when
// it knows: contexts have ended with a *lockguard.LostError, and workflows have the
// news.
func (l *Locks) Lose(scope string) {
	l.t.Helper()
	token := l.AwaitHeld(scope).Token
	_, err := l.client.Break(l.ctx,
		lock.BreakRequest{Scope: scope, Token: token, By: "test", Reason: "the test takes it away"})
	if err != nil {
		l.t.Fatalf("temporaltesting: the lock %q is lost: %v; now: %s", scope, err, l.tracker.now(scope))
	}
	l.awaitGone(scope, token)
}

// Expire ends the ZooKeeper session of the worker, and with it all locks of the code
// under test. It returns when it knows. What waits queues anew.
func (l *Locks) Expire() {
	l.t.Helper()
	l.tracker.mu.Lock()
	tokens := make(map[string]lockguard.Token)
	for _, r := range l.tracker.requests {
		if r.phase == held && !r.rival {
			tokens[r.about.Scope] = max(tokens[r.about.Scope], r.about.Token)
		}
	}
	l.tracker.mu.Unlock()
	l.expire(workerName)
	for scope, token := range tokens {
		l.awaitGone(scope, token)
	}
}

// expire ends the sessions of a client.
func (l *Locks) expire(name string) {
	for _, session := range l.server.Sessions() {
		if session.Name == name {
			l.server.Expire(session.ID)
		}
	}
}

// awaitGone waits until no code under test holds the lock with a token.
func (l *Locks) awaitGone(scope string, token lockguard.Token) {
	l.t.Helper()
	l.await(scope, fmt.Sprintf("the holder of the lock %q notices that it is lost", scope), func() bool {
		for _, r := range l.tracker.ofLocked(scope, held) {
			if !r.rival && r.about.Token <= token {
				return false
			}
		}
		return true
	})
	l.settle(scope)
}
