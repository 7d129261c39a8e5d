package lock

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// facts hands the rulebook what it needs.
func (p *place) facts(holders []*holding) priority.Facts {
	now := p.s.Now()
	serverNow := p.stamp.NotAhead(now)
	f := priority.Facts{First: true, Request: p.a.req.rules()}
	asks := make(map[string]*standingAsk, len(holders))
	for _, h := range holders {
		held := priority.Holder{
			Level: h.level(), Mode: h.rec.Mode, // its name has the mode that it came with
			CleanupTimeout: znode.Milliseconds(h.rec.CleanupTimeout),
			Remaining:      h.rec.remaining(h.stat, serverNow),
		}
		// The mailbox says what stands; an ask whose reply was lost counts
		// from now.
		ask := p.asks[h.guid]
		for _, n := range h.rec.Preempt {
			if n.ID != p.guid {
				continue
			}
			if !p.stands(n, h) { // it asks anew, under other terms
				if ask != nil {
					delete(ask.reasons, n.Reason)
				}
				continue
			}
			if ask == nil {
				ask = &standingAsk{reasons: make(map[priority.Reason]zkclient.Instant)}
			}
			at, ok := ask.reasons[n.Reason]
			if !ok {
				at = p.askedOf(h, n, asks, now)
				ask.reasons[n.Reason] = at
				p.a.notices.Send(PreemptSent{
					Holder: h.rec.contender(h.child, h.stat), Reason: n.Reason, Grace: znode.Milliseconds(n.Grace),
				})
			}
			held.Asked = append(held.Asked, priority.Asked{Reason: n.Reason, Ago: now.Sub(at)})
		}
		if ask != nil {
			ask.holder, ask.path, ask.notes = h.rec.contender(h.child, h.stat), h.path, h.rec.notesOf(p.guid, h.stat)
			asks[h.guid] = ask
		}
		f.Holders = append(f.Holders, held)
	}
	lengthen(holders, f.Holders)
	p.asks = asks // those of holders that are gone are gone with them
	return f
}

// stands reports whether a note of this request says what the request would ask
// for now. If not, the holder was promised another grace period, or must learn
// which request it goes for.
func (p *place) stands(n askingNote, h *holding) bool {
	req := &p.a.req
	grace := priority.Grace(n.Reason, req.rules(), znode.Milliseconds(h.rec.CleanupTimeout))
	return n.Forceful == req.Forceful && n.Grace == grace.Milliseconds() && sameMark(n.Override, req.Override)
}

func (p *place) oldestAsk() time.Duration {
	now := p.s.Now()
	var oldest time.Duration
	for _, ask := range p.asks {
		for _, at := range ask.reasons {
			oldest = max(oldest, now.Sub(at))
		}
	}
	return oldest
}

// preempt is T6: it asks a holder to release, by a note in its node. No version of G is needed: a request
// that was in it holds for as long as its node is there, and its node's version
// says that it is as it was judged.
func (p *place) preempt(ctx context.Context, children []child, h *holding, ask priority.Ask) error {
	if err := p.a.vouch(ctx, &p.a.req); err != nil {
		return err
	}
	rec := h.rec
	rec.Preempt = slices.Clone(rec.Preempt)
	rec.freeze(h.stat)
	rec.void(children)
	rec.ask(askingNote{
		ID: p.guid, Owner: p.a.req.Owner, Priority: p.a.req.Priority, Reason: ask.Reason,
		Forceful: p.a.req.Forceful, Grace: ask.Grace.Milliseconds(), Trace: p.a.req.Trace, Override: p.a.req.Override,
	})
	r, _, err := p.s.Multi(ctx,
		&zkclient.CheckVersionRequest{Path: p.path, Version: -1}, // planted-bug dead-waiter-goes-on:
		&zkclient.SetDataRequest{Path: h.path, Data: rec.encode(), Version: h.stat.Version})
	switch {
	case errors.Is(err, zkclient.ErrBadVersion), errors.Is(err, zkclient.ErrNoNode):
		return errAgain
	case err != nil:
		return err
	}
	standing := p.asks[h.guid]
	if standing == nil {
		standing = &standingAsk{
			holder: h.rec.contender(h.child, h.stat), path: h.path, reasons: make(map[priority.Reason]zkclient.Instant),
		}
		p.asks[h.guid] = standing
	}
	standing.reasons[ask.Reason] = p.s.Now()
	standing.notes = rec.notesOf(p.guid, r[1].Stat)
	p.a.notices.Send(PreemptSent{Holder: standing.holder, Reason: ask.Reason, Grace: ask.Grace})
	return nil
}

// withdraw takes this request's notes out of the holders' mailboxes, as well
// as it can: a note whose writer is gone is void anyway.
func (p *place) withdraw(ctx context.Context) { p.withdrawFrom(ctx, p.takeAsks()) }

func (p *place) takeAsks() []*standingAsk {
	asks := slices.Collect(maps.Values(p.asks))
	clear(p.asks)
	return asks
}

func (p *place) withdrawFrom(ctx context.Context, asks []*standingAsk) {
	for _, ask := range asks {
		for tries := 0; tries < 3; {
			err := p.withdrawOne(ctx, ask.path)
			switch {
			case errors.Is(err, zkclient.ErrAmbiguous): // done or not, when there is a connection
			case errors.Is(err, zkclient.ErrBadVersion):
				tries++
			default:
				tries = 3
			}
		}
	}
}

// withdrawOne takes the notes out of one mailbox, if there are any.
func (p *place) withdrawOne(ctx context.Context, holder string) error {
	data, stat, err := p.s.Get(ctx, holder)
	if err != nil {
		return err
	}
	rec, err := decodeContender(data)
	if err != nil {
		return err
	}
	rec.freeze(stat)
	if !rec.withdraw(p.guid) {
		return nil
	}
	_, err = p.s.Set(ctx, holder, rec.encode(), stat.Version)
	return err
}

// makePeace takes back, in the background, what was asked of holders that the
// request shares the lock with by now.
func (p *place) makePeace() {
	if asks := p.takeAsks(); p.a.req.Mode == priority.Shared && len(asks) > 0 {
		p.s.Client().Background(func() { p.withdrawFrom(context.Background(), asks) })
	}
}
