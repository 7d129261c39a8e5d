package scheduler

import (
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// The ledger keeps ticks that wait for the end of a run, so that they outlive
// the daemon that saw them come due. The first daemon that sees room runs the
// oldest.

// expectWaiting makes the lane look for ticks that wait.
func (l *lane) expectWaiting() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buffer = true
}

// pausedPause is how soon the lane polls for ticks that wait for the end of
// a pause of the job.
const pausedPause = 10 * time.Second

// takeWaiting runs the oldest tick that waits if there is room for it. It
// returns when the caller has to call again because there may be more; 0: not at
// all.
func (l *lane) takeWaiting() (again time.Duration) {
	l.mu.Lock()
	expected, def := l.buffer && !l.gone, l.def
	l.buffer = l.buffer && !expected // a tick that is put there from here on says so again
	l.mu.Unlock()
	if !expected || l.s.isDraining() {
		return 0
	}
	if o, changed := l.paused(def, l.s.now()); o != nil {
		l.expectWaiting()
		l.pokeOn(changed)
		return pausedPause
	}
	ctx, cancel := l.s.until(l.s.now().Add(drainClaim))
	defer cancel()
	for {
		claim, err := l.s.cfg.Ledger.ClaimWaiting(ctx, def.Name, mostRuns(def))
		if err != nil {
			l.expectWaiting()
			return retryPause
		}
		if claim.Verdict == ticks.Claimed {
			l.current = l.start(claim, true)
			if claim.Waiting > 0 {
				continue
			}
		}
		switch claim.Verdict {
		case ticks.Overlap:
			l.expectWaiting()
			return retryPause
		case ticks.Paused:
			l.expectWaiting()
			return pausedPause
		case ticks.Taken, ticks.Claimed, ticks.Buffered, ticks.LeftOut:
		}
		return 0
	}
}

// makeWay cancels the runs here that a tick is to replace. Those elsewhere hear
// of it through the ledger.
func (l *lane) makeWay(tick time.Time) {
	def := l.definition()
	if def.Overlap.Policy != jobs.OverlapCancelOther {
		return
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	for r := range l.s.runs {
		if r.lane == l && r.tick.ID != "" {
			r.cancel(&SupersededError{Job: def.Name, By: tick.UTC()})
		}
	}
}
