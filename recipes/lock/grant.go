package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A Grant is a lock that was acquired, until Release or until it is lost.
// Request.Notify is called with what happens to it.
type Grant struct {
	lock    *PriorityLock
	s       *zkclient.Session
	req     Request
	guid    string
	path    string
	born    zkclient.Instant
	version int32          // of the lock node, as this grant wrote it; -1 when not known
	epoch   int32          // of the root, read before the grant
	evicted []evictionNote // by this grant, to be handed on

	walkedIn walkIn // where it walked in; the zero value: it did not

	line *localLine // whose next one it is passed on to; nil: it is not. Set before a release is possible

	notices *notices // the request's
	watch   zkclient.Watcher
	late    bool // its watch is to be armed; guarded by lateWatches

	mu        sync.Mutex
	mode      priority.Mode // shared as soon as it may be
	stamp     zkclient.ServerStamp
	token     Token // 0 when not known yet
	asked     map[askKey]zkclient.Instant
	graceTo   zkclient.Instant // end of the earliest grace, while asked
	leaseTo   zkclient.Instant // end of the lease
	blindTo   zkclient.Instant // while its node may have changed unheard of: the session's deadline of when that began; else 0
	blinks    int              // how often that began
	timer     *time.Timer
	looking   bool             // an inspection is under way
	again     bool             // and what it sees may be old
	next      *heir            // the first waiter, as last seen
	around    zkclient.Watcher // of who comes and goes, while the holder is being preempted
	attending bool             // such a watch is or will be armed
	events    int              // how often a request came or went since
	pause     time.Duration    // until the next look
	preparing *preparation     // a look for next that may be under way; nil: none was begun
	attended  *heir            // next, if no request came or went since; else nil
	at        dataVersion      // of the own node: what asked says is of this version
	named     zkclient.Instant // when the grant record named this grant for sure; 0: at birth
	namedAt   int32            // the record's version then; -1 when not known
	state     grantState
	loss      *LostError
}

type grantState uint8

const (
	stateHeld grantState = iota
	stateReleased
	stateLost
)

// askKey tells one note in the mailbox from another. A request that asks again
// under other terms replaces its note: that is another one.
type askKey struct {
	id       string
	reason   priority.Reason
	at       int64
	grace    int64
	forceful bool
}

// Scope returns what the lock protects.
func (g *Grant) Scope() string { return g.lock.scope }

// ID returns the guid under which the grant stands in ZooKeeper.
func (g *Grant) ID() string { return g.guid }

// Mode returns how the lock is held: as it was asked for, or shared after
// Downgrade.
func (g *Grant) Mode() priority.Mode {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mode
}

// Deadline returns until when the lock is certainly held if ZooKeeper does not
// answer any more, on the local monotonic clock. It moves on with every answer,
// once it is known that the lock is held yet. It knows nothing of leases, graces
// and force: when those take the lock of a holder that is cut off is in "Takeovers
// and breaks" in docs/safety.md.
func (g *Grant) Deadline() time.Time {
	end := g.s.Deadline()
	g.mu.Lock()
	if g.blindTo != 0 {
		end = min(end, g.blindTo)
	}
	g.mu.Unlock()
	return time.Now().Add(end.Sub(g.s.Awake()))
}

// Token returns the fencing token. After a hand-over it has to be read first,
// once; that read also proves the grant, where others than clients may have
// written to its node: see "Foreign nodes" in docs/protocol.md. It returns the *LostError if the lock was lost before it was known.
func (g *Grant) Token(ctx context.Context) (Token, error) {
	g.mu.Lock()
	token := g.token
	g.mu.Unlock()
	if token != 0 {
		return token, nil
	}
	return zkclient.Promptly(ctx, g.lock.c.Client, func() (Token, error) { return g.readToken(ctx) }, nil)
}

func (g *Grant) readToken(ctx context.Context) (Token, error) {
	for {
		g.mu.Lock()
		token, loss := g.token, g.loss
		g.mu.Unlock()
		switch {
		case token != 0:
			return token, nil
		case loss != nil:
			return 0, loss
		}
		if err := g.inspect(ctx); err != nil && !errors.Is(err, zkclient.ErrAmbiguous) {
			return 0, g.lossOr(err)
		}
	}
}

// watchLater arms the holder's watch unless the hold ends before. Where others
// wait, it first learns who is next.
func (g *Grant) watchLater() {
	lateWatchesOf(g.s).add(g)
	if g.line.isBehind() {
		return // it is passed on
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state != stateHeld || g.mode == priority.Shared || g.req.Hold != "" || g.lock.cache.hints.get(g.lock.path).busy == 0 {
		return // one of several holders cannot know whether it will be the last
	}
	after := prepareAfter
	if g.next != nil { // until it is too old
		after = max(after, g.next.seen.Add(freshFor-time.Millisecond).Sub(g.born))
	}
	g.timer = time.AfterFunc(after, g.prepare)
}

// several reports whether others may hold the lock beside this grant. Then G
// changes without it, and is read before each release.
func (g *Grant) several() bool { return g.req.Hold != "" || g.Mode() == priority.Shared }

func (g *Grant) held() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state == stateHeld
}

// changed reads the own node, once at a time.
func (g *Grant) changed() {
	g.mu.Lock()
	if g.state != stateHeld || g.looking {
		g.again = true
		g.mu.Unlock()
		return
	}
	g.looking = true
	g.mu.Unlock()
	for {
		g.mu.Lock()
		g.again = false
		g.mu.Unlock()
		err := g.inspect(g.lock.c.Closing())
		g.mu.Lock()
		if g.state != stateHeld || !g.again && !errors.Is(err, zkclient.ErrAmbiguous) {
			g.looking = false
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
	}
}

// inspect reads the own node, arms its watch, and takes note of what it says.
func (g *Grant) inspect(ctx context.Context) error {
	if !g.held() {
		return ErrReleased
	}
	g.mu.Lock()
	blinks := g.blinks
	g.mu.Unlock()
	data, stat, err := g.s.Look(ctx, g.path, &g.watch)
	if !g.held() {
		g.s.Unwatch(g.path, &g.watch)
		return ErrReleased
	}
	switch {
	case errors.Is(err, zkclient.ErrNoNode):
		loss := g.whyGone(ctx)
		g.lose(loss)
		return loss
	case err != nil:
		return err
	}
	rec, err := decodeContender(data)
	if err != nil || !rec.Granted || !g.s.Owns(stat) {
		return g.overwritten(errOverwritten)
	}
	if g.grantedAgain(rec.token(stat)) {
		return g.overwritten(errGrantedAgain)
	}
	g.absorb(&rec, stat)
	g.mu.Lock()
	if g.blinks == blinks {
		g.blindTo = 0
	}
	g.mu.Unlock()
	return nil
}

// blink notes that the own node may change unnoticed until it is read again.
// Answers meanwhile keep the session, but say nothing of the hold: an evicted
// holder would believe in its hold for one more session.
func (g *Grant) blink() {
	end := g.s.Deadline()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.blinks++
	g.attended = nil
	if g.blindTo == 0 {
		g.blindTo = end
	}
}

// blind reports whether the own node should have been looked at by now.
func (g *Grant) blind(now zkclient.Instant) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.blindTo != 0 && now >= g.blindTo // planted-bug no-session-deadline: return false
}

var (
	errOverwritten  = errors.New("another program has overwritten the holder's node")
	errGrantedAgain = errors.New("another program has overwritten the lock's node: " +
		"others may have held the lock since, and then it was granted anew")
)

// grantedAgain reports whether the own node has another token than this grant, which no client of ours changes: the
// record had lost this holder, another one may have held, and a hand-over then took the node for a waiter's.
func (g *Grant) grantedAgain(token Token) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.token != 0 && token != g.token
}

// overwritten ends a grant whose node has other data by now. Whether it was
// granted at all is unknown, and so is who preempts it: so it ends.
func (g *Grant) overwritten(why error) error {
	if !g.held() {
		return g.lossOr(ErrReleased)
	}
	loss := &LostError{Scope: g.lock.scope, Reason: LossDeleted, Err: why}
	g.lose(loss)
	g.s.Discard(g.path)
	return loss
}

// whyGone tells a takeover and a break from an administrator's delete.
func (g *Grant) whyGone(ctx context.Context) *LostError {
	loss := &LostError{Scope: g.lock.scope, Reason: LossDeleted}
	data, _, err := g.s.Get(ctx, g.lock.path)
	for errors.Is(err, zkclient.ErrAmbiguous) {
		data, _, err = g.s.Get(ctx, g.lock.path)
	}
	if g.s.IsOver() {
		return &LostError{Scope: g.lock.scope, Reason: LossSession, Err: g.s.Err()}
	}
	if err != nil {
		return loss
	}
	record, err := decodeLock(data)
	if err != nil {
		return loss
	}
	for _, e := range record.Evicted {
		if e.ID == g.guid {
			loss = e.loss(g.lock.scope)
		}
	}
	return loss
}

// absorb takes note of the own node's data: the token, and who asks.
func (g *Grant) absorb(rec *contenderRecord, stat *zkclient.Stat) {
	now := g.s.Now()
	g.mu.Lock()
	g.at.learn(stat)
	if g.token == 0 {
		g.token = rec.token(stat)
	}
	if g.stamp.At == 0 {
		g.stamp.At = stat.Ctime
	}
	g.leaseTo = now.Add(rec.leaseLeft(stat, g.stamp.NotBehind(now)))
	var news []Notice
	standing := make(map[askKey]zkclient.Instant, len(rec.Preempt))
	for _, n := range rec.Preempt {
		key := askKey{n.ID, n.Reason, n.at(stat), n.Grace, n.Forceful}
		end, known := g.asked[key]
		if !known {
			// Counted on the server's clock, and never longer than the grace.
			grace := znode.Milliseconds(n.Grace)
			gone := time.Duration(g.stamp.NotBehind(now)-n.at(stat)) * time.Millisecond
			left := max(0, min(grace, grace-gone))
			end = now.Add(left)
			news = append(news, PreemptRequested{
				By: n.author(), Reason: n.Reason, Grace: grace, Deadline: time.Now().Add(left),
				Forceful: n.Forceful, Trace: n.Trace, Override: n.Override,
			})
		}
		standing[key] = end
	}
	if len(standing) == 0 && len(g.asked) > 0 {
		news = append(news, PreemptionWithdrawn{})
	}
	g.asked = standing
	attend := len(standing) > 0 && !g.attending && g.state == stateHeld && g.around != nil
	g.attending = g.attending || attend
	g.graceTo = 0
	for _, end := range standing {
		if g.graceTo == 0 || end < g.graceTo {
			g.graceTo = end
		}
	}
	g.mu.Unlock()
	if attend {
		g.lock.c.Background(g.attend)
	}
	for _, n := range news {
		g.notices.Send(n)
	}
}

// overdue reports whether the lock may be taken over without the holder's
// hearing of it, were it cut off: past the lease, or past the grace.
func (g *Grant) overdue(now zkclient.Instant) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.asked) > 0 { // the end of the lease does not shorten the grace
		return now >= g.graceTo
	}
	return now >= g.leaseTo
}

func (g *Grant) holding() string { return g.lock.scope }

// atRisk tells the holder that ZooKeeper has been silent for long.
func (g *Grant) atRisk(left time.Duration) {
	if g.held() {
		g.notices.Send(AtRisk{Deadline: time.Now().Add(left)})
	}
}

// safe tells the holder that ZooKeeper answers again.
func (g *Grant) safe() {
	if g.held() {
		g.notices.Send(RiskOver{})
	}
}

func (g *Grant) sessionLost(cause error) {
	g.lose(&LostError{Scope: g.lock.scope, Reason: LossSession, Err: cause})
}

// lose ends the grant against the holder's will.
func (g *Grant) lose(loss *LostError) {
	g.mu.Lock()
	if g.state != stateHeld {
		g.mu.Unlock()
		return
	}
	loss.Token = g.token
	g.state, g.loss = stateLost, loss
	g.unattendLocked()
	line := g.line
	if g.timer != nil {
		g.timer.Stop()
	}
	g.mu.Unlock()
	g.s.Unhold((*grantTenant)(g))
	lateWatchesOf(g.s).drop(g)
	g.s.Unwatch(g.path, &g.watch)
	if loss.Reason == LossSession {
		g.s.Discard(g.path) // the session may survive; the hold does not
	}
	g.lock.cache.hints.crowded(g.lock.path)
	line.quit(g)
	g.notices.Send(Lost{Err: loss})
}

// Extend starts the lease anew, with another length (T11). It returns a
// *PreemptPendingError while a request preempts the holder, the *LostError when
// the lock is lost, and ErrReleased after Release.
func (g *Grant) Extend(ctx context.Context, lease time.Duration) error {
	if lease < time.Millisecond {
		return &zkclient.RequestError{Field: "lease_timeout", Reason: fmt.Sprintf("%s must be positive; write how long the work needs from now on", lease)}
	}
	_, err := zkclient.Promptly(ctx, g.lock.c.Client, func() (struct{}, error) { return struct{}{}, g.extend(ctx, lease) }, nil)
	return err
}

func (g *Grant) extend(ctx context.Context, lease time.Duration) error {
	sent, err := g.amend(ctx, func(rec *contenderRecord) {
		rec.LeaseTimeout, rec.LeaseFrom = lease.Milliseconds(), 0 // from this write on
	})
	if err == nil {
		g.mu.Lock()
		g.leaseTo = sent.Add(lease)
		g.mu.Unlock()
	}
	return err
}

// Protect starts a minimum runtime, in place of the one that the request came
// with: for that long from now on the holder is not preempted for a request's
// priority, see Request.MinRuntime. One that is as long as the lease, or
// longer, lasts until the lease ends. 0: the holder may be asked at once.
//
// It is for work that begins some time after the grant. It returns what Extend
// returns.
func (g *Grant) Protect(ctx context.Context, least time.Duration) error {
	if least < 0 {
		return &zkclient.RequestError{Field: "min_runtime", Reason: fmt.Sprintf("%s is negative; write how long the work is not to be preempted from now on", least)}
	}
	_, err := zkclient.Promptly(ctx, g.lock.c.Client, func() (zkclient.Instant, error) {
		return g.amend(ctx, func(rec *contenderRecord) {
			rec.protect(least)
			rec.RunsFrom = runsFromLastWrite
		})
	}, nil)
	return err
}

// amend changes what the own node says of the hold, unless a request preempts
// the holder (T11). It returns when the write was sent.
func (g *Grant) amend(ctx context.Context, change func(*contenderRecord)) (sent zkclient.Instant, err error) {
	for {
		g.mu.Lock()
		state, loss := g.state, g.loss
		g.mu.Unlock()
		switch state {
		case stateLost:
			return 0, loss
		case stateReleased:
			return 0, ErrReleased
		case stateHeld:
		}
		data, stat, err := g.s.Look(ctx, g.path, &g.watch)
		if !g.held() { // released or lost meanwhile
			g.s.Unwatch(g.path, &g.watch)
			continue
		}
		switch {
		case errors.Is(err, zkclient.ErrAmbiguous):
			continue
		case errors.Is(err, zkclient.ErrNoNode):
			g.changed()
			if err := g.lossOr(nil); err != nil {
				return 0, err
			}
			continue
		case err != nil:
			return 0, g.lossOr(err)
		}
		rec, err := decodeContender(data)
		if err != nil {
			return 0, g.overwritten(errOverwritten)
		}
		g.absorb(&rec, stat)
		by, asked, err := g.whoAsks(ctx, &rec, stat)
		switch {
		case err != nil:
			return 0, g.lossOr(err)
		case asked:
			return 0, &PreemptPendingError{Scope: g.lock.scope, By: by}
		}
		rec.freeze(stat)
		change(&rec)
		sent := g.s.Now()
		stat, err = g.s.Set(ctx, g.path, rec.encode(), stat.Version)
		switch {
		case err == nil:
			g.mu.Lock()
			g.at.learn(stat)
			g.mu.Unlock()
			return sent, nil
		case errors.Is(err, zkclient.ErrBadVersion), errors.Is(err, zkclient.ErrNoNode), errors.Is(err, zkclient.ErrAmbiguous):
		default:
			return 0, g.lossOr(err)
		}
	}
}

func (g *Grant) lossOr(err error) error {
	if errors.Is(err, zkclient.ErrSessionOver) { // the holders are about to be told
		g.lose(&LostError{Scope: g.lock.scope, Reason: LossSession, Err: g.s.Err()})
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.loss != nil {
		return g.loss
	}
	return err
}

// whoAsks returns a live request that preempts the holder.
func (g *Grant) whoAsks(ctx context.Context, rec *contenderRecord, stat *zkclient.Stat) (PreemptRequested, bool, error) {
	if len(rec.Preempt) == 0 {
		return PreemptRequested{}, false, nil
	}
	there, err := contendersAt(ctx, g.s, g.lock.path)
	if err != nil {
		return PreemptRequested{}, false, err
	}
	children := there.children
	for _, n := range rec.Preempt {
		for _, c := range children {
			if c.guid == n.ID {
				return n.asks(stat, g.lock.c.Now()), true, nil
			}
		}
	}
	return PreemptRequested{}, false, nil
}
