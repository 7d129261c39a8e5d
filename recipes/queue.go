package recipes

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/priority"
)

// restFor is how long a request waits on its own node alone before it arms
// watches on others: a busy lock is handed over sooner than that, and the
// watches would cost more than the wait. Only the next in line watches the one
// in front right away; who stands behind is granted by a hand-over.
func restFor(before int) time.Duration {
	return min(time.Duration(before)*25*time.Millisecond, 250*time.Millisecond)
}

// safetyPoll bounds what a watch that never fires can cost.
const safetyPoll = time.Minute

// A place is a request in the queue, from the creation of its node to the
// grant or its removal.
type place struct {
	a    *attempt
	s    *session
	guid string
	path string // of the node
	name string
	rec  contenderRecord

	joined  instant // the create was answered
	version int32   // of the node's data
	stamp   serverStamp
	known   bool // the node was read: version and stamp are set

	wake    chan struct{}
	granted atomic.Bool // the node was written: that is a grant, unless rewritten
	gone    atomic.Bool // the node was deleted
	stale   atomic.Bool // the watch on the node must be armed again

	rewritten atomic.Bool // the node may have been written by the request itself
	unsettled *revision   // a rewriting whose reply was lost
	moved     *place      // where the request stands now
	former    func(context.Context)

	own     watcher
	others  watcher
	watched map[string]struct{} // paths that others watches

	asks     map[string]*standingAsk // by the holder's guid
	authors  map[string]struct{}     // of notes whose requests were looked for
	seizure  *seizure                // a takeover whose reply was lost
	first    bool                    // was first at the last look
	told     bool                    // Queued was sent
	trust    *trust                  // others were in front a moment ago: no need to look right away
	heir     *heir                   // whom it will grant when it has held the lock
	calm     bool                    // the rest is over, and nothing has happened since
	seen     bool                    // has glanced
	odd      bool                    // foreign nodes were reported
	promoted string                  // guid of one in front that was found granted
	beaten   bool                    // another took the lock although this request is first
	knocked  bool                    // nobody can do that again
	counted  bool                    // the queue was not too long when it joined
	follows  string                  // path of the one right in front, if it is watched and nothing has happened since
	polled   bool                    // that was so for as long as there was to wait
	sawG     bool                    // has watched the lock node
	baffled  instant                 // since then the holder says nothing; 0: it does
	adopted  bool                    // its creation was a T1, so it may hold from the beginning
	sights   map[string]sight        // by the guid of a holder that has gone uncleanly
}

// standingAsk is what this request has asked of one holder.
type standingAsk struct {
	holder  Contender
	path    string
	reasons map[priority.Reason]instant // when the request was certain to be there
}

func newPlace(a *attempt, s *session, guid, path string, sent, joined instant) *place {
	p := &place{
		a: a, s: s, guid: guid, path: path, name: path[len(a.l.path)+1:], joined: joined,
		wake: make(chan struct{}, 1), watched: make(map[string]struct{}), asks: make(map[string]*standingAsk),
	}
	p.stamp.sent = sent
	p.rec = newRecord(a.l.c, a.req)
	p.stale.Store(true)
	p.own = func(k watchKind) {
		switch k {
		case watchChanged:
			if !p.rewritten.Load() { // else the node tells
				p.granted.Store(true)
			}
		case watchDeleted:
			p.gone.Store(true)
		case watchLost:
		}
		p.stale.Store(true)
		p.poke()
	}
	p.others = func(watchKind) { p.poke() }
	return p
}

func (p *place) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// queue is T2: it joins the queue and waits for the grant.
func (a *attempt) queue(ctx context.Context, s *session) (*Grant, error) {
	l := a.l
	a.below, a.seen = a.outranksSeen(), nil // a list that each of many requests keeps is many lists
	for {
		if err := a.renew(ctx); err != nil {
			return nil, err
		}
		data := newRecord(l.c, a.req).encode()
		guid := newRequestGUID(data)
		sent := s.clock.now()
		path, err := s.create(ctx, l.path+"/"+contenderName(a.req.Priority, a.req.Mode, guid), data, zk.FlagEphemeral|zk.FlagSequence)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			if err := s.ensure(ctx, l.path); err != nil && !errors.Is(err, errAmbiguous) {
				return nil, err
			}
			continue
		case errors.Is(err, errAmbiguous):
			if path, err = s.find(ctx, l.path, guid); err != nil {
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
		p := newPlace(a, s, guid, path, sent, s.clock.now())
		if a.req.Mode == priority.Exclusive {
			p.trust = l.c.hints.get(l.path).trust(a.req.Priority, p.joined, time.Now())
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
			p.s.c.backlog.Go(func() { p.s.fireIdle(context.Background(), p.a.l.path) })
		}
		return g, err
	}
}

// wait stays at this place until the grant.
func (p *place) wait(ctx context.Context) (*Grant, error) {
	defer p.tidy()
	for {
		g, after, err := p.decide(ctx)
		switch {
		case isFinal(err):
			return nil, err
		case errors.Is(err, errAmbiguous), errors.Is(err, errAgain):
			continue // reads decide, as soon as there is a connection
		case g != nil || err != nil:
			return g, err
		}
		p.tidy()
		if err := p.block(ctx, after); err != nil {
			if p.granted.Load() && errors.Is(err, errAcquireTimeout) {
				continue
			}
			return nil, err
		}
	}
}

func (p *place) block(ctx context.Context, after time.Duration) error {
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-p.wake:
		p.calm, p.follows = false, ""
	case <-timer.C:
		p.calm, p.polled = p.seen, p.follows != ""
	case <-p.a.changed:
		p.follows = ""
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.s.over:
		return p.s.overErr
	}
	return nil
}

// decide looks at the lock and does what is to be done: it returns the grant,
// or how long to wait before the next look unless something happens.
func (p *place) decide(ctx context.Context) (*Grant, time.Duration, error) {
	if p.granted.Load() {
		g, err := p.handedOver(ctx, 0)
		return g, 0, err
	}
	// The watch on the own node comes first: a grant after it is told, one
	// before it is read.
	if p.stale.Load() {
		p.stale.Store(false)
		data, stat, err := p.s.look(ctx, p.path, &p.own)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return nil, 0, p.evicted(ctx)
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
	} else if p.gone.Load() {
		return nil, 0, p.evicted(ctx)
	}
	if err := p.revise(ctx); err != nil {
		return nil, 0, err
	}
	if p.polled {
		p.polled = false
		if quiet, err := p.undisturbed(ctx); quiet || err != nil {
			return nil, safetyPoll, err
		}
	}
	if p.trust != nil {
		if rest, err := p.rely(ctx); rest > 0 || err != nil {
			return nil, rest, err
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

// mend writes the own node anew that somebody else has overwritten.
func (p *place) mend(ctx context.Context, seen *zk.Stat) error {
	p.a.l.c.log.Warn("the request's node is overwritten: writing it anew", "node", p.path)
	p.rewritten.Store(true) // before its event can come
	p.stale.Store(true)
	stat, err := p.s.set(ctx, p.path, p.rec.encode(), seen.Version)
	switch {
	case err == nil:
		p.version = stat.Version
		return nil
	case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode):
		return errAgain
	}
	return err
}

func (p *place) learn(stat *zk.Stat) {
	p.version = stat.Version
	if !p.known {
		p.known = true
		p.stamp.at, p.stamp.replied = stat.Ctime, p.joined
	}
}

// evicted says why the request's node is gone: by an administrator's hand, or
// because it was granted and taken over before this process heard of either.
func (p *place) evicted(ctx context.Context) error {
	g := p.newGrant()
	loss := g.whyGone(ctx)
	if p.s.isOver() {
		return p.s.overErr
	}
	if loss.Reason != LossDeleted {
		return loss
	}
	return &EvictedError{Scope: p.a.l.scope}
}

// glance is one look at who is there. It takes the lock if that is nobody
// else, and returns how long to rest while there can be nothing to do:
// somebody stands before this request, and there is nobody that it outranks.
func (p *place) glance(ctx context.Context) (*Grant, time.Duration, error) {
	there, err := p.s.contenders(ctx, p.a.l.path)
	if err != nil {
		return nil, 0, err
	}
	p.seen = true
	children, stat := there.children, there.stat
	if err := p.admitted(children); err != nil {
		return nil, 0, err
	}
	all := len(children)
	children = p.a.l.c.strangers.drop(p.a.l.path, children, p.guid)
	me := slices.IndexFunc(children, func(c child) bool { return c.guid == p.guid })
	below := slices.ContainsFunc(children, func(c child) bool { return p.a.req.Priority.Outranks(c.level()) })
	// Of several shared holders that leave at once, nobody may hand over.
	several := slices.ContainsFunc(children, func(c child) bool { return c.mode == priority.Shared })
	switch {
	case len(children) < all:
		return nil, 0, nil // G tells whether they are strangers still
	case me == 0 && len(children) == 1 && int(stat.DataLength) > soleHolderLength:
		return nil, 0, nil // there may be news for those who were evicted: they have to be read
	case me == 0 && len(children) == 1 && !p.granted.Load():
		// Whomever G names at this version, which is of the same snapshot, is
		// dead, or this request itself.
		grant, err := p.grantSelf(ctx, stat, lockRecord{}, children, nil)
		return grant, 0, err
	case me <= 0 || below || several:
		return nil, 0, nil
	case me == 1:
		// The one in front may leave without having seen this request.
		front := p.a.l.path + "/" + children[0].name
		p.watchOnly(front)
		data, stat, err := p.s.look(ctx, front, &p.others)
		if why := whyStranger(data, stat, err); why != "" {
			return nil, 0, nil // a closer look tells whether it holds the lock
		} else if errors.Is(err, zk.ErrNoNode) {
			return nil, 0, errAgain
		} else if err != nil {
			return nil, 0, err
		}
	}
	return nil, restFor(me), nil
}

// weigh is steps 2 to 5 of the protocol.
func (p *place) weigh(ctx context.Context) (*Grant, time.Duration, error) {
	l, s := p.a.l, p.s
	p.follows = ""
	// G before the children: a list that is older than G could show a holder
	// as alive that G no longer knows.
	data, stat, err := s.get(ctx, l.path)
	if err != nil {
		return nil, 0, err
	}
	g, err := l.grants(ctx, s, data, stat.Version)
	if err != nil {
		return nil, 0, err
	}
	p.settleDelayed(g)
	there, err := s.contenders(ctx, l.path)
	if err != nil {
		return nil, 0, err
	}
	if len(g.Delays) > 0 && there.stat.Version != stat.Version {
		return nil, 0, errAgain // a clean end meanwhile would look like an unclean one
	}
	if err := p.admitted(there.children); err != nil {
		return nil, 0, err
	}
	children, foreign := there.children, there.foreign
	children = l.c.strangers.drop(l.path, children, append(slices.Clone(g.Holders), p.guid)...)
	if len(foreign) > 0 && !p.odd {
		p.odd = true
		l.c.log.Warn("ignoring nodes that are no requests", "lock", l.path, "names", foreign)
	}
	var alive []child
	var first, pred child // of the waiters; right in front of this one
	waiting, pos := 0, -1
	holding := g.named()
	for _, c := range children {
		holds := holding(c.guid)
		switch {
		case c.guid == p.guid && holds:
			grant, err := p.handedOver(ctx, 0)
			return grant, 0, err
		case holds:
			alive = append(alive, c)
			continue
		case c.guid == p.guid:
			pos = waiting
		case pos < 0:
			pred = c
		}
		if waiting == 0 {
			first = c
		}
		waiting++
	}
	if pos < 0 {
		if p.gone.Load() || s.isOver() {
			return nil, 0, p.evicted(ctx)
		}
		p.stale.Store(true) // the look at the own node tells
		return nil, 0, errAgain
	}
	p.a.ahead = pos
	if pos == 0 && !p.knocked && slices.ContainsFunc(alive, p.overtook) {
		p.beaten = true
		return nil, 0, errAgain
	}
	if pos > 0 {
		return nil, safetyPoll, p.follow(ctx, first, pred, pos, alive)
	}
	p.first = true
	return p.lead(ctx, stat, g, children, alive)
}

// follow is step 4: it watches the waiter right in front.
func (p *place) follow(ctx context.Context, first, pred child, pos int, alive []child) error {
	l := p.a.l
	if p.first || len(p.asks) > 0 {
		p.first = false
		p.withdraw(ctx)
		if by, err := p.read(ctx, first); err == nil {
			p.a.notices.send(Displaced{By: by})
		}
	}
	p.watchOnly(l.path + "/" + pred.name)
	data, stat, err := p.s.look(ctx, l.path+"/"+pred.name, &p.others)
	if why := whyStranger(data, stat, err); why != "" {
		l.pass(pred.name, why)
		return errAgain
	}
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return errAgain
	case err != nil:
		return err
	}
	if rec, err := decodeContender(data); err == nil && rec.Granted && p.promoted != pred.guid {
		p.promoted = pred.guid
		return errAgain // it holds by now, so this request may be the first; else somebody has written that there
	}
	p.follows = l.path + "/" + pred.name
	p.tellQueued(ctx, pos+1, alive)
	return nil
}

// undisturbed reports whether the own node and that of the one right in front are
// as they were. For one that stands behind another there is no more to know, and a
// look at all who are there is long where they are many.
func (p *place) undisturbed(ctx context.Context) (bool, error) {
	_, own, err := p.s.get(ctx, p.path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return false, nil
	case err != nil:
		return false, err
	case own.Version != p.version:
		p.stale.Store(true)
		return false, errAgain
	}
	data, stat, err := p.s.get(ctx, p.follows)
	switch {
	case whyStranger(data, stat, err) != "", errors.Is(err, zk.ErrNoNode):
		return false, nil
	case err != nil:
		return false, err
	}
	rec, err := decodeContender(data)
	return err == nil && !rec.Granted, nil
}

// tellQueued sends Queued once a wait turns out to be more than a short one.
func (p *place) tellQueued(ctx context.Context, position int, alive []child) {
	if p.told || p.a.req.Notify == nil {
		return
	}
	p.told = true
	var holders []Contender
	for _, c := range alive {
		if h, err := p.read(ctx, c); err == nil {
			holders = append(holders, h)
		}
	}
	p.a.holders = holders
	p.a.notices.send(Queued{Position: position, Holders: holders})
}

func (p *place) read(ctx context.Context, c child) (Contender, error) {
	data, stat, err := p.s.get(ctx, p.a.l.path+"/"+c.name)
	if err != nil {
		return Contender{}, err
	}
	rec, err := decodeContender(data)
	return rec.contender(c, stat), err
}

// overtook reports whether a holder that this request need not let pass joined
// later.
func (p *place) overtook(holder child) bool {
	return !p.a.req.Mode.Admits(holder.mode) && !holder.level().Outranks(p.a.req.Priority) && holder.place.Sequence-p.sequence() > 0
}

func (p *place) sequence() int32 {
	c, _ := parseChild(p.name)
	return c.place.Sequence
}

// knock raises the version of the lock node, and changes nothing else. Whoever
// takes the lock again and again by a version it remembers then has to look,
// and finds this request.
func (p *place) knock(ctx context.Context) error {
	const tries = 16 // each fails if the lock is taken between its read and its write
	for range tries {
		data, stat, err := p.s.get(ctx, p.a.l.path)
		if err != nil {
			return err
		}
		// With its own node, so that the lock is the one that was read.
		_, _, err = p.s.multi(ctx,
			&zk.SetDataRequest{Path: p.a.l.path, Data: again(data, stat), Version: stat.Version},
			&zk.CheckVersionRequest{Path: p.path, Version: -1})
		if !errors.Is(err, zk.ErrBadVersion) {
			p.knocked = err == nil
			return err
		}
		if p.granted.Load() {
			return nil
		}
	}
	return nil
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
	wait := p.s.clock.now().sub(p.joined)
	p.a.l.c.hints.update(p.a.l.path, func(h *hint) {
		h.crowded()
		h.waited(wait)
	})
	return p.a.granted(g)
}

func (p *place) newGrant() *Grant {
	return &Grant{lock: p.a.l, s: p.s, req: p.a.req, guid: p.guid, path: p.path, mode: p.a.req.Mode, stamp: p.stamp, notices: p.a.notices}
}

// watchOnly drops the watches on others than these.
func (p *place) watchOnly(paths ...string) {
	for path := range p.watched {
		if !slices.Contains(paths, path) {
			p.s.unwatch(path, &p.others)
			delete(p.watched, path)
		}
	}
	for _, path := range paths {
		p.watched[path] = struct{}{}
	}
}

// forget ends this request's interest in events.
func (p *place) forget() {
	p.watchOnly()
	p.s.unwatch(p.path, &p.own)
}

// leave is T8: it takes the request out of the queue, however long that takes.
// Found granted, it goes the way of a release.
func (p *place) leave() {
	if p.s.isOver() {
		return
	}
	ctx := context.Background()
	p.withdraw(ctx)
	if p.granted.Load() && p.isGranted(ctx) {
		p.releaseUnused(ctx)
		return
	}
	granted, err := p.depart(ctx)
	switch {
	case granted:
		p.releaseUnused(ctx)
		return
	case err != nil:
		p.a.l.c.log.Error("cannot leave the queue; the request stays until the session ends", "node", p.path, "error", err)
	}
	if p.sawG {
		p.s.fireIdle(ctx, p.a.l.path)
	}
}

// isGranted reports whether the own node, which was written to, says that it was
// granted: somebody else may have written there.
func (p *place) isGranted(ctx context.Context) bool {
	for {
		data, _, err := p.s.get(ctx, p.path)
		if errors.Is(err, errAmbiguous) {
			continue
		}
		rec, bad := decodeContender(data)
		return err == nil && bad == nil && rec.Granted
	}
}

// releaseUnused gives back what was granted to a request that leaves.
func (p *place) releaseUnused(ctx context.Context) {
	g := p.newGrant()
	g.version, g.born = -1, p.s.clock.now()
	_ = g.Release(ctx)
}

// depart deletes the node, however often it takes. A request with a lock-delay
// that was granted meanwhile must not: that would look like the unclean end of
// a hold.
func (p *place) depart(ctx context.Context) (granted bool, err error) {
	if p.a.req.LockDelay == 0 {
		return false, p.s.deleteSurely(ctx, p.path)
	}
	for look := p.adopted; ; look = true {
		err := zk.ErrBadVersion
		if !look || p.known {
			err = p.s.delete(ctx, p.path, p.version) // 0 when it was not read yet: as it was created
		}
		switch {
		case err == nil, errors.Is(err, zk.ErrNoNode), errors.Is(err, errSessionOver):
			return false, nil
		case errors.Is(err, errAmbiguous):
			continue
		case !errors.Is(err, zk.ErrBadVersion):
			return false, err
		}
		data, stat, err := p.s.get(ctx, p.path)
		switch {
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, errSessionOver):
			return false, nil
		case errors.Is(err, errAmbiguous):
			continue
		case err != nil:
			return false, err
		}
		p.version, p.known = stat.Version, true
		if rec, err := decodeContender(data); err == nil && rec.Granted {
			return true, nil
		}
	}
}
