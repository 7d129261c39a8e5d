package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/internal/call"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// attempt is one call of Acquire.
type attempt struct {
	l        *PriorityLock
	req      Request
	start    time.Time
	epoch    int32   // of the root, as it was before the first look at the lock
	queued   bool    // it has stood in the queue
	ahead    int     // waiters in front, as last seen
	seen     []child // contenders, as seen before it joined the queue
	below    bool    // some of them came behind it
	suspects []child // of those, who may hold the lock; nil: too many
	holders  []Contender
	delays   []Delay    // that bar it, as last seen
	delayed  bool       // Delayed was sent for them
	timed    bool       // a try has found out since when
	opened   *taking    // is on its way already, see open; nil: none is
	turn     *localTurn // in its local queue; nil: it does not stand there
	notices  *notices

	// What the request becomes, see Terms.
	made       bool            // it was asked for
	consulted  bool            // in this session
	changed    <-chan struct{} // closed when the terms may have changed; nil: they cannot
	next       *revision       // what it has not become yet
	authorized []string        // guids of the holders that it may evict
	pending    []string        // the holders that CleanupPending named, see holding.hold
}

// run makes the attempt, in one session after the other.
func (a *attempt) run(ctx context.Context) (*Grant, error) {
	c := a.l.c
	var s *zkclient.Session
	var err error
	if a.opened != nil {
		s = a.opened.s
	} else {
		s, err = c.Admit(ctx)
	}
	for err == nil {
		var g *Grant
		g, err = a.in(ctx, s)
		if err == nil {
			return g, nil
		}
		if isFinal(err) || !errors.Is(err, zkclient.ErrSessionOver) || c.IsClosing() {
			if !isFinal(err) && errors.Is(err, call.ErrTimeout) && len(a.holders) == 0 && s.Usable() {
				a.describe(c.Closing(), s)
			}
			break
		}
		if a.queued {
			a.notices.Send(Requeued{Cause: err})
		}
		s, err = c.Usable(ctx)
	}
	return nil, a.explain(err)
}

func (a *attempt) try() bool { return a.req.AcquireTimeout != nil && *a.req.AcquireTimeout == 0 }

// outranksSeen reports whether a request seen so far is outranked, and so may
// be a holder to preempt.
func (a *attempt) outranksSeen() bool {
	return slices.ContainsFunc(a.seen, func(c child) bool { return a.req.Priority.Outranks(c.level()) })
}

// in makes the attempt within one session.
func (a *attempt) in(ctx context.Context, s *zkclient.Session) (*Grant, error) {
	if a.opened == nil {
		a.consulted = false
		if err := a.renew(ctx); err != nil {
			return nil, err
		}
	}
	g, err := a.fast(ctx, s)
	if !errors.Is(err, errCrowded) {
		return g, err
	}
	if !a.try() {
		if err := a.tooMany(a.seen, ""); err != nil {
			return nil, err
		}
		return a.queue(ctx, s)
	}
	a.describe(ctx, s)
	if len(a.holders) == 0 && a.l.unmask(ctx, s, a.seen) {
		if g, err := a.fast(ctx, s); !errors.Is(err, errCrowded) {
			return g, err
		}
		a.describe(ctx, s)
	}
	return nil, a.refuse()
}

// granted makes the session carry a new grant.
func (a *attempt) granted(g *Grant) (*Grant, error) {
	g.mu.Lock() // in a local queue the next request already knows it
	g.req, g.mode = a.req, a.req.Mode
	g.born = g.s.Now()
	g.leaseTo = g.born.Add(a.req.LeaseTimeout)
	g.mu.Unlock()
	g.watch = func(zkclient.WatchKind) {
		g.blink()
		go g.changed()
	}
	g.around = g.stir
	g.blink() // it may have been evicted before it learns of its grant
	if !g.s.Hold((*grantTenant)(g)) {
		// Granted at the server, but too late for this session to vouch for.
		g.s.Discard(g.path)
		return nil, fmt.Errorf("%w: it was cut off when the lock was granted", zkclient.ErrSessionOver)
	}
	g.watchLater()
	return g, nil
}

// joined tells under which guid the request stands in the queue, if that may be
// referred to.
func (a *attempt) joined(guid string) {
	if a.req.Hold != "" {
		a.notices.Send(Joined{ID: guid})
	}
}

// refuse describes why a try fails.
func (a *attempt) refuse() error {
	a.ahead = 0
	for _, c := range a.seen {
		holds := slices.ContainsFunc(a.holders, func(h Contender) bool { return h.ID == c.guid })
		if !holds && !a.req.Priority.Outranks(c.level()) {
			a.ahead++
		}
	}
	return &NotAcquiredError{Scope: a.l.scope, Holders: a.holders, Delays: a.delays, Ahead: a.ahead}
}

// describe learns who has the lock, for an error message.
func (a *attempt) describe(ctx context.Context, s *zkclient.Session) {
	if state, err := a.l.c.snapshot(ctx, s, a.l.scope, a.l.path, false); err == nil {
		a.holders = state.Holders
		if delays := state.delaysOf(a.req.Mode); len(delays)+len(a.holders) > 0 { // else they were over just now
			a.delays, a.delayed = delays, false
		}
	}
}

// explain turns the error that ended an attempt into the error that its caller
// gets.
func (a *attempt) explain(err error) error {
	waited := time.Since(a.start)
	switch {
	case isFinal(err):
	case errors.Is(err, zkclient.ErrSessionOver) && a.l.c.IsClosing():
		return zkclient.ErrClosed
	case errors.Is(err, call.ErrTrySlow):
		return a.l.c.Unavailable()
	case errors.Is(err, call.ErrTimeout):
		e := &NotAcquiredError{Scope: a.l.scope, Waited: waited, Holders: a.holders, Delays: a.delays, Ahead: a.ahead}
		if gone, ok := errors.AsType[*zkclient.UnavailableError](err); ok {
			e.Err = gone
		}
		return e
	}
	return err
}
