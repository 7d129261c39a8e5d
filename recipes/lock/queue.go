package lock

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/call"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// restFor is how long a request waits on its own node alone before it arms
// watches on others: a busy lock is handed over sooner than that, and the
// watches would cost more than the wait. Only the next waiter watches the one
// in front right away; who stands behind is granted by a hand-over.
func restFor(before int) time.Duration {
	return min(time.Duration(before)*25*time.Millisecond, 250*time.Millisecond)
}

// queue is T2: it joins the queue and waits for the grant.
func (a *attempt) queue(ctx context.Context, s *zkclient.Session) (*Grant, error) {
	l := a.l
	a.below, a.suspects = a.outranksSeen(), nil
	if a.below && len(a.seen) <= maxScouted {
		a.suspects = a.seen
	}
	a.seen = nil // a list that each of many requests keeps is many lists
	for {
		if err := a.renew(ctx); err != nil {
			return nil, err
		}
		data := newRecord(l.c, a.req).encode()
		guid := newRequestGUID(data)
		sent := s.Now()
		path, err := s.Create(ctx, l.path+"/"+contenderName(a.req.Priority, a.req.Mode, guid), data,
			zkclient.FlagEphemeral|zkclient.FlagSequence)
		switch {
		case errors.Is(err, zkclient.ErrNoNode):
			if err := s.Ensure(ctx, l.path); err != nil && !errors.Is(err, zkclient.ErrAmbiguous) {
				return nil, err
			}
			continue
		case errors.Is(err, zkclient.ErrAmbiguous):
			if path, err = findContender(ctx, s, l.path, guid); err != nil {
				a.undo(s, guid)
				return nil, err
			}
			if path == "" {
				continue
			}
		case err != nil:
			return nil, err
		}
		a.queued = true
		a.joined(guid)
		p := newPlace(a, s, guid, path, sent, s.Now())
		if a.req.Mode == priority.Exclusive {
			p.trust = l.cache.hints.get(l.path).trust(a.req.Priority, p.joined, time.Now())
		}
		return p.stay(ctx)
	}
}

// stay waits for the grant at one place after the other, and leaves the queue if
// there is none.
func (p *place) stay(ctx context.Context) (*Grant, error) {
	for {
		g, err := p.wait(ctx)
		p.forget()
		switch {
		case p.moved != nil: // errMoved
			p = p.moved
			continue
		case err != nil:
			p.leave()
		case p.sawG: // the watch may have come after the last write of G
			p.s.Client().Background(func() { p.a.l.cache.fireIdle(context.Background(), p.s, p.a.l.path) })
		}
		return g, err
	}
}

// wait stays at this place until the grant.
func (p *place) wait(ctx context.Context) (*Grant, error) {
	defer p.tidy()
	for {
		g, after, err := p.decide(ctx)
		// planted-bug dead-waiter-goes-on: if p.goesOn(ctx, err) { continue }
		switch {
		case isFinal(err):
			return nil, err
		case errors.Is(err, zkclient.ErrAmbiguous), errors.Is(err, errAgain):
			continue // reads decide, as soon as there is a connection
		case g != nil || err != nil:
			return g, err
		}
		p.tidy()
		if err := p.block(ctx, after); err != nil {
			// planted-bug dead-waiter-goes-on: if p.goesOn(ctx, err) { continue }
			if p.granted.Load() && errors.Is(err, call.ErrTimeout) {
				continue
			}
			return nil, err
		}
	}
}

func (p *place) block(ctx context.Context, after time.Duration) error {
	timer := time.NewTimer(after)
	defer timer.Stop()
	p.stirred = ""
	select {
	case <-p.wake:
		p.calm, p.follows, p.stirred = false, "", p.front
	case <-timer.C:
		p.calm, p.polled = p.seen, p.follows != ""
	case <-p.a.changed:
		p.follows = ""
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.s.Over():
		return p.s.Err()
	}
	return nil
}

// decide looks at the lock and does what is to be done: it returns the grant,
// or how long to wait before the next look unless something happens.
//
//nolint:cyclop,funlen // the whole decision of a waiter stands in one place, as in the model
func (p *place) decide(ctx context.Context) (*Grant, time.Duration, error) {
	if p.granted.Load() {
		g, err := p.handedOver(ctx, 0)
		return g, 0, err
	}
	// The watch on the own node comes first: a grant after it fires the watch, one
	// before it is read.
	if p.stale.Load() {
		p.stale.Store(false)
		if !p.known && p.a.scouts() && p.trust == nil {
			p.scout(ctx)
			defer p.recall()
		}
		data, stat, err := p.s.Look(ctx, p.path, &p.own)
		switch {
		case errors.Is(err, zkclient.ErrNoNode):
			return nil, 0, p.evicted(ctx) // planted-bug dead-waiter-goes-on: return p.weigh(ctx)
		case err != nil:
			p.stale.Store(true)
			return nil, 0, err
		}
		p.learn(stat)
		rec, err := decodeContender(data)
		if err != nil { // overwritten; whether it was granted, G tells
			if err := p.mend(ctx, stat); err != nil {
				return nil, 0, err
			}
			return p.weigh(ctx)
		}
		p.settleRewrite(&rec)
		if rec.Granted {
			g, err := p.handedOver(ctx, rec.token(stat))
			return g, 0, err
		}
	} else if p.gone.Load() { // planted-bug dead-waiter-goes-on: } else if false {
		return nil, 0, p.evicted(ctx)
	}
	if err := p.revise(ctx); err != nil {
		return nil, 0, err
	}
	if p.polled {
		p.polled = false
		if quiet, err := p.undisturbed(ctx); quiet || err != nil {
			return nil, zkclient.SafetyPoll, err
		}
	}
	if p.trust != nil {
		if rest, err := p.rely(ctx); rest > 0 || err != nil {
			return nil, rest, err
		}
	}
	if front := p.stirred; front != "" {
		p.stirred = ""
		if next, err := p.isNext(ctx, front); next || err != nil {
			return nil, restFor(1), err
		}
	}
	if p.beaten {
		p.beaten = false
		if err := p.knock(ctx); err != nil {
			return nil, 0, err
		}
	}
	// A shared request that stands behind others may hold beside them.
	if !p.calm && len(p.asks) == 0 && p.a.req.Mode == priority.Exclusive && !p.a.below {
		grant, rest, err := p.glance(ctx)
		if grant != nil || rest > 0 || err != nil {
			return grant, rest, err
		}
	}
	return p.weigh(ctx)
}

// handedOver makes a grant of what another's transaction has given. The token
// is 0 if it was not read.
func (p *place) handedOver(ctx context.Context, token Token) (*Grant, error) {
	g := p.newGrant()
	g.token, g.version, g.next = token, -1, p.heir
	if p.seizure != nil {
		if err := p.settle(ctx, g); err != nil {
			return nil, err
		}
	}
	p.makePeace()
	wait := p.s.Now().Sub(p.joined)
	p.a.l.cache.hints.update(p.a.l.path, func(h *hint) {
		h.crowded()
		h.waited(wait)
	})
	return p.a.granted(g)
}
