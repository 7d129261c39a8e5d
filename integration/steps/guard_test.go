package steps

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

// guarded are scenes of work under lockguard.Guard, with hooks.
var guarded = []scene{
	{
		name: "guard", about: "work after work, under one lock",
		probes: usersLock,
		play: func(s *stage) {
			for i, name := range []string{"A", "B", "C"} {
				s.user(name, time.Duration(i)*100*ms, func(u *user) {
					u.does(lockguard.Requirement{Scope: users, Terms: priority.Terms{CleanupTimeout: 300 * ms}}, 300*ms, 100*ms)
				})
			}
		},
	},
	{
		name: "guard, preempted", about: "work is preempted, its hook runs under the lock, the next begins after that",
		probes: usersLock, stay: 5 * time.Second,
		play: func(s *stage) {
			s.user("A", 0, func(u *user) {
				u.does(lockguard.Requirement{Scope: users, Terms: priority.Terms{Priority: 1, CleanupTimeout: time.Second}}, 3*time.Second, 400*ms)
			})
			s.user("B", 150*ms, func(u *user) {
				u.does(lockguard.Requirement{Scope: users, Terms: priority.Terms{Priority: 5}}, 200*ms, 0)
			})
			s.user("C", 250*ms, func(u *user) {
				u.does(lockguard.Requirement{Scope: users, Terms: priority.Terms{Priority: 1}}, 100*ms, 0)
			})
		},
	},
}

// does runs work for a while under a lock, with a hook that takes a while if
// cleanup is not 0, and checks what it comes to.
func (u *user) does(r lockguard.Requirement, work, cleanup time.Duration) {
	s := u.s
	h := u.asks(r.Scope, priority.Exclusive)
	events := &ends{of: u}
	g, err := lockguard.New(u.client, lockguard.WithOwner(u.name), lockguard.WithObserver(events.see))
	if err != nil {
		s.foul("%v", err)
		return
	}
	over := func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.over = true
	}
	var began, interrupted, cleaned int
	var hooks []lockguard.Hook
	if cleanup > 0 {
		hooks = append(hooks, func(ctx context.Context) error {
			cleaned++
			s.tell(u.name, "cleans up: %v", context.Cause(ctx))
			select {
			case <-time.After(cleanup):
			case <-ctx.Done():
			}
			over()
			return nil
		})
	}
	err = g.Do(u.life, r, func(ctx context.Context) error {
		began++
		s.tell(u.name, "works")
		defer context.AfterFunc(ctx, func() {
			if _, lost := errors.AsType[*lockguard.LostError](context.Cause(ctx)); lost {
				over()
			}
		})()
		s.referee.enters(h)
		select {
		case <-time.After(work):
		case <-ctx.Done():
		}
		if ctx.Err() == nil {
			over()
			return nil
		}
		interrupted++
		if cleanup == 0 {
			over()
		}
		s.tell(u.name, "is interrupted: %v", context.Cause(ctx))
		if _, lost := errors.AsType[*lockguard.LostError](context.Cause(ctx)); lost && !u.excuses(context.Cause(ctx)) {
			s.foul("%s has lost %s: %v", u.name, h.scope, context.Cause(ctx))
		}
		return context.Cause(ctx)
	}, hooks...)
	s.tell(u.name, "is done: error %v", err)
	switch {
	case err == nil && (began != 1 || interrupted > 0):
		s.foul("%s returned without an error; its work began %d times and was interrupted %d times", u.name, began, interrupted)
	case began > 1:
		s.foul("the work of %s began %d times", u.name, began)
	case err != nil && began == 0 && !u.excuses(err):
		s.foul("%s has not got %s: %v", u.name, h.scope, err)
	case err != nil && interrupted == 0 && began > 0 && !u.excuses(err):
		s.foul("%s was not interrupted, and returned: %v", u.name, err)
	case cleanup > 0 && cleaned != interrupted:
		if cleaned != 1 || u.life.Err() == nil && err == nil { // it may have been interrupted right after the work
			s.foul("the work of %s was interrupted %d times, and its hook ran %d times", u.name, interrupted, cleaned)
		}
	}
	events.conclude(began)
}

// ends counts how requests begin and end, by the events.
type ends struct {
	of *user

	mu                                sync.Mutex
	waiting, acquired, refused, ended int
}

func (e *ends) see(_ context.Context, event lockguard.Event) {
	e.of.s.tell(e.of.name, "%T", event.Notice)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refused+e.ended > 0 {
		switch event.Notice.(type) {
		case lockguard.CleanupStarted, lockguard.CleanupDone, lockguard.CleanupOverrun: // after a loss
		default:
			e.of.s.foul("%s saw %T after the end", e.of.name, event.Notice)
		}
	}
	switch event.Notice.(type) {
	case lockguard.Waiting:
		e.waiting++
	case lockguard.Acquired:
		e.acquired++
	case lockguard.NotAcquired:
		e.refused++
	case lockguard.Released, lockguard.Lost:
		e.ended++
	}
}

func (e *ends) conclude(began int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting != 1 || e.refused+e.ended != 1 || e.acquired != e.ended || began > e.acquired {
		e.of.s.foul("%s asked %d times, was granted %d times, refused %d times, and its holds ended %d times; work began %d times",
			e.of.name, e.waiting, e.acquired, e.refused, e.ended, began)
	}
}
