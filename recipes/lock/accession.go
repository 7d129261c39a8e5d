package lock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/call"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// Superseded is the reason of an Eviction by one that has adopted the hold.
const Superseded priority.Reason = "superseded"

// An accession is one call of Join or Adopt: how a contender becomes a member of a
// hold that others have begun.
type accession struct {
	a      *attempt
	ref    Reference
	adopts bool

	tried []string // guids of own nodes whose creation has an unknown outcome
	waits bool     // the one that is to be adopted has been seen waiting
	seen  int64    // its session; 0: not known
	told  string   // guid of one whose node has said that it is granted
}

// run carries the call out, in one session after the other. What was made in one
// that has ended is a member like any other, or dead.
func (k *accession) run(ctx context.Context) (*Grant, error) {
	c := k.a.l.c
	s, err := c.Admit(ctx)
	for err == nil {
		var g *Grant
		if g, err = k.in(ctx, s); err == nil {
			return g, nil
		}
		if isFinal(err) || !errors.Is(err, zkclient.ErrSessionOver) || c.IsClosing() {
			break
		}
		s, err = c.Usable(ctx)
	}
	return nil, k.a.explain(err)
}

// in carries it out within one session. It begins with what all others have done
// by now: a Reference comes past ZooKeeper, and a server that lags would show nothing
// of what it names.
func (k *accession) in(ctx context.Context, s *zkclient.Session) (*Grant, error) {
	err := s.Sync(ctx, k.a.l.path)
	if err != nil && !errors.Is(err, zkclient.ErrAmbiguous) { // else the session does it, with the next connection
		return nil, err
	}
	for {
		g, err := k.look(ctx, s)
		if errors.Is(err, zkclient.ErrAmbiguous) || errors.Is(err, errAgain) {
			continue // reads decide, as soon as there is a connection
		}
		return g, err
	}
}

// A holdView is the lock as one that wants to become a member of a hold sees it.
type holdView struct {
	g     lockRecord
	stat  *zkclient.Stat // of the lock node, read before all else
	there []child
}

// alive are the holders that are there.
func (v *holdView) alive() []child {
	return slices.DeleteFunc(slices.Clone(v.there), func(c child) bool { return !v.g.holds(c) })
}

// holders are those of G with one more, in the place of another one if there is
// one. The dead of an exclusive hold stay named, as long as it goes on: so a
// reference to them shows as valid. All in G are of one hold then, for a grant
// to any other request drops the dead.
func (v *holdView) holders(mode priority.Mode, place, guid string) []string {
	var all []string
	dead := 0
	for i, id := range slices.Backward(v.g.Holders) {
		switch {
		case id == place:
			id = guid
		case isPresent(v.there, id):
		case mode == priority.Shared:
			continue
		default:
			if dead++; dead > maxDead && i > 0 {
				continue
			}
		}
		all = append(all, id)
	}
	slices.Reverse(all)
	if !slices.Contains(all, guid) {
		all = append(all, guid)
	}
	return all
}

// maxDead is how many dead members of a hold G names, beside the first.
const maxDead = 16

func (v *holdView) find(guid string) (child, bool) {
	i := slices.IndexFunc(v.there, func(c child) bool { return c.guid == guid })
	if i < 0 {
		return child{}, false
	}
	return v.there[i], true
}

// look looks who is at the lock, and does what is to be done. It returns errAgain
// when that has changed meanwhile.
func (k *accession) look(ctx context.Context, s *zkclient.Session) (*Grant, error) {
	l := k.a.l
	// In this order: a version means nothing after a removal, and a list that is
	// older than G could show a holder as alive that G no longer knows.
	epoch, err := l.cache.rootEpoch(ctx, s)
	if err != nil {
		return nil, err
	}
	k.a.epoch = epoch
	data, stat, err := s.Get(ctx, l.path)
	if errors.Is(err, zkclient.ErrNoNode) {
		return nil, k.notThere(false)
	} else if err != nil {
		return nil, err
	}
	v := holdView{stat: stat}
	if v.g, err = l.grants(ctx, s, data, stat.Version); err != nil {
		return nil, err
	}
	there, err := contendersAt(ctx, s, l.path)
	if errors.Is(err, zkclient.ErrNoNode) {
		return nil, errAgain
	} else if err != nil {
		return nil, err
	}
	if there.stat.Version != stat.Version {
		return nil, errAgain // one granted and gone in between would be nowhere
	}
	v.there = there.children
	if k.adopts {
		return k.adopt(ctx, s, &v)
	}
	return k.join(ctx, s, &v)
}

// join is T14, through any present member.
func (k *accession) join(ctx context.Context, s *zkclient.Session, v *holdView) (*Grant, error) {
	m, err := k.member(ctx, s, v)
	switch {
	case err != nil:
		return nil, err
	case m == nil:
		return nil, k.notThere(false)
	}
	return k.enter(ctx, s, v, m, "")
}

// member finds a living member of the hold, the one that is named if it is there;
// nil: there is none.
func (k *accession) member(ctx context.Context, s *zkclient.Session, v *holdView) (*holding, error) {
	alive := v.alive()
	if i := slices.IndexFunc(alive, func(c child) bool { return c.guid == k.ref.ID }); i > 0 {
		alive[0], alive[i] = alive[i], alive[0] // of many shared ones, no other has to be read
	}
	for _, c := range alive {
		m, err := k.read(ctx, s, c)
		switch {
		case errors.Is(err, zkclient.ErrNoNode):
			return nil, errAgain
		case isUnusable(err) && c.guid != k.ref.ID: // it is no companion that could be joined
		case err != nil:
			return nil, err
		case k.isMember(m):
			return m, nil
		}
	}
	return nil, nil //nolint:nilnil // there need be none
}

// adopt is T15, T14 or T16, in the place of the one that is named; or it waits for
// the first of these.
func (k *accession) adopt(ctx context.Context, s *zkclient.Session, v *holdView) (*Grant, error) {
	names := append([]string{k.ref.ID}, k.tried...)
	for _, guid := range names {
		c, there := v.find(guid)
		switch {
		case !there:
			continue
		case !slices.Contains(v.g.Holders, guid):
			return nil, k.await(ctx, s, v, c)
		}
		m, err := k.read(ctx, s, c)
		switch {
		case errors.Is(err, zkclient.ErrNoNode):
			return nil, errAgain
		case err != nil:
			return nil, err
		case !k.isMember(m):
			return nil, k.notThere(false)
		}
		return k.enter(ctx, s, v, m, guid)
	}
	for _, e := range v.g.Evicted {
		if slices.Contains(k.tried, e.ID) { // that was made, and has held the lock
			return nil, e.loss(k.a.l.scope)
		}
	}
	if k.waits {
		k.waits = false
		if err := k.follow(ctx, s, v); err != nil {
			return nil, err
		}
	}
	x, err := k.member(ctx, s, v)
	if err != nil {
		return nil, err
	}
	for _, guid := range names {
		switch {
		case !slices.Contains(v.g.Holders, guid):
		case x != nil:
			return k.enter(ctx, s, v, x, guid)
		case k.ref.Mode == priority.Exclusive && len(v.alive()) == 0:
			return k.resume(ctx, s, v, guid)
		}
	}
	return nil, k.notThere(x != nil)
}

// read reads what a member says.
func (k *accession) read(ctx context.Context, s *zkclient.Session, c child) (*holding, error) {
	h := &holding{child: c, path: k.a.l.path + "/" + c.name}
	data, stat, err := s.Get(ctx, h.path)
	if err != nil {
		return nil, err
	}
	h.stat = stat
	h.rec, err = decodeContender(data)
	return h, znode.InNode(err, h.path)
}

// isMember reports whether a holder is a member of the hold that is meant: an id
// may have been used again for a later one.
func (k *accession) isMember(h *holding) bool {
	return h.rec.Hold == k.ref.Hold && h.rec.Granted && (k.ref.Token == 0 || h.rec.token(h.stat) == k.ref.Token)
}

// enter is T14, or T15 when m itself is the place that is taken: it puts a node of
// the caller's own beside that of m, or in its place. What m says is so at that
// moment, and so is G. place is the guid that it takes in G; "": one of its own.
func (k *accession) enter(ctx context.Context, s *zkclient.Session, v *holdView, m *holding, place string) (*Grant, error) {
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

// resume is T16: all members have died, and G is what it was then.
func (k *accession) resume(ctx context.Context, s *zkclient.Session, v *holdView, place string) (*Grant, error) {
	l := k.a.l
	req := k.a.req
	req.Mode = k.ref.Mode
	if err := k.a.vouch(ctx, &req); err != nil {
		return nil, err
	}
	rec := newRecord(l.c, req)
	rec.Granted, rec.Token = true, k.ref.Token
	next := lockRecord{Evicted: v.g.Evicted, Walked: v.g.Walked, Delays: v.g.carry(v.stat, v.there)}
	check := &zkclient.CheckVersionRequest{Path: l.c.Root(), Version: k.a.epoch}
	return k.make(ctx, s, v, check, req.Priority, rec, next, place)
}

// make makes the node, granted, under the condition of op, and G with it, where it
// takes a place.
func (k *accession) make(ctx context.Context, s *zkclient.Session, v *holdView, op any, level priority.Level, rec contenderRecord, next lockRecord, place string) (*Grant, error) {
	l, guid := k.a.l, znode.NewGUID()
	if next.Holders = v.holders(rec.Mode, place, guid); rec.Token == 0 {
		next.Holders = []string{guid} // the token is a new one: a reference to another of the dead must not bring back theirs
	}
	next.Delays = slices.Concat(next.Delays, rec.delayNotes(guid))
	sent := s.Now()
	r, failed, err := s.Multi(ctx, op,
		&zkclient.CreateRequest{Path: l.path + "/" + contenderName(level, rec.Mode, guid), Data: rec.encode(), Acl: l.c.ACL(), Flags: zkclient.FlagEphemeral | zkclient.FlagSequence},
		&zkclient.SetDataRequest{Path: l.path, Data: next.encode(), Version: v.stat.Version})
	switch {
	case err == nil:
		written := r[2].Stat
		return k.granted(s, guid, r[1].String, level, &rec, &zkclient.Stat{Ctime: written.Mtime, Mtime: written.Mtime, Mzxid: written.Mzxid}, next.Evicted, sent)
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
func (k *accession) recover(ctx context.Context, s *zkclient.Session, guid string, level priority.Level, evicted []evictionNote, sent zkclient.Instant) (*Grant, error) {
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
func (k *accession) granted(s *zkclient.Session, guid, path string, level priority.Level, rec *contenderRecord, stat *zkclient.Stat, evicted []evictionNote, sent zkclient.Instant) (*Grant, error) {
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

// await waits until the one that is to be adopted, which was not granted when G was
// read, changes or goes. It returns errAgain then.
func (k *accession) await(ctx context.Context, s *zkclient.Session, v *holdView, c child) error {
	k.waits = true
	wake := make(chan struct{}, 1)
	watch := zkclient.Watcher(func(zkclient.WatchKind) {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	path := k.a.l.path + "/" + c.name
	data, stat, err := s.Look(ctx, path, &watch)
	defer s.Unwatch(path, &watch)
	switch {
	case errors.Is(err, zkclient.ErrNoNode):
		return errAgain
	case err != nil:
		return err
	}
	rec, err := decodeContender(data)
	switch {
	case err != nil:
		return znode.InNode(err, path)
	case rec.Hold != k.ref.Hold:
		return k.notThere(false)
	}
	k.seen = stat.EphemeralOwner
	rest := zkclient.SafetyPoll
	switch {
	case rec.Granted && k.told != c.guid: // since G was read
		k.told = c.guid
		return errAgain
	case rec.Granted: // a foreign client has written that there
		rest = time.Second
	case k.a.try():
		k.a.describe(ctx, s)
		return &NotAcquiredError{Scope: k.a.l.scope, Holders: k.a.holders, Delays: k.a.delays}
	}
	k.tellQueued(ctx, s, v, c)
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-wake:
	case <-timer.C:
	case <-ctx.Done():
		if err = context.Cause(ctx); errors.Is(err, call.ErrTimeout) && s.Usable() {
			k.a.describe(s.Client().Closing(), s)
		}
		return err
	case <-s.Over():
		return s.Err()
	}
	return errAgain
}

// tellQueued tells, once, where the one stands that is waited for.
func (k *accession) tellQueued(ctx context.Context, s *zkclient.Session, v *holdView, waiter child) {
	if k.a.queued {
		return
	}
	k.a.queued = true
	position := 1
	for _, c := range v.there {
		if c.guid == waiter.guid {
			break
		}
		if !v.g.holds(c) {
			position++
		}
	}
	k.a.describe(ctx, s)
	k.a.notices.Send(Queued{Position: position, Holders: k.a.holders})
}

// follow looks for the request under another name: one whose priority has changed
// while it waited has moved (T12), in the same session. It returns errAgain if it is
// there.
func (k *accession) follow(ctx context.Context, s *zkclient.Session, v *holdView) error {
	for _, c := range v.there {
		m, err := k.read(ctx, s, c)
		switch {
		case errors.Is(err, zkclient.ErrNoNode), isUnusable(err):
		case err != nil:
			return err
		case m.rec.Hold == k.ref.Hold && (k.seen == 0 || m.stat.EphemeralOwner == k.seen):
			k.ref.ID = c.guid
			return errAgain
		}
	}
	return nil
}

func (k *accession) notThere(held bool) error {
	return &NotThereError{Reference: k.ref, Held: held}
}
