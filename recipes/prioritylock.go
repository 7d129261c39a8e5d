package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/priority"
)

// A PriorityLock is the lock of one scope. Whoever is more important goes
// first, and may ask the holder to go; inside one priority, first come first
// served. Exclusive holders have it alone, shared ones together; a shared
// request does not pass an exclusive one that waits, unless it is more
// important. It holds no state of its own: any number of them may stand for one
// scope.
//
// In ZooKeeper a lock is one persistent node, whose data G says who was
// granted, with one ephemeral sequential child for each request. A request
// holds the lock if and only if G names it and its node exists. Comments name
// the transactions T1 to T13 of docs/protocol.md.
type PriorityLock struct {
	c     *Client
	scope string
	path  string
}

// PriorityLock returns the lock of a scope: a path such as
// "cluster/orders/resource/users" that says what is protected. Scopes do not
// contain each other. It returns a *RequestError for a scope that cannot be
// stored, see EscapeScope.
func (c *Client) PriorityLock(scope string) (*PriorityLock, error) {
	name, err := EscapeScope(scope)
	if err != nil {
		return nil, err
	}
	return &PriorityLock{c: c, scope: scope, path: lockPath(c.root, name)}, nil
}

// Scope returns what the lock protects.
func (l *PriorityLock) Scope() string { return l.scope }

var (
	errAcquireTimeout = errors.New("the acquire timeout is over")
	errTrySlow        = errors.New("no answer to a try")
	// errCrowded: somebody else is there, so the request has to queue.
	errCrowded = errors.New("somebody else is at the lock")
)

// Acquire waits for the lock and returns the grant of it, which must be
// released. When it returns an error, the request is gone from ZooKeeper, or
// will be with its session, and is never granted later:
//
//   - *NotAcquiredError: the acquire timeout is over
//   - *CleanupPendingError: the waiting timeout of a polite preemptor is over
//   - *QueueFullError: too many stand in the queue, see Config.QueueLimit
//   - *EvictedError: an administrator deleted the request
//   - *LostError: granted, and taken over before this process heard of it
//   - *UnavailableError: ZooKeeper does not answer
//   - *RequestError: the request can never work, or its Terms cannot
//   - *EmergencyError: it is at priority.Emergency, and no override that is in force says so
//   - one that wraps Terms.Withdraw, or what Request.Authorize has returned
//   - ErrClosed: the client is closed
//   - else the cause of ctx
//
// A request whose session ends while it waits queues again, see Requeued.
func (l *PriorityLock) Acquire(ctx context.Context, r Request) (*Grant, error) {
	if err := r.complete(l.c); err != nil {
		return nil, err
	}
	a := &attempt{l: l, req: r, start: time.Now(), notices: &notices{f: r.Notify}}
	return acquire(ctx, l.c, l.scope, r.AcquireTimeout, a.notices, a.run)
}

// run makes the attempt, in one session after the other.
func (a *attempt) run(ctx context.Context) (*Grant, error) {
	c := a.l.c
	s, err := c.admit(ctx)
	for err == nil {
		var g *Grant
		g, err = a.in(ctx, s)
		if err == nil {
			return g, nil
		}
		if isFinal(err) || !errors.Is(err, errSessionOver) || c.isClosing() {
			if !isFinal(err) && errors.Is(err, errAcquireTimeout) && len(a.holders) == 0 && s.usable() {
				a.describe(c.closing, s)
			}
			break
		}
		if a.queued {
			a.notices.send(Requeued{Cause: err})
		}
		s, err = c.session(ctx)
	}
	return nil, a.explain(err)
}

// complete fills in defaults and reports everything that can never work.
func (r *Request) complete(c *Client) error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, &RequestError{Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	if r.Owner == "" {
		r.Owner = fmt.Sprintf("%s:%d", c.host, c.pid)
	}
	if r.LeaseTimeout == 0 {
		r.LeaseTimeout = DefaultLeaseTimeout
	}
	if r.LeaseTimeout < time.Millisecond {
		bad("lease_timeout", "%s must be positive; write how long the work needs, for example 10m", r.LeaseTimeout)
	}
	if r.CleanupTimeout < 0 {
		bad("cleanup_timeout", "%s is negative; write 0 for no cleanup", r.CleanupTimeout)
	}
	if r.WaitingTimeout != nil && *r.WaitingTimeout < 0 {
		bad("waiting_timeout", "%s is negative; write 0 for now, or leave it out for ever", *r.WaitingTimeout)
	}
	if r.AcquireTimeout != nil && *r.AcquireTimeout < 0 {
		bad("acquire_timeout", "%s is negative; write 0 for a try, or leave it out", *r.AcquireTimeout)
	}
	switch {
	case r.MinRuntime < 0:
		bad("min_runtime", "%s is negative; write how long the work is not to be preempted, or leave it out", r.MinRuntime)
	case r.MinRuntime > r.LeaseTimeout:
		bad("min_runtime", "min_runtime (%s) is longer than lease_timeout (%s); shorten the one or lengthen the other", r.MinRuntime, r.LeaseTimeout)
	}
	switch {
	case r.PreemptDelta < 0:
		bad("preempt_delta", "%d is negative; write 1 for any higher priority, or leave it out", r.PreemptDelta)
	case r.PreemptDelta > 0 && r.NeverPreempts:
		bad("preempt_delta", "has no meaning for a request that never preempts; leave one of them out")
	}
	switch {
	case r.LockDelay < 0:
		bad("lock_delay", "%s is negative; write how long the lock is to stay free after an unclean end, or leave it out", r.LockDelay)
	case r.LockDelay > MaxLockDelay:
		bad("lock_delay", "%s is longer than %s; write how long work that was cut off may still do harm", r.LockDelay, MaxLockDelay)
	}
	for _, text := range []struct {
		field, value string
		limit        int
	}{{"owner", r.Owner, 1 << 10}, {"message", r.Message, 16 << 10}, {"traceparent", r.Trace, 1 << 10}} {
		if len(text.value) > text.limit {
			bad(text.field, "takes %d bytes; the limit is %d", len(text.value), text.limit)
		}
	}
	if o := r.Override; o != nil {
		r.Override = o.valid()
		for _, text := range []struct {
			field, value string
			limit        int
		}{{"id", o.ID, maxMarkID}, {"by", o.By, maxMarkBy}, {"reason", o.Reason, maxMarkReason}} {
			if len(text.value) > text.limit {
				bad("override", "its %s takes %d bytes; the limit is %d", text.field, len(text.value), text.limit)
			}
		}
	}
	if len(r.Under) > maxUnder {
		bad("under", "names %d grants; the limit is %d", len(r.Under), maxUnder)
	}
	if r.Priority < 0 {
		bad("priority", "%v", r.Priority.CheckJob())
	}
	if r.Mode != priority.Exclusive && r.Mode != priority.Shared {
		bad("mode", "%s is unknown; write exclusive or shared", r.Mode)
	}
	return errors.Join(errs...)
}

// attempt is one call of Acquire.
type attempt struct {
	l       *PriorityLock
	req     Request
	start   time.Time
	epoch   int32   // of the root, as it was before the first look at the lock
	queued  bool    // it has stood in the queue
	ahead   int     // waiters in front, as last seen
	seen    []child // contenders, as seen before it joined the queue
	below   bool    // some of them came behind it
	holders []Contender
	delays  []Delay // that bar it, as last seen
	delayed bool    // Delayed was sent for them
	timed   bool    // a try has found out since when
	notices *notices

	// What the request becomes, see Terms.
	made       bool            // it was asked for
	consulted  bool            // in this session
	changed    <-chan struct{} // closed when the terms may have changed; nil: they cannot
	next       *revision       // what it has not become yet
	authorized []string        // guids of those whom it may evict
	pending    []string        // guids of the holders of whom CleanupPending was sent
}

func (a *attempt) try() bool { return a.req.AcquireTimeout != nil && *a.req.AcquireTimeout == 0 }

// outranksSeen reports whether anybody seen so far is outranked, and so may be
// a holder to preempt.
func (a *attempt) outranksSeen() bool {
	return slices.ContainsFunc(a.seen, func(c child) bool { return a.req.Priority.Outranks(c.level()) })
}

// in makes the attempt within one session.
func (a *attempt) in(ctx context.Context, s *session) (*Grant, error) {
	a.consulted = false
	if err := a.renew(ctx); err != nil {
		return nil, err
	}
	g, err := a.fast(ctx, s)
	if !errors.Is(err, errCrowded) {
		return g, err
	}
	if !a.try() {
		if err := a.tooMany(a.seen, ""); err != nil {
			return nil, err
		}
		return a.queue(ctx, s)
	}
	a.describe(ctx, s)
	if len(a.holders) == 0 && a.l.unmask(ctx, s, a.seen) {
		if g, err := a.fast(ctx, s); !errors.Is(err, errCrowded) {
			return g, err
		}
		a.describe(ctx, s)
	}
	return nil, a.refuse()
}

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
				token: Token(r[2].Stat.Mzxid), version: r[2].Stat.Version, epoch: a.epoch, evicted: keep.Evicted,
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

// undo removes, in the background, the node of a T1, T2 or T12 that may have
// happened. What was granted by then is released if the clean end of a hold has to
// be told from an unclean one.
func (a *attempt) undo(s *session, guid string) {
	s.c.backlog.Go(func() {
		path, err := s.find(context.Background(), a.l.path, guid)
		switch {
		case err != nil || path == "":
		case a.req.LockDelay == 0:
			_ = s.deleteSurely(context.Background(), path)
		default:
			now := s.clock.now()
			p := newPlace(a, s, guid, path, now, now)
			p.adopted = true
			p.leave()
		}
	})
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

// granted makes the session carry a new grant.
func (a *attempt) granted(g *Grant) (*Grant, error) {
	g.req, g.mode = a.req, a.req.Mode
	g.born = g.s.clock.now()
	g.leaseTo = g.born.add(a.req.LeaseTimeout)
	g.watch = func(watchKind) {
		g.blink()
		go g.changed()
	}
	g.blink() // it may have been evicted before it hears of its grant
	if !g.s.hold(g) {
		// Granted at the server, but too late for this session to vouch for.
		g.s.discard(g.path)
		return nil, fmt.Errorf("%w: it was cut off when the lock was granted", errSessionOver)
	}
	g.watchLater()
	return g, nil
}

// refuse describes why a try fails.
func (a *attempt) refuse() error {
	a.ahead = 0
	for _, c := range a.seen {
		holds := slices.ContainsFunc(a.holders, func(h Contender) bool { return h.ID == c.guid })
		if !holds && !a.req.Priority.Outranks(c.level()) {
			a.ahead++
		}
	}
	return &NotAcquiredError{Scope: a.l.scope, Holders: a.holders, Delays: a.delays, Ahead: a.ahead}
}

// describe learns who has the lock, for an error message.
func (a *attempt) describe(ctx context.Context, s *session) {
	if state, err := a.l.c.snapshot(ctx, s, a.l.scope, a.l.path, false); err == nil {
		a.holders = state.Holders
		if delays := state.delaysOf(a.req.Mode); len(delays)+len(a.holders) > 0 { // else they were over just now
			a.delays, a.delayed = delays, false
		}
	}
}

// explain turns what ended an attempt into what its caller is told.
func (a *attempt) explain(err error) error {
	waited := time.Since(a.start)
	switch {
	case isFinal(err):
	case errors.Is(err, errSessionOver) && a.l.c.isClosing():
		return ErrClosed
	case errors.Is(err, errTrySlow):
		return a.l.c.unavailable()
	case errors.Is(err, errAcquireTimeout):
		e := &NotAcquiredError{Scope: a.l.scope, Waited: waited, Holders: a.holders, Delays: a.delays, Ahead: a.ahead}
		if gone, ok := errors.AsType[*UnavailableError](err); ok {
			e.Err = gone
		}
		return e
	}
	return err
}

// find looks for a contender by its guid after a lost reply. The session has
// caught up since, so what is not there was not executed. "": not there.
func (s *session) find(ctx context.Context, lock, guid string) (string, error) {
	for {
		names, _, err := s.list(ctx, lock)
		switch {
		case err == nil:
			for _, name := range names {
				if c, ok := parseChild(name); ok && c.guid == guid {
					return lock + "/" + name, nil
				}
			}
			return "", nil
		case errors.Is(err, zk.ErrNoNode):
			return "", nil
		case !errors.Is(err, errAmbiguous):
			return "", err
		}
	}
}

// discard deletes a node in the background until it is certain to be gone.
func (s *session) discard(path string) {
	if s.isOver() {
		return // its nodes go with it
	}
	s.c.backlog.Go(func() { _ = s.deleteSurely(context.Background(), path) })
}

// deleteSurely deletes path however often it takes; the end of the session
// does it too.
func (s *session) deleteSurely(ctx context.Context, path string) error {
	for {
		err := s.delete(ctx, path, -1)
		switch {
		case err == nil, errors.Is(err, zk.ErrNoNode), errors.Is(err, errSessionOver):
			return nil
		case !errors.Is(err, errAmbiguous):
			return err
		}
	}
}
