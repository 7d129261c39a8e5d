package recipes

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/priority"
)

// MaxLocalQueue is the largest Config.LocalQueue.
const MaxLocalQueue = 1000

// localLines are the local queues of a client, by lock and priority.
//
// The one idea: of all requests of one client for one lock at one priority, the
// first alone has a node. Whoever releases makes that node the next one's (T17), in
// one transaction and under a new token, instead of deleting it and granting another.
type localLines struct {
	mu sync.Mutex
	m  map[lineKey]*localLine
}

type lineKey struct {
	lock  string // path of its node
	level priority.Level
}

// A localLine is one such queue. All of it is guarded by localLines.mu.
type localLine struct {
	c       *Client
	key     lineKey
	waiting []*localTurn
	head    *localTurn // whose request is in ZooKeeper, beside the holder's or not; nil: nobody's
	holder  *Grant     // that is passed on; nil: none
	lease   *time.Timer

	// What is known of those outside of the line.
	looked    instant // when the list was asked for that shows them
	looking   bool
	outranked bool // somebody more important is there
	rivalled  bool // somebody of the same priority is
	passed    int  // turns in a row since nobody of the same priority was there
}

// A localTurn is one request in a localLine.
type localTurn struct {
	a      *attempt
	called chan struct{} // closed: it is the head
	grants chan *Grant   // passed on to it
}

// runInLine makes the attempt, behind those of this client that want the same lock
// at the same priority.
func (a *attempt) runInLine(ctx context.Context) (*Grant, error) {
	if err := a.consult(); err != nil {
		return nil, a.explain(err)
	}
	if !a.mayStandInLine() {
		return a.run(ctx)
	}
	lines := &a.l.c.lines
	t := &localTurn{a: a, called: make(chan struct{}), grants: make(chan *Grant, 1)}
	line := lines.join(a.l.c, lineKey{a.l.path, a.req.Priority}, t)
	told := time.NewTimer(restFor(1)) // only then it is more than a short wait
	defer told.Stop()
	done, changed := ctx.Done(), a.changed
	for {
		select {
		case <-t.called:
			g, err := a.run(ctx)
			line.ran(t, g)
			return g, err
		case g := <-t.grants:
			return g, nil
		case <-told.C:
			line.tellQueued(t)
		case <-changed: // it may have another priority by now, or be withdrawn
			if line.leave(t) {
				return a.run(ctx)
			}
			changed = nil // it has its turn
		case <-done:
			if line.leave(t) {
				return nil, a.leftLine(ctx)
			}
			done = nil
		}
	}
}

// mayStandInLine reports whether another request of this client can have the node
// first: all that tells one contender from another while it waits is the same.
func (a *attempt) mayStandInLine() bool {
	r := &a.req
	return r.Mode == priority.Exclusive && r.Hold == "" && r.LockDelay == 0 && !r.Patient && r.Priority != priority.Emergency
}

// leftLine says why a request that has stood in line alone has failed.
func (a *attempt) leftLine(ctx context.Context) error {
	err := context.Cause(ctx)
	if errors.Is(err, errAcquireTimeout) {
		a.l.c.mu.Lock()
		s := a.l.c.current
		a.l.c.mu.Unlock()
		if s.usable() {
			a.describe(a.l.c.closing, s)
		}
	}
	return a.explain(err)
}

// --- the line ----------------------------------------------------------------------

// join puts a request at the end of its line. It is called at once if nobody is
// there.
func (ls *localLines) join(c *Client, key lineKey, t *localTurn) *localLine {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	q := ls.m[key]
	if q == nil {
		if ls.m == nil {
			ls.m = make(map[lineKey]*localLine)
		}
		q = &localLine{c: c, key: key}
		ls.m[key] = q
	}
	q.waiting = append(q.waiting, t)
	q.settleLocked()
	return q
}

// settleLocked calls the next one to ZooKeeper when nobody of the line is there. A
// line with nobody in it is forgotten.
func (q *localLine) settleLocked() {
	switch {
	case q.head == nil && q.holder == nil && len(q.waiting) > 0:
		q.callLocked()
	case q.holder != nil && q.head == nil && len(q.waiting) > 0:
		q.watchLeaseLocked()
	case q.head == nil && q.holder == nil:
		if q.lease != nil {
			q.lease.Stop()
		}
		delete(q.c.lines.m, q.key)
	}
}

func (q *localLine) callLocked() {
	q.head = q.waiting[0]
	q.waiting = slices.Delete(q.waiting, 0, 1)
	close(q.head.called)
}

// watchLeaseLocked sees to it that the next one goes to ZooKeeper when the holder's
// lease is over: there it asks the holder to go, like anybody else.
func (q *localLine) watchLeaseLocked() {
	if q.lease == nil {
		q.lease = time.AfterFunc(q.holder.leaseLeft(), q.leaseOver)
	}
}

func (q *localLine) leaseOver() {
	q.c.lines.mu.Lock()
	defer q.c.lines.mu.Unlock()
	switch {
	case q.holder == nil || q.head != nil || len(q.waiting) == 0:
		q.lease = nil
	case q.holder.leaseLeft() > 0: // another's, or it was extended
		q.lease.Reset(q.holder.leaseLeft())
	default:
		q.lease = nil
		q.callLocked()
	}
}

// leave takes a request out of the line, unless it has its turn.
func (q *localLine) leave(t *localTurn) bool {
	q.c.lines.mu.Lock()
	defer q.c.lines.mu.Unlock()
	i := slices.Index(q.waiting, t)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	return true
}

// ran is told what became of the head's attempt.
func (q *localLine) ran(t *localTurn, g *Grant) {
	ls := &q.c.lines
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if q.head == t {
		q.head = nil
	}
	if g != nil && g.req.Priority == q.key.level && g.enter(q) { // else its terms have changed
		q.holder, q.looked, q.passed = g, 0, 0
	}
	q.settleLocked()
}

// quit ends the line's interest in a grant: it is lost, or cannot be passed on.
func (q *localLine) quit(g *Grant) {
	if q == nil {
		return
	}
	q.c.lines.mu.Lock()
	defer q.c.lines.mu.Unlock()
	if q.holder == g {
		q.holder = nil
		q.settleLocked()
	}
}

// next takes the one out of the line to whom the holder passes on; nil: nobody, or
// one that has gone to ZooKeeper.
func (q *localLine) next(g *Grant) (t *localTurn, behind int) {
	q.c.lines.mu.Lock()
	defer q.c.lines.mu.Unlock()
	if q.holder != g {
		return nil, 0
	}
	if q.head == nil {
		// Whose terms have changed leaves by itself.
		if i := slices.IndexFunc(q.waiting, func(t *localTurn) bool { return !t.a.outdated() }); i >= 0 {
			t = q.waiting[i]
			q.waiting = slices.Delete(q.waiting, i, i+1)
			return t, len(q.waiting)
		}
	}
	q.holder = nil
	q.settleLocked()
	return nil, 0
}

// passedOn: the lock is t's by now.
func (q *localLine) passedOn(g *Grant) {
	q.c.lines.mu.Lock()
	defer q.c.lines.mu.Unlock()
	q.holder = g
	q.passed++
	q.settleLocked()
}

// refused: it could not be passed on to t, which is the first of the line again, and
// goes to ZooKeeper.
func (q *localLine) refused(t *localTurn) {
	q.c.lines.mu.Lock()
	defer q.c.lines.mu.Unlock()
	q.waiting = slices.Insert(q.waiting, 0, t)
	q.holder = nil
	q.settleLocked()
}

// isBehind reports whether somebody stands behind the holder.
func (q *localLine) isBehind() bool {
	if q == nil {
		return false
	}
	q.c.lines.mu.Lock()
	defer q.c.lines.mu.Unlock()
	return len(q.waiting) > 0
}

// tellQueued tells a request where it stands.
func (q *localLine) tellQueued(t *localTurn) {
	if t.a.req.Notify == nil {
		return
	}
	ls := &q.c.lines
	ls.mu.Lock()
	i, g := slices.Index(q.waiting, t), q.holder
	ls.mu.Unlock()
	if i < 0 {
		return
	}
	var holders []Contender
	if g != nil {
		holders = []Contender{g.contender()}
	}
	t.a.notices.send(Queued{Position: i + 1, Holders: holders})
}

// --- passing on --------------------------------------------------------------------

// passOn is T17: the holder's node becomes that of the next in line. It reports
// whether that is so; if not, the holder has to leave, and the line queues in
// ZooKeeper. at is the version of the node at which it was not asked to go, as far as
// that was read; asked: it is.
func (g *Grant) passOn(ctx context.Context, at dataVersion, asked bool) bool {
	q := g.line
	if q == nil {
		return false
	}
	t, behind := q.next(g)
	if t == nil {
		return false
	}
	if asked || !q.mayPass(ctx, g) {
		q.refused(t)
		return false
	}
	again, err := g.become(ctx, t, at, behind)
	if err != nil {
		q.refused(t)
		return false
	}
	q.passedOn(again)
	if _, err := t.a.granted(again); err != nil {
		q.refused(t) // in another session
		return true
	}
	t.grants <- again
	return true
}

// mayPass reports whether nobody outside of the line comes first: nobody more
// important is there, as of a list that is fresh, and nobody of the same priority has
// been passed as often as the configuration allows.
func (q *localLine) mayPass(ctx context.Context, g *Grant) bool {
	ls, now := &q.c.lines, g.s.clock.now()
	ls.mu.Lock()
	full := q.passed >= q.c.cfg.LocalQueue
	old := q.looked == 0 || now.sub(q.looked) > freshFor
	soon := !q.looking && now.sub(q.looked) > freshFor/2
	ls.mu.Unlock()
	if full || old {
		if err := q.look(ctx, g); err != nil {
			return false
		}
	} else if soon { // while this one is passed on
		q.c.backlog.Go(func() { _ = q.look(context.Background(), g) })
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if q.outranked || full && q.rivalled {
		return false
	}
	if full {
		q.passed = 0
	}
	return true
}

// look finds out who is at the lock beside the line.
func (q *localLine) look(ctx context.Context, g *Grant) error {
	ls := &q.c.lines
	ls.mu.Lock()
	q.looking = true
	ls.mu.Unlock()
	at := g.s.clock.now()
	there, me, _, err := g.lock.queueAround(ctx, g.s, g.guid)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	q.looking = false
	if err != nil {
		return err
	}
	others := g.lock.c.strangers.drop(g.lock.path, slices.Concat(there[:me], there[me+1:]))
	q.looked = max(q.looked, at)
	q.outranked = slices.ContainsFunc(others, func(c child) bool { return c.level().Outranks(q.key.level) })
	q.rivalled = slices.ContainsFunc(others, func(c child) bool { return c.level() == q.key.level })
	return nil
}

// errNotPassedOn: the holder's node says something else than what is passed on.
var errNotPassedOn = errors.New("the lock cannot be passed on")

// become makes the holder's node that of the next in line. With an error the lock is
// not that one's.
func (g *Grant) become(ctx context.Context, t *localTurn, at dataVersion, behind int) (*Grant, error) {
	rec := newRecord(g.lock.c, t.a.req)
	rec.Granted, rec.Behind = true, behind
	data := rec.encode()
	record := soleHolder(g.guid)
	if kept := (lockRecord{Evicted: g.evicted}).news(g.stamp.notAhead(g.s.clock.now())); len(kept) > 0 {
		record = lockRecord{Evicted: kept}.with(g.guid, nil).encode()
	}
	for {
		sent := g.s.clock.now()
		if !at.known { // or the reply to the transaction was lost: done twice, it is as good
			found, stat, err := g.own(ctx)
			switch {
			case errors.Is(err, errAmbiguous):
				continue
			case err != nil:
				return nil, err
			case !found.Granted || len(found.Preempt) > 0:
				return nil, errNotPassedOn
			}
			at, sent = dataVersion{stat.Version, true}, g.s.clock.now()
		}
		r, _, err := g.s.multi(ctx,
			&zk.SetDataRequest{Path: g.path, Data: data, Version: at.version},
			&zk.SetDataRequest{Path: g.lock.path, Data: record, Version: -1})
		switch {
		case err == nil:
			return g.inTurn(t, Token(r[0].Stat.Mzxid), r[0].Stat, r[1].Stat.Version, sent), nil
		case errors.Is(err, errAmbiguous):
			at.known = false
		default:
			return nil, err
		}
	}
}

// A dataVersion is the version of a node's data, as last seen.
type dataVersion struct {
	version int32
	known   bool
}

// learn takes note of a look; one that is older than another says nothing.
func (v *dataVersion) learn(stat *zk.Stat) {
	if !v.known || stat.Version > v.version {
		*v = dataVersion{stat.Version, true}
	}
}

// own reads the holder's node.
func (g *Grant) own(ctx context.Context) (contenderRecord, *zk.Stat, error) {
	data, stat, err := g.s.get(ctx, g.path)
	if err != nil {
		return contenderRecord{}, nil, err
	}
	rec, err := decodeContender(data)
	return rec, stat, err
}

// inTurn is the grant of the next in line, on the node of this one.
func (g *Grant) inTurn(t *localTurn, token Token, stat *zk.Stat, version int32, sent instant) *Grant {
	return &Grant{
		lock: g.lock, s: g.s, req: t.a.req, mode: t.a.req.Mode, guid: g.guid, path: g.path, epoch: g.epoch, version: version, evicted: g.evicted,
		stamp: serverStamp{at: stat.Mtime, sent: sent, replied: g.s.clock.now()}, notices: t.a.notices,
		token: token, at: dataVersion{stat.Version, true}, line: g.line,
	}
}

// enter puts a grant into its line, unless it is lost by now.
func (g *Grant) enter(q *localLine) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.line = q
	return g.state == stateHeld
}

// leaseLeft is how long the lease goes on.
func (g *Grant) leaseLeft() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.leaseTo.sub(g.s.clock.now())
}

// contender describes the holder as far as its own process knows it.
func (g *Grant) contender() Contender {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := &g.req
	return Contender{
		ID: g.guid, Owner: r.Owner, Host: g.lock.c.host, PID: g.lock.c.pid, Priority: r.Priority, Mode: g.mode, Message: r.Message,
		LeaseTimeout: r.LeaseTimeout, CleanupTimeout: r.CleanupTimeout, MinRuntime: r.MinRuntime, Class: r.Class, Trace: r.Trace, Token: g.token,
	}
}
