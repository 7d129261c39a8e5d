package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// takeOver is T7: every holder has had its grace. All of them are in the way:
// an exclusive one has the lock alone, and shared ones are in the way of an
// exclusive request alone. It returns errAgain when those had a lock-delay: the
// lock is free then, and not granted until that is over.
func (p *place) takeOver(
	ctx context.Context, stat *zkclient.Stat, g lockRecord, children []child, holders []*holding,
) (*Grant, error) {
	if err := p.a.vouch(ctx, &p.a.req); err != nil {
		return nil, err
	}
	if p.a.req.Authorize != nil {
		if err := p.authorize(ctx, holders); err != nil {
			return nil, err
		}
	}
	ops := make([]any, 0, len(holders)+2)
	now := p.stamp.NotAhead(p.s.Now())
	var evicted []evictionNote
	var from []Contender
	for _, h := range holders {
		ops = append(ops, &zkclient.DeleteRequest{Path: h.path, Version: -1})
		reason := priority.Outranked
		if ask := p.asks[h.guid]; ask != nil {
			if _, lease := ask.reasons[priority.LeaseExpired]; lease {
				reason = priority.LeaseExpired
			}
		}
		evicted = append(evicted, evictionNote{
			ID: h.guid, Owner: h.rec.Owner, By: p.a.req.Owner, Reason: reason, Override: p.a.req.Override, At: now,
		})
		from = append(from, h.rec.contender(h.child, h.stat))
	}
	// planted-bug one-reader-evicted: ops = ops[:min(1, len(ops))]
	evicted = brief(evicted)
	next := lockRecord{Evicted: g.evict(evicted...)}
	left := slices.DeleteFunc(slices.Clone(children), func(c child) bool { // by the time of the write
		return slices.ContainsFunc(holders, func(h *holding) bool { return h.guid == c.guid })
	})
	delayed := g.delaysAfter(aliveOf(holders))
	if delayed {
		next.Delays = g.carry(stat, left)
		ops = append(ops,
			&zkclient.CheckVersionRequest{Path: p.path, Version: -1},
			&zkclient.SetDataRequest{Path: p.a.l.path, Data: next.encode(), Version: stat.Version})
	} else {
		ops = append(ops,
			&zkclient.SetDataRequest{Path: p.path, Data: p.grantedData(), Version: p.version}, // planted-bug dead-waiter-goes-on:
			&zkclient.SetDataRequest{Path: p.a.l.path, Data: p.joining(next).encode(), Version: stat.Version})
	}
	p.seizure = &seizure{evicted: evicted, from: from, delayed: delayed}
	r, _, err := p.s.Multi(ctx, ops...)
	switch {
	case err == nil:
		p.asks = make(map[string]*standingAsk)
		// planted-bug dead-waiter-goes-on: r = p.mark(ctx, r)
		p.a.notices.Send(TakenOver{From: from})
	case errors.Is(err, zkclient.ErrAmbiguous):
		return nil, err
	}
	p.seizure = nil
	if delayed && err == nil {
		return nil, errAgain
	}
	// planted-bug one-reader-evicted: holders = holders[:min(1, len(holders))]
	return p.ownGrant(r, len(holders), next, err)
}

// authorize lets the caller agree to the eviction of these holders, unless it
// has done so. It returns errAgain after that: much may have happened meanwhile.
func (p *place) authorize(ctx context.Context, holders []*holding) error {
	guids := make([]string, 0, len(holders))
	for _, h := range holders {
		guids = append(guids, h.guid)
	}
	slices.Sort(guids)
	if slices.Equal(guids, p.a.authorized) {
		return nil
	}
	if err := p.a.req.Authorize(ctx, slices.Clone(p.a.holders)); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &finalError{fmt.Errorf("lock %q not acquired: the takeover was not authorized: %w", p.a.l.scope, err)}
	}
	p.a.authorized = guids
	return errAgain
}

// seizure is a takeover whose fate is not known.
type seizure struct {
	evicted []evictionNote // by it
	from    []Contender
	delayed bool // it grants nothing yet
}

// happened reports whether the lock node tells of the takeover.
func (s *seizure) happened(g lockRecord) bool {
	for _, n := range s.evicted {
		if !slices.ContainsFunc(g.Evicted, n.same) {
			return false
		}
	}
	return true
}

// settle finds out, for a grant, whether it is due to the takeover.
func (p *place) settle(ctx context.Context, g *Grant) error {
	data, _, err := p.s.Get(ctx, p.a.l.path)
	if err != nil {
		return err
	}
	record, err := decodeLock(data)
	if err == nil && slices.Contains(record.Holders, p.guid) && p.seizure.happened(record) {
		g.evicted = record.Evicted
		p.a.notices.Send(TakenOver{From: p.seizure.from})
	}
	p.seizure = nil
	return nil
}

// settleDelayed finds out what became of a takeover that grants nothing yet.
func (p *place) settleDelayed(g lockRecord) {
	if p.seizure == nil || !p.seizure.delayed {
		return
	}
	if p.seizure.happened(g) {
		p.asks = make(map[string]*standingAsk)
		p.a.notices.Send(TakenOver{From: p.seizure.from})
	}
	p.seizure = nil
}
