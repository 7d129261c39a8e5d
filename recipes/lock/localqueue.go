package lock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/call"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// localLines are the local queues of a client, by lock and priority.
//
// The one idea: of all requests of one client for one lock at one priority, the
// first alone has a node. The releasing holder makes that node the next one's
// (T17), in one transaction and under a new token, instead of deleting it and
// granting another.
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
	cache   *lockCache
	key     lineKey
	waiting []*localTurn
	head    *localTurn // whose request is in ZooKeeper, beside the holder's or not; nil: none
	holder  *Grant     // that is passed on; nil: none
	lease   *time.Timer

	// What is known of those outside of the line.
	looked    zkclient.Instant // when the list was asked for that shows them
	looking   bool
	outranked bool // a more important request is there
	rivalled  bool // one of the same priority is there
	passed    int  // turns in a row that may have passed a waiter of the same priority
}

// A localTurn is one request in a localLine.
type localTurn struct {
	a      *attempt
	line   *localLine
	called chan struct{} // closed: it is the head
	grants chan *Grant   // passed on to it
}

// openInLine stands in line without a goroutine that could be left behind: most
// requests are passed the lock there. What else happens is runInLine's, which goes on from
// there.
func (a *attempt) openInLine(ctx context.Context) (*Grant, bool) {
	if ctx.Err() != nil || a.l.c.IsClosing() || a.consult() != nil || !a.mayStandInLine() {
		return nil, false
	}
	t := a.standInLine()
	var told <-chan time.Time
	if a.req.Notify != nil { // then its callback is called after a while, which may take a while
		timer := time.NewTimer(restFor(1))
		defer timer.Stop()
		told = timer.C
	}
	select {
	case g := <-t.grants:
		return g, true
	case <-t.called:
		if g, ok := a.open(ctx); ok {
			t.line.ran(t, g)
			return g, true
		}
	case <-told:
	case <-a.changed:
	case <-ctx.Done():
	}
	return nil, false
}

func (a *attempt) standInLine() *localTurn {
	a.turn = &localTurn{a: a, called: make(chan struct{}), grants: make(chan *Grant, 1)}
	a.turn.line = a.l.cache.lines.join(a.l.cache, lineKey{a.l.path, a.req.Priority}, a.turn)
	return a.turn
}

// runInLine makes the attempt, behind those of this client that want the same lock
// at the same priority.
func (a *attempt) runInLine(ctx context.Context) (*Grant, error) {
	t := a.turn
	if t == nil {
		if err := a.consult(); err != nil {
			return nil, a.explain(err)
		}
		if !a.mayStandInLine() {
			return a.run(ctx)
		}
		t = a.standInLine()
	}
	line := t.line
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
	return r.Mode == priority.Exclusive && r.Hold == "" && r.LockDelay == 0 && !r.Patient &&
		r.Priority != priority.Emergency
}

// leftLine says why a request that has stood in line alone has failed.
func (a *attempt) leftLine(ctx context.Context) error {
	err := context.Cause(ctx)
	if errors.Is(err, call.ErrTimeout) {
		if s := a.l.c.Current(); s.Usable() {
			a.describe(a.l.c.Closing(), s)
		}
	}
	return a.explain(err)
}

// --- the line ----------------------------------------------------------------------

// join puts a request at the end of its line. It is called at once if the line
// is empty.
func (ls *localLines) join(cache *lockCache, key lineKey, t *localTurn) *localLine {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	q := ls.m[key]
	if q == nil {
		if ls.m == nil {
			ls.m = make(map[lineKey]*localLine)
		}
		q = &localLine{cache: cache, key: key}
		ls.m[key] = q
	}
	q.waiting = append(q.waiting, t)
	q.settleLocked()
	return q
}

// settleLocked calls the next one to ZooKeeper when no request of the line is
// there. An empty line is forgotten.
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
		delete(q.cache.lines.m, q.key)
	}
}

func (q *localLine) callLocked() {
	q.head = q.waiting[0]
	q.waiting = slices.Delete(q.waiting, 0, 1)
	close(q.head.called)
}

// watchLeaseLocked sees to it that the next one goes to ZooKeeper when the
// holder's lease is over: there it preempts the holder, like any request.
func (q *localLine) watchLeaseLocked() {
	if q.lease == nil {
		q.lease = time.AfterFunc(q.holder.leaseLeft(), q.leaseOver)
	}
}

func (q *localLine) leaseOver() {
	q.cache.lines.mu.Lock()
	defer q.cache.lines.mu.Unlock()
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
	q.cache.lines.mu.Lock()
	defer q.cache.lines.mu.Unlock()
	i := slices.Index(q.waiting, t)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	return true
}

// ran takes the outcome of the head's attempt.
func (q *localLine) ran(t *localTurn, g *Grant) {
	ls := &q.cache.lines
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if q.head == t {
		q.head = nil
	}
	if g != nil && g.req.Priority == q.key.level && g.enter(q) { // else its terms have changed
		q.holder, q.looked, q.passed = g, 0, 0
		if q.cache.hints.get(q.key.lock).blind > 0 {
			q.passed = q.cache.c.Config().LocalQueue // no list since turns that may have passed a waiter
		}
	}
	q.settleLocked()
}

// quit ends the line's interest in a grant: it is lost, or cannot be passed on.
func (q *localLine) quit(g *Grant) {
	if q == nil {
		return
	}
	q.cache.lines.mu.Lock()
	defer q.cache.lines.mu.Unlock()
	if q.holder == g {
		q.holder = nil
		q.settleLocked()
	}
}

// next takes out of the line the request that the holder passes the lock to;
// nil: none, or one that has gone to ZooKeeper.
func (q *localLine) next(g *Grant) (t *localTurn, behind int) {
	q.cache.lines.mu.Lock()
	defer q.cache.lines.mu.Unlock()
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
	q.cache.lines.mu.Lock()
	defer q.cache.lines.mu.Unlock()
	q.holder = g
	q.passed++
	q.settleLocked()
}

// refused: it could not be passed on to t, which is the first of the line again, and
// goes to ZooKeeper.
func (q *localLine) refused(t *localTurn) {
	q.cache.lines.mu.Lock()
	defer q.cache.lines.mu.Unlock()
	q.waiting = slices.Insert(q.waiting, 0, t)
	q.holder = nil
	q.settleLocked()
}

// isLeft ends the line's interest in a holder that no request of the line waits
// behind. It reports whether the line has no interest in it.
func (q *localLine) isLeft(g *Grant) bool {
	if q == nil {
		return true
	}
	q.cache.lines.mu.Lock()
	defer q.cache.lines.mu.Unlock()
	if q.holder == g && q.head == nil && len(q.waiting) == 0 {
		q.holder = nil
		q.settleLocked()
	}
	return q.holder != g
}

// isBehind reports whether a request stands behind the holder.
func (q *localLine) isBehind() bool {
	if q == nil {
		return false
	}
	q.cache.lines.mu.Lock()
	defer q.cache.lines.mu.Unlock()
	return len(q.waiting) > 0
}

// tellQueued tells a request where it stands.
func (q *localLine) tellQueued(t *localTurn) {
	if t.a.req.Notify == nil {
		return
	}
	ls := &q.cache.lines
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
	t.a.notices.Send(Queued{Position: i + 1, Holders: holders})
}
