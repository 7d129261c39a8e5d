package recipes

import (
	"errors"
	"fmt"
	"time"
)

// Check looks, without asking ZooKeeper, whether the lock is certainly held
// right now, with the time counted that the machine was suspended: nil, the
// *LostError, or ErrReleased after Release. What it finds lost is lost from then
// on, and told: a process that was stopped for long may come here before its
// timers have noticed.
func (g *Grant) Check() error {
	now := g.s.clock.awake()
	g.s.mu.Lock()
	end := g.s.deadlineLocked()
	silent := now.sub(g.s.lastAck)
	exposed := g.s.down || g.s.atRiskLocked(now)
	g.s.mu.Unlock()
	switch {
	case now >= end:
		g.lose(&LostError{Scope: g.lock.scope, Reason: LossSession, Err: fmt.Errorf("no answer for %s", silent.Round(time.Millisecond))})
	case g.blind(now):
		g.lose(&LostError{Scope: g.lock.scope, Reason: LossSession, Err: errBlind})
	case exposed && g.overdue(now):
		g.lose(&LostError{Scope: g.lock.scope, Reason: LossSession, Err: errors.New("cut off after the end of the lease or grace")})
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	switch g.state {
	case stateLost:
		return g.loss
	case stateReleased:
		return ErrReleased
	case stateHeld:
	}
	return nil
}
