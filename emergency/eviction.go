package emergency

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// Broken is what has come of Break.
type Broken struct {
	Act    string         // what the audit trail calls it; "": the lock was not broken
	Begun  string         // likewise, also when it is not known whether it was; "": nothing was begun
	Victim lock.Contender // who had the lock
	After  lock.State     // the lock a moment later
}

// Break takes a lock from the holder with a token, at once and without asking it.
// With an Act in what it returns the lock was broken, also if there is an error.
func (o *Operator) Break(ctx context.Context, scope string, token lock.Token, by By) (Broken, error) {
	d := &deed{
		trail: o.trail, entry: opstore.AuditEntry{Action: opstore.AuditBreak, Scope: scope, By: by.Name, Reason: by.Reason},
	}
	victim, err := o.client.Break(ctx, lock.BreakRequest{
		Scope: scope, Token: token, By: by.Name, Reason: by.Reason,
		Authorize: func(ctx context.Context, holders []lock.Contender) error { return d.intend(ctx, holders...) },
	})
	var broken Broken
	if err == nil {
		broken = Broken{Act: d.entry.Act, Victim: victim, After: WhatIsNext(ctx, o.client, scope, victim.ID)}
		d.after(broken.After)
	}
	err = errors.Join(err, d.tell(ctx, err))
	broken.Begun = d.entry.Act // it is not begun any more after that
	return broken, err
}

// A Preemption says whom to preempt, and how.
type Preemption struct {
	Scope string
	By    By

	// Token is that of the holder that is meant; 0: any holder of the lock.
	Token lock.Token

	// Force takes the lock when the time to clean up is over, which is Grace at
	// most; nil: the cleanup timeout of the holder.
	Force bool
	Grace *time.Duration

	// Waiting is how long the holder is waited for without Force. Defaults to
	// Politeness.
	Waiting time.Duration

	// Asked, when set, is called with the name of the act once it is on record,
	// right before the holder is asked. If the context has ended by the time that it
	// returns, the holder is not asked.
	Asked func(act string)
}

// Politeness is how long a holder is waited for.
const Politeness = time.Minute

// What comes of a Preemption.
const (
	PreemptedGone    = "gone"    // the holders have released the lock
	PreemptedTaken   = "taken"   // they were evicted
	PreemptedPending = "pending" // they have not gone in time; the request is withdrawn
	PreemptedFree    = "free"    // the lock had no holder
)

// Preempted is what has come of Preempt.
type Preempted struct {
	Outcome string        // "": nothing was done
	Mark    string        // the ID by which the holders know it
	Act     string        // what the audit trail calls it; "": nothing was done
	Took    time.Duration // until the lock was there, or the request withdrawn

	Before, After lock.State
}

// NewMark names what is done in the name of a person.
func (p Preemption) NewMark() *lock.Mark {
	return &lock.Mark{ID: "preempt-" + strings.ToLower(rand.Text()[:6]), By: p.By.Name, Reason: p.By.Reason}
}

// Request is what preempts the holders. It does not wait for longer than they
// may take: one at emergency priority is not preempted.
func (p Preemption) Request(s lock.State, mark *lock.Mark) lock.Request {
	const more = 5 * time.Second // for the way
	r := lock.Request{
		Identity: priority.Identity{Owner: mark.By, Message: "preempts the holder: " + mark.Reason}, Terms: priority.Terms{
			Priority: priority.Emergency,
			Forceful: p.Force, LeaseTimeout: time.Minute,
		}, Override: mark,
	}
	if p.Force {
		r.WaitingTimeout = p.Grace
		var longest time.Duration
		for _, h := range s.Holders {
			longest = max(longest, h.CleanupTimeout)
		}
		if r.WaitingTimeout != nil {
			longest = min(longest, *r.WaitingTimeout)
		}
		r.AcquireTimeout = new(longest + more)
		return r
	}
	waiting := p.Waiting
	if waiting <= 0 {
		waiting = Politeness
	}
	r.WaitingTimeout = &waiting
	r.AcquireTimeout = new(waiting + more)
	return r
}

// Preempt preempts the holders of a lock, as state shows them, and returns when
// they have released it, or have not in time: the outcome is PreemptedPending then, without an
// error. It returns a *lock.StaleTokenError or a *lock.NotHeldError when the
// holder that is meant has the lock no longer.
func (o *Operator) Preempt(ctx context.Context, p Preemption, state lock.State, mark *lock.Mark) (Preempted, error) {
	done := Preempted{Mark: mark.ID, Before: state, After: state}
	if err := p.meant(state.Holders); err != nil {
		return done, err
	}
	if !state.Held() {
		done.Outcome = PreemptedFree
		return done, nil
	}
	r := p.Request(state, mark)
	asking, taking := o.deeds(p, r.Owner, r.Priority, mark)
	evicted := p.recordTakeover(&r, taking)
	l, err := o.client.PriorityLock(p.Scope)
	if err != nil {
		return done, err
	}
	if err := asking.intend(ctx, state.Holders...); err != nil {
		return done, err
	}
	done.Act = asking.entry.Act
	cleared, err := o.post(ctx, p.Scope, r)
	if err != nil {
		return done, errors.Join(err, asking.tell(ctx, err))
	}
	defer cleared()
	if p.Asked != nil {
		p.Asked(done.Act)
	}
	if ctx.Err() != nil {
		err := fmt.Errorf("lock %q not preempted: %w", p.Scope, context.Cause(ctx))
		return done, errors.Join(err, asking.tell(ctx, err))
	}
	start := time.Now()
	grant, failure := l.Acquire(ctx, r)
	done.Took = time.Since(start)
	var mine []string
	if failure == nil {
		mine = append(mine, grant.ID())
		failure = grant.Release(context.WithoutCancel(ctx))
	}
	done.After = WhatIsNext(ctx, o.client, p.Scope, mine...)
	outcome := PreemptedGone
	if evicted.Load() || slices.ContainsFunc(done.After.Evicted, func(e lock.Eviction) bool {
		return e.Override != nil && e.Override.ID == mark.ID
	}) {
		outcome = PreemptedTaken
	}
	if failure == nil {
		asking.after(done.After)
		taking.after(done.After)
	}
	told := errors.Join(asking.tell(ctx, failure), taking.tell(ctx, failure))
	switch {
	case lock.IsNotAcquired(failure):
		done.Outcome = PreemptedPending
		return done, told
	case failure != nil:
		return done, errors.Join(failure, told)
	}
	done.Outcome = outcome
	return done, told
}

// deeds are what the audit trail has of a preemption: that it was asked for, and, if it comes
// to that, that the lock was taken by force.
func (o *Operator) deeds(p Preemption, owner string, level priority.Level, mark *lock.Mark) (asking, taking *deed) {
	asking = &deed{trail: o.trail, entry: opstore.AuditEntry{
		Action: opstore.AuditPreempt, Scope: p.Scope, By: p.By.Name, Reason: p.By.Reason, Override: mark.ID,
		Requestor: &opstore.AuditParty{Owner: owner, Priority: level},
	}}
	taking = &deed{trail: o.trail, entry: asking.entry}
	taking.entry.Action = opstore.AuditTakeover
	return asking, taking
}

// recordTakeover has the request put a takeover on record before it is done, and returns whether
// one was.
func (p Preemption) recordTakeover(r *lock.Request, taking *deed) (evicted *atomic.Bool) {
	r.Authorize = func(ctx context.Context, holders []lock.Contender) error {
		if err := p.meant(holders); err != nil {
			return err
		}
		return taking.intend(ctx, holders...)
	}
	evicted = new(atomic.Bool)
	r.Notify = func(n lock.Notice) {
		if _, ok := n.(lock.TakenOver); ok {
			evicted.Store(true)
		}
	}
	return evicted
}

// meant says why the holder that is meant is not among these; nil if it is.
func (p Preemption) meant(holders []lock.Contender) error {
	switch {
	case p.Token == 0 || slices.ContainsFunc(holders, func(h lock.Contender) bool { return h.Token == p.Token }):
		return nil
	case len(holders) == 0:
		return &lock.NotHeldError{Scope: p.Scope, Token: p.Token}
	}
	return &lock.StaleTokenError{Scope: p.Scope, Token: p.Token, Holders: holders}
}

// posted is how long what is posted for a preemption outlasts it at most, if it
// cannot be taken back.
const posted = 15 * time.Second

// post puts on the board, for as long as the request takes, what it is made in the
// name of: no request is at emergency priority without. It concerns no job, since none
// is called that.
func (o *Operator) post(ctx context.Context, scope string, r lock.Request) (cleared func(), err error) {
	now, err := o.client.Time(ctx)
	if err != nil {
		return nil, err
	}
	board := o.client.Overrides()
	_, err = board.Apply(ctx, override.Override{
		ID: r.Override.ID, Kind: override.Boost, Match: override.Match{Scope: scope, Job: r.Override.ID},
		Priority: new(priority.Emergency),
		Until:    now.Add(*r.AcquireTimeout + posted), By: r.Override.By, Reason: r.Override.Reason,
	})
	cleared = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recording)
		defer cancel()
		_, _ = board.Clear(ctx, r.Override.ID) // else it ends by itself
	}
	if err != nil {
		if ctx.Err() != nil { // it may be there all the same
			cleared()
		}
		return nil, fmt.Errorf("lock %q not preempted: %w", scope, err)
	}
	return cleared, nil
}

// succession is how long it takes at most until the next one holds a lock that
// has become free: more, and it is not told who that is.
const succession = 2 * time.Second

// WhatIsNext reads a lock until it has another holder than those who have gone, or
// no waiters.
func WhatIsNext(ctx context.Context, client *lock.Client, scope string, gone ...string) lock.State {
	ctx, cancel := context.WithTimeout(ctx, succession)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	last := lock.State{Scope: scope}
	for {
		state, err := client.Lock(ctx, scope)
		if err != nil {
			return last
		}
		state.Holders = slices.DeleteFunc(state.Holders, func(h lock.Contender) bool { return slices.Contains(gone, h.ID) })
		if last = state; state.Held() || len(state.Waiters) == 0 {
			return state
		}
		select {
		case <-ctx.Done():
			return last
		case <-again.C:
		}
	}
}
