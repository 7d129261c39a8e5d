package lock

import (
	"context"
	"errors"
	"slices"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// enter is T14, or T15 when m itself is the place that is taken: it puts a node of
// the caller's own beside that of m, or in its place. What m says is so at that
// moment, and so is G. place is the guid that it takes in G; "": one of its own.
func (k *accession) enter(
	ctx context.Context, s *zkclient.Session, v *holdView, m *holding, place string,
) (*Grant, error) {
	l := k.a.l
	rec := m.rec
	rec.freeze(m.stat)
	if k.adopts {
		k.ref.Token = rec.Token // should it have to be resumed after all
	} else {
		standing, err := k.standing(ctx, s, v, m)
		if err != nil {
			return nil, err
		}
		rec.Preempt = standing
	}
	req := k.a.req
	req.Hold, req.Class = rec.Hold, rec.Class // of the hold
	rec.setIdentity(l.c, req.Identity)
	rec.Under = req.Under

	next, others := lockRecord{Evicted: v.g.Evicted, Walked: v.g.Walked}, v.there
	var op any = &zkclient.CheckVersionRequest{Path: m.path, Version: m.stat.Version}
	if place == m.guid {
		op = &zkclient.DeleteRequest{Path: m.path, Version: m.stat.Version}
		next.Evicted = v.g.evict(brief([]evictionNote{{
			ID: m.guid, Owner: m.rec.Owner, By: rec.Owner, Reason: Superseded, At: l.c.Now().UnixMilli(),
		}})...)
		others = slices.DeleteFunc(slices.Clone(others), func(c child) bool { return c.guid == m.guid })
	}
	if n := len(v.alive()); n >= maxSharing && place != m.guid {
		return nil, &QueueFullError{Scope: l.scope, Length: len(v.there), Ahead: n, Limit: maxSharing}
	}
	next.Delays = v.g.carry(v.stat, others)
	return k.make(ctx, s, v, op, m.level(), rec, next, place)
}

// standing returns the notes in the mailbox of m whose authors are there, or, if
// that keeps the caller from joining, a *PreemptPendingError.
func (k *accession) standing(ctx context.Context, s *zkclient.Session, v *holdView, m *holding) ([]askingNote, error) {
	there := v.there
	if slices.ContainsFunc(m.rec.Preempt, func(n askingNote) bool { return !isPresent(there, n.ID) }) {
		now, err := contendersAt(ctx, s, k.a.l.path) // it is gone, or has come since
		if err != nil {
			return nil, err
		}
		there = now.children
	}
	notes := slices.Clone(m.rec.Preempt)
	notes = slices.DeleteFunc(notes, func(n askingNote) bool { return !isPresent(there, n.ID) })
	if len(notes) > 0 && !k.a.req.ForCleanup {
		return nil, &PreemptPendingError{Scope: k.a.l.scope, Hold: k.ref.Hold, By: notes[0].asks(m.stat, k.a.l.c.Now())}
	}
	for i := range notes {
		notes[i].At = notes[i].at(m.stat)
	}
	return notes, nil
}

// make makes the node, granted, under the condition of op, and G with it, where it
// takes a place.
func (k *accession) make(
	ctx context.Context, s *zkclient.Session, v *holdView, op any, level priority.Level, rec contenderRecord,
	next lockRecord, place string,
) (*Grant, error) {
	l, guid := k.a.l, znode.NewGUID()
	if next.Holders = v.holders(rec.Mode, place, guid); rec.Token == 0 {
		// the token is a new one: a reference to another of the dead must not bring back theirs
		next.Holders = []string{guid}
	}
	next.Delays = slices.Concat(next.Delays, rec.delayNotes(guid))
	sent := s.Now()
	r, failed, err := s.Multi(ctx, op,
		&zkclient.CreateRequest{
			Path: l.path + "/" + contenderName(level, rec.Mode, guid), Data: rec.encode(), Acl: l.c.ACL(),
			Flags: zkclient.FlagEphemeral | zkclient.FlagSequence,
		},
		&zkclient.SetDataRequest{Path: l.path, Data: next.encode(), Version: v.stat.Version})
	switch {
	case err == nil:
		written := r[2].Stat
		return k.granted(s, guid, r[1].String, level, &rec,
			&zkclient.Stat{Ctime: written.Mtime, Mtime: written.Mtime, Mzxid: written.Mzxid}, next.Evicted, sent)
	case errors.Is(err, zkclient.ErrBadVersion):
		if check, ok := op.(*zkclient.CheckVersionRequest); ok && check.Path == l.c.Root() && failed == 0 {
			l.cache.epoch.CompareAndSwap(k.a.epoch, -1) // scopes were removed meanwhile
		}
		return nil, errAgain
	case errors.Is(err, zkclient.ErrNoNode):
		return nil, errAgain
	case errors.Is(err, zkclient.ErrAmbiguous):
		k.tried = append(k.tried, guid)
		return k.recover(ctx, s, guid, level, next.Evicted, sent)
	case errors.Is(err, zkclient.ErrSessionOver):
		k.tried = append(k.tried, guid) // made and dead, perhaps: then it is what has to be resumed
	}
	return nil, err
}

// recover finds out what became of a transaction whose reply was lost.
func (k *accession) recover(
	ctx context.Context, s *zkclient.Session, guid string, level priority.Level, evicted []evictionNote,
	sent zkclient.Instant,
) (*Grant, error) {
	path, err := findContender(ctx, s, k.a.l.path, guid)
	if err != nil {
		k.undo(s, guid)
		return nil, err
	}
	if path == "" {
		return nil, errAgain // not executed, or evicted since: G tells
	}
	for {
		data, stat, err := s.Get(ctx, path)
		switch {
		case errors.Is(err, zkclient.ErrAmbiguous):
			continue
		case errors.Is(err, zkclient.ErrNoNode):
			return nil, errAgain
		case err != nil:
			k.undo(s, guid)
			return nil, err
		}
		rec, err := decodeContender(data)
		if err != nil {
			k.undo(s, guid)
			return nil, znode.InNode(err, path)
		}
		return k.granted(s, guid, path, level, &rec, stat, evicted, sent)
	}
}

// granted makes a grant of a node that says rec. The terms are those of the hold.
func (k *accession) granted(
	s *zkclient.Session, guid, path string, level priority.Level, rec *contenderRecord, stat *zkclient.Stat,
	evicted []evictionNote, sent zkclient.Instant,
) (*Grant, error) {
	l := k.a.l
	k.a.req = rec.onto(k.a.req, level)
	l.cache.hints.crowded(l.path)
	g := &Grant{
		lock: l, s: s, guid: guid, path: path, version: -1, epoch: k.a.epoch, evicted: evicted, notices: k.a.notices,
		stamp: zkclient.ServerStamp{At: stat.Ctime, Sent: sent, Replied: s.Now()},
	}
	g, err := k.a.granted(g)
	if err != nil {
		k.tried = append(k.tried, guid)
		return nil, err
	}
	g.absorb(rec, stat)
	return g, nil
}

// undo gives back, in the background, what may have been made for a caller who is
// not there any more.
func (k *accession) undo(s *zkclient.Session, guid string) {
	req := k.a.req
	s.Client().Background(func() {
		ctx := context.Background()
		path, err := findContender(ctx, s, k.a.l.path, guid)
		if err != nil || path == "" {
			return
		}
		now := s.Now()
		g := &Grant{
			lock: k.a.l, s: s, req: req, guid: guid, path: path, mode: req.Mode, version: -1, born: now,
			stamp: zkclient.ServerStamp{Sent: now, Replied: now}, notices: newNotices(nil),
		}
		_ = g.Release(ctx)
	})
}

// onto is a request with the terms that a member of a hold has.
func (r *contenderRecord) onto(req Request, level priority.Level) Request {
	acquire := req.AcquireTimeout
	req.Terms, req.Patient, req.Override = r.terms(), r.Patient, r.Override
	req.Priority, req.AcquireTimeout = level, acquire
	return req
}
