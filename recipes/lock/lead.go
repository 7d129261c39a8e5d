package lock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// lead is step 5: the request is first in the queue. It watches the holders,
// and G itself where shared holders or members of a hold are in its way: others
// may come to hold beside them. As long as any other holder is exclusive, G
// cannot change without a change of the holder's node or of this one's.
//
//nolint:cyclop,funlen // the whole decision of a request at its turn stands in one place, as in the model
func (p *place) lead(
	ctx context.Context, stat *zkclient.Stat, g lockRecord, children, alive []child,
) (*Grant, time.Duration, error) {
	l := p.a.l
	delayed, err := p.heed(ctx, stat, g, children)
	if err != nil {
		return nil, 0, err
	}
	if len(alive) == 0 {
		if delayed > 0 {
			p.a.holders = nil
			return nil, delayed, p.expectResume(ctx, stat, g)
		}
		grant, err := p.grantSelf(ctx, stat, g, children, nil)
		return grant, 0, err
	}
	// While others share the lock, what is delayed is delayed for exclusive
	// requests alone: after the unclean end of an exclusive holder there is no
	// holder.
	exclusive := func(c child) bool { return c.mode != priority.Shared }
	if p.a.req.Mode == priority.Shared && len(p.asks) == 0 && !slices.ContainsFunc(alive, exclusive) {
		if len(alive) >= maxSharing {
			return nil, roomAfter, p.awaitRoom(ctx, alive)
		}
		grant, err := p.grantSelf(ctx, stat, g, children, alive) // no holder in its way, whatever the terms
		return grant, 0, err
	}
	holders, err := p.lookAt(ctx, g, alive)
	if errors.Is(err, errStranger) { // who holds the lock
		p.tellQueued(ctx, 1, nil)
		return nil, strangeHolderFor / 4, nil
	} else if err != nil {
		return nil, 0, err
	}
	if p.newcomer(children, holders) || p.a.outdated() {
		return nil, 0, errAgain
	}
	before := p.a.holders
	p.a.holders = p.a.holders[:0:0]
	for _, h := range holders {
		p.a.holders = append(p.a.holders, h.rec.contender(h.child, h.stat))
	}
	switch {
	case !p.told:
		p.told = true
		p.a.notices.Send(Queued{Position: 1, Holders: p.a.holders})
	case hasOthers(p.a.holders, before):
		p.a.notices.Send(Blocked{Holders: p.a.holders})
	}

	if p.othersThanPending(holders) {
		return nil, 0, cmp.Or(p.pendingOver(ctx), errAgain)
	}

	facts := p.facts(holders)
	v := priority.Judge(facts)
	impatient := v.Action == priority.GiveUp
	if impatient && p.a.req.Patient {
		facts.Request.WaitingTimeout = nil
		v = priority.Judge(facts)
	}
	again := false
	for _, ask := range v.Asks {
		switch err := p.preempt(ctx, children, holders[ask.Holder], ask); {
		case errors.Is(err, errAgain):
			again = true // of this one; the others need not wait for that
		case err != nil:
			return nil, 0, err
		}
	}
	if slices.ContainsFunc(holders, func(h *holding) bool { return h.mayGrow() && !p.admits(h) }) {
		now, err := p.watchG(ctx)
		if err != nil {
			return nil, 0, err
		}
		again = again || now != stat.Version
	}
	if again {
		return nil, 0, errAgain
	}
	if impatient && p.a.req.Patient && p.a.pending == nil {
		for _, h := range holders {
			p.a.pending = append(p.a.pending, h.hold())
		}
		p.a.notices.Send(CleanupPending{Holders: p.a.holders, Waited: p.oldestAsk()})
	}
	switch v.Action {
	case priority.Grant:
		if len(alive) >= maxSharing {
			return nil, roomAfter, nil
		}
		grant, err := p.grantSelf(ctx, stat, g, children, alive)
		return grant, 0, err
	case priority.Preempt: // done
	case priority.TakeOver:
		if !g.delaysAfter(alive) && delayed > 0 {
			return nil, delayed, nil // an eviction would gain nothing before that
		}
		grant, err := p.takeOver(ctx, stat, g, children, holders)
		return grant, 0, err
	case priority.GiveUp:
		return nil, 0, &CleanupPendingError{Scope: l.scope, Waited: p.oldestAsk(), Holders: p.a.holders}
	case priority.Wait:
	default:
		return nil, 0, errors.New("lockkeeper: unexpected verdict " + v.Action.String())
	}
	if v.After < 0 || v.After > zkclient.SafetyPoll {
		return nil, zkclient.SafetyPoll, nil
	}
	return nil, v.After, nil
}

// othersThanPending reports whether the lock has a holder that CleanupPending
// has not named, though it was sent. A member that joins or adopts a hold that
// it has named does not count: else each that helps to clean up would void what
// is decided.
func (p *place) othersThanPending(holders []*holding) bool {
	return p.a.pending != nil &&
		slices.ContainsFunc(holders, func(h *holding) bool { return !slices.Contains(p.a.pending, h.hold()) })
}

// pendingOver tells that what was pending is so no more, and returns when the
// listener knows: what was decided about others must not meet these holders.
func (p *place) pendingOver(ctx context.Context) error {
	p.a.pending = nil
	told := make(chan struct{})
	p.a.notices.SendThen(PendingOver{Holders: p.a.holders}, func() { close(told) })
	select {
	case <-told:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// watchG arms the watch on the lock node, and returns its version.
func (p *place) watchG(ctx context.Context) (version int32, err error) {
	p.watched[p.a.l.path], p.sawG = struct{}{}, true
	_, stat, err := p.s.Look(ctx, p.a.l.path, &p.others)
	if err != nil {
		return 0, err
	}
	return stat.Version, nil
}

// admits reports whether the request may hold the lock beside h.
func (p *place) admits(h *holding) bool { return p.a.req.Mode.Admits(h.rec.Mode) }

// newcomer reports whether a request that was not there when the queue was
// listed, a moment before, has preempted a holder: it may stand in front, and
// its note came too early for the watch on the holder to fire. Each is looked
// for once, for the notes of the dead stay.
func (p *place) newcomer(children []child, holders []*holding) bool {
	found := false
	for _, h := range holders {
		for _, n := range h.rec.Preempt {
			if slices.ContainsFunc(children, func(c child) bool { return c.guid == n.ID }) {
				continue
			}
			if _, known := p.authors[n.ID]; known {
				continue
			}
			if p.authors == nil {
				p.authors = make(map[string]struct{})
			}
			p.authors[n.ID] = struct{}{}
			found = true
		}
	}
	return found
}

// hasOthers reports whether any of these is not among those before.
func hasOthers(these, before []Contender) bool {
	return slices.ContainsFunc(these, func(c Contender) bool {
		return !slices.ContainsFunc(before, func(b Contender) bool { return b.ID == c.ID })
	})
}
