package lock

import (
	"context"
	"errors"
	"slices"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
	"github.com/lockkeeper/lockkeeper/zkwire"
)

// fast takes an idle lock in one transaction. It returns errCrowded when
// another request is there.
//
//nolint:cyclop,funlen // all that an attempt can meet before it queues stands in one place, as in the model
func (a *attempt) fast(ctx context.Context, s *zkclient.Session) (*Grant, error) {
	l := a.l
	a.seen = nil // in another session, others may be there
	t := a.opened
	if a.opened = nil; t == nil {
		if g, err := a.walksBlind(ctx, s); !errors.Is(err, errCrowded) && !errors.Is(err, errAgain) {
			return g, err
		}
		var err error
		if t, err = a.remembered(s); err != nil {
			return nil, err
		}
	}
	if t != nil {
		g, err := a.take(ctx, t)
		switch {
		case errors.Is(err, errAgain):
		case errors.Is(err, errCrowded):
			l.cache.hints.update(l.path, func(h *hint) { h.idle = false })
		default:
			return g, err
		}
	}
	for tries := 0; ; tries++ {
		if err := a.renew(ctx); err != nil {
			return nil, err
		}
		// The epoch comes first: a version means nothing after a removal.
		epoch, err := l.cache.rootEpoch(ctx, s)
		if errors.Is(err, zkclient.ErrAmbiguous) {
			continue
		} else if err != nil {
			return nil, err
		}
		a.epoch = epoch
		there, err := contendersAt(ctx, s, l.path)
		stat := there.stat
		switch {
		case errors.Is(err, zkclient.ErrAmbiguous):
			continue
		case errors.Is(err, zkclient.ErrNoNode):
			if err := s.Ensure(ctx, l.path); err != nil && !errors.Is(err, zkclient.ErrAmbiguous) {
				return nil, err
			}
			continue
		case err != nil:
			return nil, err
		}
		// The list and the version are of one snapshot: no request was there at that
		// version.
		all := there.children
		l.cache.hints.update(l.path, func(h *hint) { h.blind, h.throng = 0, throngOf(all) })
		a.seen = l.cache.strangers.drop(l.path, all)
		if len(a.seen) == 0 && len(all) > 0 {
			deserted, err := l.deserted(ctx, s, all, stat.Version)
			if errors.Is(err, zkclient.ErrAmbiguous) || errors.Is(err, zkclient.ErrNoNode) {
				continue
			} else if err != nil {
				return nil, err
			}
			if !deserted {
				a.seen = all
			}
		}
		if len(a.seen) > 0 {
			l.cache.hints.crowded(l.path)
			g, err := a.accompany(ctx, s)
			if errors.Is(err, zkclient.ErrNoNode) || errors.Is(err, errAgain) {
				continue // the lock node was removed, or the terms are others
			}
			return g, err
		}
		keep, err := a.leftover(ctx, s, stat)
		if errors.Is(err, errWalkIn) {
			g, err := a.walk(ctx, s, walkIn{known: true, version: stat.Version, epoch: a.epoch})
			if errors.Is(err, errCrowded) || errors.Is(err, errAgain) {
				continue
			}
			return g, err
		}
		if errors.Is(err, zkclient.ErrAmbiguous) || errors.Is(err, zkclient.ErrNoNode) || errors.Is(err, errAgain) {
			continue
		} else if err != nil {
			return nil, err
		}
		g, err := a.take(ctx, a.taking(s, stat.Version, keep))
		switch {
		case errors.Is(err, errAgain):
			continue
		case errors.Is(err, errCrowded):
			l.cache.hints.crowded(l.path)
			if a.try() && tries < 3 {
				continue // the faster request may be gone already
			}
		}
		return g, err
	}
}

// remembered is T1 at the version at which this client has left the lock; nil: it
// has to look who is there. It returns errCrowded when others were seen just now: then it
// joins them without looking.
func (a *attempt) remembered(s *zkclient.Session) (*taking, error) {
	l := a.l
	a.epoch = max(0, l.cache.epoch.Load()) // one that is too old costs a request
	h := l.cache.hints.get(l.path)
	switch {
	case h.busy == busyLooks && !a.try() && a.req.Mode == priority.Exclusive:
		return nil, errCrowded
	case !h.idle, l.cache.epoch.Load() > h.epoch, h.blind >= maxBlind: // scopes were removed since, or a list is due
		return nil, nil //nolint:nilnil // there is nothing to remember
	}
	a.epoch = h.epoch
	return a.taking(s, h.version, lockRecord{}), nil
}

// open sends the first transaction of an attempt, if that is T1 at a remembered
// version, without a goroutine that could be left behind: while it waits nothing has to be
// done, and when it is over before its caller, nothing is left. If not, it goes on as opened.
func (a *attempt) open(ctx context.Context) (*Grant, bool) {
	c, l := a.l.c, a.l
	s := c.Current()
	if ctx.Err() != nil || !s.Usable() || !c.Untroubled() {
		return nil, false
	}
	if !l.cache.hints.get(l.path).idle || a.consult() != nil || a.next != nil || a.req.Priority == priority.Emergency {
		return nil, false
	}
	t, err := a.remembered(s)
	if t == nil && err == nil {
		t = a.deserted(ctx, s)
	}
	if t == nil || a.outdated() || !t.post(a) {
		return nil, false
	}
	a.opened = t
	if !t.sent.Arrives(ctx, s) || !t.sent.Succeeded() {
		return nil, false
	}
	a.opened = nil
	g, err := a.take(ctx, t)
	return g, err == nil
}

// deserted is T1 at the version at which a list showed no request; nil: there
// was one, or there is more to find out.
func (a *attempt) deserted(ctx context.Context, s *zkclient.Session) *taking {
	l := a.l
	epoch := l.cache.epoch.Load() // before the look: a version means nothing after a removal
	if epoch < 0 {
		return nil
	}
	look := s.Post(zkwire.OpGetChildren2, []any{zkclient.NodeRead(l.path)}, true)
	if look == nil || !look.Arrives(ctx, s) || !look.Succeeded() {
		return nil
	}
	stat := look.Stat()
	if len(look.Names()) > 0 || int(stat.DataLength) > soleHolderLength {
		return nil
	}
	l.cache.hints.update(l.path, func(h *hint) { h.blind = 0 })
	a.epoch = epoch
	return a.taking(s, stat.Version, lockRecord{})
}

// accompany takes a shared lock that only shared holders have, and for which no
// exclusive request waits in front: T1 with those holders kept in G. It returns errCrowded when the
// request has to queue.
//
// It is T2 and T3 in one, under the guards of both: G is as it was at the
// version, and so are the modes of those in it. Like T3 it may pass a request
// that has joined since the list was read.
//
//nolint:cyclop,funlen // the guards of T2 and T3 stand in one place, as in the model
func (a *attempt) accompany(ctx context.Context, s *zkclient.Session) (*Grant, error) {
	l := a.l
	if a.req.Mode != priority.Shared {
		return nil, errCrowded
	}
	tries := 3
	if a.try() {
		tries = 32 // other readers raise the version as well
	}
	for range tries {
		data, stat, err := s.Get(ctx, l.path) // before the children: see weigh
		if errors.Is(err, zkclient.ErrAmbiguous) {
			continue
		} else if err != nil {
			return nil, err
		}
		if g, err := decodeLock(data); err == nil && g.Open && a.mayWalk() && len(a.seen) < maxSharing && !a.isBehind() {
			grant, err := a.walk(ctx, s, walkIn{known: true, version: stat.Version, epoch: a.epoch})
			if errors.Is(err, errCrowded) {
				continue
			}
			return grant, err
		}
		g, err := l.grants(ctx, s, data, stat.Version)
		if errors.Is(err, zkclient.ErrAmbiguous) || errors.Is(err, errAgain) {
			continue
		} else if err != nil {
			return nil, err
		}
		there, err := contendersAt(ctx, s, l.path)
		switch {
		case errors.Is(err, zkclient.ErrAmbiguous):
			continue
		case err != nil:
			return nil, err
		case there.stat.Version != stat.Version:
			continue // one that G does not name may hold by now
		}
		a.seen = there.children
		if len(g.Holders) >= maxSharing {
			return nil, errCrowded
		}
		a.seen = l.cache.strangers.drop(l.path, a.seen, g.Holders...)
		keep := lockRecord{Evicted: g.Evicted, Delays: g.carry(stat, a.seen)}
		var holders []child
		for _, c := range a.seen {
			switch {
			case g.holds(c):
				holders = append(holders, c)
				if slices.Contains(g.Holders, c.guid) { // else it has walked in
					keep.Holders = append(keep.Holders, c.guid)
				}
			case c.mode != priority.Shared && !a.req.Priority.Outranks(c.level()):
				return nil, errCrowded // it comes first
			}
		}
		if len(holders) > 0 { // else the holder beside which it was to come has left
			keep.Walked, keep.Open = g.Walked, a.mayOpen(keep)
		}
		if len(barring(keep.Delays, a.req.Mode, a.seen)) > 0 {
			return nil, errCrowded
		}
		err = l.allShare(ctx, s, holders)
		if errors.Is(err, zkclient.ErrAmbiguous) || errors.Is(err, errAgain) {
			continue
		} else if err != nil {
			return nil, err
		}
		grant, err := a.take(ctx, a.taking(s, stat.Version, keep))
		if !errors.Is(err, errCrowded) {
			return grant, err
		}
	}
	return nil, errCrowded
}

// allShare returns errCrowded unless all these holders are shared ones. Of one
// that came as an exclusive one only its data can tell, and once it shares it
// always will.
func (l *PriorityLock) allShare(ctx context.Context, s *zkclient.Session, holders []child) error {
	for _, c := range holders {
		if c.mode == priority.Shared {
			continue
		}
		data, _, err := s.Get(ctx, l.path+"/"+c.name)
		if errors.Is(err, zkclient.ErrNoNode) {
			return errAgain // it has just left
		} else if err != nil {
			return err
		}
		if rec, err := decodeContender(data); err != nil || rec.Mode != priority.Shared {
			return errCrowded
		}
	}
	return nil
}
