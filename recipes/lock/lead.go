package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// lead is step 5: the request is first in the queue. It watches the holders,
// and G itself where shared holders or members of a hold are in its way: others
// may come to hold beside them. As long as any other holder is exclusive, G
// cannot change without a change of the holder's node or of this one's.
func (p *place) lead(ctx context.Context, stat *zkclient.Stat, g lockRecord, children, alive []child) (*Grant, time.Duration, error) {
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
	return p.a.pending != nil && slices.ContainsFunc(holders, func(h *holding) bool { return !slices.Contains(p.a.pending, h.hold()) })
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

// lookAt reads what the holders say, and watches them alone. It returns errAgain
// when one of them has left.
func (p *place) lookAt(ctx context.Context, g lockRecord, alive []child) ([]*holding, error) {
	holders := make([]*holding, len(alive))
	paths := make([]string, len(alive))
	for i, c := range alive {
		paths[i] = p.a.l.path + "/" + c.name
		holders[i] = &holding{child: c, path: paths[i]}
	}
	p.watchOnly(paths...)
	var looks errgroup.Group
	looks.SetLimit(16) // on one connection, one after the other: this saves the waits between
	for _, h := range holders {
		looks.Go(func() error {
			node, err := p.lookAtHolder(ctx, h.path)
			switch {
			case errors.Is(err, zkclient.ErrNoNode):
				return errAgain
			case err != nil:
				return err
			}
			h.stat = node.Stat
			h.rec, err = decodeContender(node.Data)
			return znode.InNode(err, h.path)
		})
	}
	err := looks.Wait()
	planted := slices.DeleteFunc(slices.Clone(holders), func(h *holding) bool { return !g.planted(h.child, h.stat) })
	for _, h := range planted {
		p.a.l.pass(h.name, "it is not ephemeral")
	}
	if len(planted) > 0 {
		return nil, errAgain
	}
	if !errors.As(err, new(*znode.RecordError)) || znode.IsNewer(err) {
		p.baffled = 0
		return holders, err
	}
	// A client of ours whose node was overwritten leaves the lock at once.
	now := p.s.Now()
	if p.baffled == 0 {
		p.baffled = now
	}
	if now.Sub(p.baffled) < strangeHolderFor {
		return nil, errStranger
	}
	return nil, fmt.Errorf("lock %q not acquired: the data of its holder say nothing (lockkeeper locks show; lockkeeper locks break): %w", p.a.l.scope, err)
}

// strangeHolderFor is how long a request waits for a holder whose data are no
// request: nothing says when its time is over.
const strangeHolderFor = 10 * time.Second

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

// holding is a live holder as the first waiter sees it.
type holding struct {
	child
	path string
	rec  contenderRecord
	stat *zkclient.Stat
}

// hold names the hold of which this one is a member: companions have one name.
func (h *holding) hold() string {
	if h.rec.Hold == "" {
		return h.guid
	}
	return strconv.FormatInt(int64(h.rec.token(h.stat)), 10) + " " + h.rec.Hold
}

// mayGrow reports whether others may come to hold beside this one.
func (h *holding) mayGrow() bool { return h.rec.Mode == priority.Shared || h.rec.Hold != "" }

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

// grantSelf is T3: every holder in G is dead, or admits this request and is
// kept.
func (p *place) grantSelf(ctx context.Context, stat *zkclient.Stat, g lockRecord, children, keep []child) (*Grant, error) {
	if err := p.a.vouch(ctx, &p.a.req); err != nil {
		return nil, err
	}
	if p.a.outdated() {
		return nil, errAgain
	}
	next := lockRecord{Evicted: g.Evicted, Walked: g.Walked && len(keep) > 0, Delays: p.remains(stat, g, children)}
	for _, c := range keep {
		if slices.Contains(g.Holders, c.guid) { // else it has walked in
			next.Holders = append(next.Holders, c.guid)
		}
	}
	// planted-bug self-grant-without-version: stat = &zkclient.Stat{Version: -1}
	r, _, err := p.s.Multi(ctx,
		&zkclient.SetDataRequest{Path: p.path, Data: p.grantedData(), Version: p.version}, // planted-bug dead-waiter-goes-on:
		&zkclient.SetDataRequest{Path: p.a.l.path, Data: p.joining(next).encode(), Version: stat.Version})
	if err == nil {
		// planted-bug dead-waiter-goes-on: r = p.mark(ctx, r)
		p.makePeace()
	}
	return p.ownGrant(r, 0, next, err)
}

// makePeace takes back, in the background, what was asked of holders that the
// request shares the lock with by now.
func (p *place) makePeace() {
	if asks := p.takeAsks(); p.a.req.Mode == priority.Shared && len(asks) > 0 {
		p.s.Client().Background(func() { p.withdrawFrom(context.Background(), asks) })
	}
}

// takeOver is T7: every holder has had its grace. All of them are in the way:
// an exclusive one has the lock alone, and shared ones are in the way of an
// exclusive request alone. It returns errAgain when those had a lock-delay: the
// lock is free then, and not granted until that is over.
func (p *place) takeOver(ctx context.Context, stat *zkclient.Stat, g lockRecord, children []child, holders []*holding) (*Grant, error) {
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
		evicted = append(evicted, evictionNote{ID: h.guid, Owner: h.rec.Owner, By: p.a.req.Owner, Reason: reason, Override: p.a.req.Override, At: now})
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

func aliveOf(holders []*holding) []child {
	alive := make([]child, len(holders))
	for i, h := range holders {
		alive[i] = h.child
	}
	return alive
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

// joining is G with this request as one holder more.
func (p *place) joining(g lockRecord) lockRecord { return g.with(p.guid, p.rec.delayNotes(p.guid)) }

func (p *place) grantedData() []byte {
	rec := p.rec
	rec.Granted = true
	return rec.encode()
}

// ownGrant reads the reply of a transaction in which the request granted
// itself, beside those of kept: ops own and own+1 wrote its node and the
// lock node.
func (p *place) ownGrant(r []zkclient.MultiResponse, own int, kept lockRecord, err error) (*Grant, error) {
	switch {
	case err == nil:
		p.a.l.cache.hints.crowded(p.a.l.path)
		g := p.newGrant()
		g.at.learn(r[own].Stat)
		g.token, g.version, g.epoch, g.evicted = Token(r[own].Stat.Mzxid), r[own+1].Stat.Version, p.a.epoch, kept.Evicted
		// planted-bug token-of-the-place: g.token = Token(r[own].Stat.Czxid)
		if kept.occupied() {
			g.version = -1 // at which the lock is not idle when this one leaves
		}
		return p.a.granted(g)
	case errors.Is(err, zkclient.ErrBadVersion), errors.Is(err, zkclient.ErrNoNode):
		p.stale.Store(true)
		p.beaten = !p.knocked
		return nil, errAgain
	}
	return nil, err
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
		standing = &standingAsk{holder: h.rec.contender(h.child, h.stat), path: h.path, reasons: make(map[priority.Reason]zkclient.Instant)}
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

// hasOthers reports whether any of these is not among those before.
func hasOthers(these, before []Contender) bool {
	return slices.ContainsFunc(these, func(c Contender) bool {
		return !slices.ContainsFunc(before, func(b Contender) bool { return b.ID == c.ID })
	})
}
