package recipes

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/priority"
)

// fast takes an idle lock in one transaction. It returns errCrowded when
// somebody else is there.
func (a *attempt) fast(ctx context.Context, s *session) (*Grant, error) {
	l := a.l
	a.seen = nil                       // in another session, others may be there
	a.epoch = max(0, l.c.epoch.Load()) // one that is too old costs a request
	h := l.c.hints.get(l.path)
	if h.busy == busyLooks && !a.try() && a.req.Mode == priority.Exclusive {
		return nil, errCrowded // others were seen just now: join them without looking
	}
	if h.idle && l.c.epoch.Load() > h.epoch { // scopes were removed since
		h.idle = false
	}
	if h.blind >= maxBlind { // whoever has come since is to be seen
		h.idle = false
	}
	if h.idle {
		a.epoch = h.epoch
		g, err := a.take(ctx, s, h.version, lockRecord{})
		switch {
		case errors.Is(err, errAgain):
		case errors.Is(err, errCrowded):
			l.c.hints.update(l.path, func(h *hint) { h.idle = false })
		default:
			return g, err
		}
	}
	for tries := 0; ; tries++ {
		if err := a.renew(ctx); err != nil {
			return nil, err
		}
		// The epoch comes first: a version means nothing after a removal.
		epoch, err := l.c.rootEpoch(ctx, s)
		if errors.Is(err, errAmbiguous) {
			continue
		} else if err != nil {
			return nil, err
		}
		a.epoch = epoch
		there, err := s.contenders(ctx, l.path)
		stat := there.stat
		switch {
		case errors.Is(err, errAmbiguous):
			continue
		case errors.Is(err, zk.ErrNoNode):
			if err := s.ensure(ctx, l.path); err != nil && !errors.Is(err, errAmbiguous) {
				return nil, err
			}
			continue
		case err != nil:
			return nil, err
		}
		// The list and the version are of one snapshot: nobody was there at
		// that version.
		all := there.children
		l.c.hints.update(l.path, func(h *hint) { h.blind = 0 })
		a.seen = l.c.strangers.drop(l.path, all)
		if len(a.seen) == 0 && len(all) > 0 {
			nobody, err := l.deserted(ctx, s, all, stat.Version)
			if errors.Is(err, errAmbiguous) || errors.Is(err, zk.ErrNoNode) {
				continue
			} else if err != nil {
				return nil, err
			}
			if !nobody {
				a.seen = all
			}
		}
		if len(a.seen) > 0 {
			l.c.hints.crowded(l.path)
			g, err := a.accompany(ctx, s)
			if errors.Is(err, zk.ErrNoNode) || errors.Is(err, errAgain) {
				continue // the lock node was removed, or the terms are others
			}
			return g, err
		}
		keep, err := a.leftover(ctx, s, stat)
		if errors.Is(err, errAmbiguous) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, errAgain) {
			continue
		} else if err != nil {
			return nil, err
		}
		g, err := a.take(ctx, s, stat.Version, keep)
		switch {
		case errors.Is(err, errAgain):
			continue
		case errors.Is(err, errCrowded):
			l.c.hints.crowded(l.path)
			if a.try() && tries < 3 {
				continue // whoever was faster may be gone already
			}
		}
		return g, err
	}
}

// accompany takes a shared lock that only shared holders have, and for which no
// exclusive request waits in front: T1 with those holders kept in G. It returns errCrowded when the
// request has to queue.
//
// It is T2 and T3 in one, under the guards of both: G is as it was at the
// version, and so are the modes of those in it. Like T3 it may pass somebody
// who has joined since the list was read.
func (a *attempt) accompany(ctx context.Context, s *session) (*Grant, error) {
	l := a.l
	if a.req.Mode != priority.Shared {
		return nil, errCrowded
	}
	tries := 3
	if a.try() {
		tries = 32 // other readers raise the version as well
	}
	for range tries {
		data, stat, err := s.get(ctx, l.path) // before the children: see weigh
		if errors.Is(err, errAmbiguous) {
			continue
		} else if err != nil {
			return nil, err
		}
		g, err := l.grants(ctx, s, data, stat.Version)
		if errors.Is(err, errAmbiguous) || errors.Is(err, errAgain) {
			continue
		} else if err != nil {
			return nil, err
		}
		there, err := s.contenders(ctx, l.path)
		switch {
		case errors.Is(err, errAmbiguous):
			continue
		case err != nil:
			return nil, err
		case there.stat.Version != stat.Version:
			continue // whom G does not name may hold by now
		}
		a.seen = there.children
		if len(g.Holders) >= maxSharing {
			return nil, errCrowded
		}
		a.seen = l.c.strangers.drop(l.path, a.seen, g.Holders...)
		keep := lockRecord{Evicted: g.Evicted, Delays: g.carry(stat, a.seen)}
		var holders []child
		for _, c := range a.seen {
			switch {
			case slices.Contains(g.Holders, c.guid):
				holders = append(holders, c)
				keep.Holders = append(keep.Holders, c.guid)
			case c.mode != priority.Shared && !a.req.Priority.Outranks(c.level()):
				return nil, errCrowded // it comes first
			}
		}
		if len(barring(keep.Delays, a.req.Mode, a.seen)) > 0 {
			return nil, errCrowded
		}
		err = l.allShare(ctx, s, holders)
		if errors.Is(err, errAmbiguous) || errors.Is(err, errAgain) {
			continue
		} else if err != nil {
			return nil, err
		}
		grant, err := a.take(ctx, s, stat.Version, keep)
		if !errors.Is(err, errCrowded) {
			return grant, err
		}
	}
	return nil, errCrowded
}

// allShare returns errCrowded unless all these holders are shared ones. Of one
// that came as an exclusive one only its data can tell, and once it shares it
// always will.
func (l *PriorityLock) allShare(ctx context.Context, s *session, holders []child) error {
	for _, c := range holders {
		if c.mode == priority.Shared {
			continue
		}
		data, _, err := s.get(ctx, l.path+"/"+c.name)
		if errors.Is(err, zk.ErrNoNode) {
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

// take is T1: it takes the lock if nothing has been granted since version, and
// no lock node was removed since a.epoch. It joins the holders of keep. It
// returns errAgain when the terms may have changed.
func (a *attempt) take(ctx context.Context, s *session, version int32, keep lockRecord) (*Grant, error) {
	l := a.l
	rec := newRecord(l.c, a.req)
	rec.Granted = true
	data := rec.encode()
	for {
		if a.outdated() {
			return nil, errAgain
		}
		guid := newGUID()
		record := soleHolder(guid)
		if own := rec.delayNotes(guid); len(own)+len(keep.Evicted) > 0 || keep.occupied() {
			record = keep.with(guid, own).encode()
		}
		sent := s.clock.now()
		r, failed, err := s.multi(ctx,
			&zk.CheckVersionRequest{Path: l.c.root, Version: a.epoch},
			&zk.CreateRequest{Path: l.path + "/" + contenderName(a.req.Priority, a.req.Mode, guid), Data: data, Acl: l.c.acl, Flags: zk.FlagEphemeral | zk.FlagSequence},
			&zk.SetDataRequest{Path: l.path, Data: record, Version: version})
		switch {
		case err == nil:
			stamp := serverStamp{at: r[2].Stat.Mtime, sent: sent, replied: s.clock.now()}
			g := &Grant{
				lock: l, s: s, guid: guid, path: r[1].String, stamp: stamp, notices: a.notices,
				token: Token(r[2].Stat.Mzxid), at: dataVersion{0, true}, version: r[2].Stat.Version, epoch: a.epoch, evicted: keep.Evicted,
			}
			if keep.occupied() {
				g.version = -1 // at which the lock is not idle when this one leaves
			}
			return a.granted(g)
		case errors.Is(err, zk.ErrBadVersion) && failed == 0:
			// Scopes were removed meanwhile, this one maybe among them: what
			// version says may be old. Nobody need be there.
			l.c.epoch.CompareAndSwap(a.epoch, -1)
			l.c.hints.update(l.path, func(h *hint) { h.idle = false })
			return nil, errAgain
		case errors.Is(err, zk.ErrBadVersion):
			return nil, errCrowded
		case errors.Is(err, zk.ErrNoNode) && len(keep.Holders) > 0:
			return nil, errCrowded
		case errors.Is(err, zk.ErrNoNode):
			if err := s.ensure(ctx, l.path); err != nil && !errors.Is(err, errAmbiguous) {
				return nil, err
			}
			version = 0
		case errors.Is(err, errAmbiguous):
			own, lost := s.find(ctx, l.path, guid)
			if lost != nil {
				a.undo(s, guid)
				return nil, lost
			}
			if own == "" {
				return nil, errCrowded // not executed, or evicted since
			}
			return a.adopt(ctx, s, guid, own, sent)
		default:
			return nil, err
		}
	}
}

// adopt makes a grant of a node whose creation was not acknowledged.
func (a *attempt) adopt(ctx context.Context, s *session, guid, path string, sent instant) (*Grant, error) {
	p := newPlace(a, s, guid, path, sent, s.clock.now())
	p.adopted = true
	return p.stay(ctx) // finds itself in G
}

// rootEpoch returns the data version of the root, which garbage collection
// raises when it removes lock nodes.
func (c *Client) rootEpoch(ctx context.Context, s *session) (int32, error) {
	if e := c.epoch.Load(); e >= 0 {
		return e, nil
	}
	for {
		_, stat, err := s.get(ctx, c.root)
		switch {
		case err == nil:
			c.epoch.Store(stat.Version)
			return stat.Version, nil
		case errors.Is(err, zk.ErrNoNode):
			if err := s.ensure(ctx, c.root); err != nil {
				return 0, err
			}
		default:
			return 0, err
		}
	}
}
