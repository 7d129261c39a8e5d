package lock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A sight is what a waiter knows of the unclean end of a hold.
type sight struct {
	over  zkclient.Instant // the delay is over, at the latest
	timed bool             // the lock node tells since when
}

// heed returns how long the unclean ends of others still bar the first waiter: 0
// when they do not.
//
// It counts from when it has itself seen that a holder is gone, on its own
// clock, which no change of the leader disturbs. If another request has noticed
// that before, the lock node says when: then it writes the node, to learn how
// much of the delay has passed on the server's clock. If none has, it notes the
// time for the requests that come after it.
func (p *place) heed(ctx context.Context, stat *zkclient.Stat, g lockRecord, children []child) (time.Duration, error) {
	if len(g.Delays) == 0 {
		return 0, nil
	}
	carried := g.carry(stat, children)
	now := p.s.Awake()
	var left time.Duration
	timed := true
	notes := barring(carried, p.a.req.Mode, children)
	for _, n := range notes {
		seen, known := p.sights[n.ID]
		if !known {
			seen.over = now.Add(n.delay())
			p.see(n.ID, seen)
		}
		left = max(left, seen.over.Sub(now))
		timed = timed && seen.timed
	}
	if left <= 0 {
		return 0, nil
	}
	if !timed {
		return 0, p.timeDelays(ctx, stat, g, carried, notes)
	}
	p.tellDelayed(notes, left)
	return left, nil
}

// timeDelays writes what is carried, and takes note of what is left of each delay
// when that was written. It returns errAgain after that.
func (p *place) timeDelays(ctx context.Context, stat *zkclient.Stat, g lockRecord, carried, notes []delayNote) error {
	g.Delays = carried
	// The own node is in it, as in all that a contender does: its request may be late.
	r, _, err := p.s.Multi(ctx,
		&zkclient.CheckVersionRequest{Path: p.path, Version: -1},
		&zkclient.SetDataRequest{Path: p.a.l.path, Data: g.encode(), Version: stat.Version})
	switch {
	case errors.Is(err, zkclient.ErrBadVersion), errors.Is(err, zkclient.ErrNoNode):
		p.stale.Store(true)
		return errAgain
	case err != nil:
		return err
	}
	p.noticed(notes, r[1].Stat)
	return errAgain
}

// noticed takes note of what is left of delays by a write of the lock node that
// carried them.
func (p *place) noticed(notes []delayNote, written *zkclient.Stat) {
	replied := p.s.Awake()
	for _, n := range notes {
		seen, known := p.sights[n.ID]
		if !known {
			seen.over = replied.Add(n.delay())
		}
		seen.timed = true
		if n = n.frozen(written); n.comparable(written) {
			passed := time.Duration(written.Mtime-n.Ended.At) * time.Millisecond
			if left := n.delay() - passed; passed > 0 { // both times were cut to milliseconds
				seen.over = min(seen.over, replied.Add(left+time.Millisecond))
			}
		}
		p.see(n.ID, seen)
	}
}

func (p *place) see(guid string, s sight) {
	if p.sights == nil {
		p.sights = make(map[string]sight)
	}
	p.sights[guid] = s
}

// tellDelayed tells the listener that the lock is free, and delayed: once for
// the same ends.
func (p *place) tellDelayed(notes []delayNote, left time.Duration) {
	a := p.a
	delays := describeNotes(notes)
	same := a.delayed && slices.EqualFunc(delays, a.delays, func(x, y Delay) bool { return x.ID == y.ID })
	a.delays, a.delayed = delays, true
	if !p.told {
		p.told = true
		a.notices.Send(Queued{Position: 1, Holders: a.holders})
	}
	if !same {
		a.notices.Send(Delayed{After: delays, Until: time.Now().Add(left)})
	}
}

// remains are the notes that are written with a grant of this request: those who
// hold the lock beside it keep theirs, and so do those that are gone and are not in
// its way. What was in its way is over.
func (p *place) remains(stat *zkclient.Stat, g lockRecord, children []child) []delayNote {
	if len(g.Delays) == 0 {
		return nil
	}
	return slices.DeleteFunc(g.carry(stat, children), func(n delayNote) bool { return n.bars(p.a.req.Mode) })
}

// leftover is what a grant of an idle lock keeps of the lock node, seen without
// requests: see lockRecord.news, and the ends of others that do not bar it. It
// returns errCrowded when one does. It costs nothing where there is none.
func (a *attempt) leftover(
	ctx context.Context, s *zkclient.Session, seen *zkclient.Stat,
) (keep lockRecord, err error) {
	if int(seen.DataLength) <= soleHolderLength {
		return keep, nil
	}
	data, stat, err := s.Get(ctx, a.l.path)
	if err != nil {
		return keep, err
	}
	g, err := decodeLock(data)
	switch {
	case znode.IsNewer(err):
		return keep, znode.InNode(err, a.l.path)
	case err != nil:
		return keep, nil //nolint:nilerr // overwritten, and about to be written again
	}
	if len(g.Delays) > 0 && stat.Version != seen.Version {
		return keep, errAgain // another request may be there
	}
	if g.Open {
		if a.mayWalk() && stat.Version == seen.Version {
			return keep, errWalkIn
		}
		return keep, a.l.shut(ctx, s, stat.Version)
	}
	keep.Evicted, keep.Delays = g.news(seen.Mtime), g.carry(stat, nil)
	bars := barring(keep.Delays, a.req.Mode, nil)
	a.delays = describeNotes(bars)
	switch {
	case len(bars) == 0:
		return keep, nil
	case !a.try() || a.timed:
		return keep, errCrowded // the first in the queue waits for the end of the delay
	}
	// No request may ever wait for this lock: a try has to find out by itself.
	g.Delays = keep.Delays
	_, failed, err := s.Multi(ctx,
		&zkclient.CheckVersionRequest{Path: a.l.c.Root(), Version: a.epoch},
		&zkclient.SetDataRequest{Path: a.l.path, Data: g.encode(), Version: stat.Version})
	switch {
	case err == nil:
		a.timed = true
	case errors.Is(err, zkclient.ErrBadVersion):
		if failed == 0 {
			a.l.cache.epoch.Store(-1)
		}
	default:
		return keep, err
	}
	return keep, errAgain
}
