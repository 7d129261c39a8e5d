package lock

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

var (
	errOverwritten  = errors.New("another program has overwritten the holder's node")
	errGrantedAgain = errors.New("another program has overwritten the lock's node: " +
		"others may have held the lock since, and then it was granted anew")
)

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
