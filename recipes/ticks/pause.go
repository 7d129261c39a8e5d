package ticks

import (
	"context"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

// Pause says that no tick of a job runs: each is recorded as skipped
// ("paused"). Manual runs are not refused.
type Pause struct {
	By     string
	Reason string
	At     time.Time // server's clock; filled in when it is read
	Until  time.Time // ticks from here on run again; zero: until Resume
}

// Pause pauses job, or changes the reason, the author and the end of its pause.
// It returns the pause that was in force, nil if none was. A run that goes on
// is left alone.
func (l *Ledger) Pause(ctx context.Context, job string, p Pause) (was *Pause, err error) {
	id := znode.NewGUID()
	_, err = l.update(ctx, job, func(v *tickView) (w tickWrite) {
		if old := v.record.Paused; old == nil || old.ID != id {
			was = old.public()
			v.record.Paused = &pauseNote{
				ID: id, By: words.Clip(p.By, maxReason), Reason: words.Clip(p.Reason, maxReason), Until: p.Until.UTC().Round(0),
			}
			w.set = true
		}
		return w
	})
	if err != nil {
		return nil, fmt.Errorf("job %q not paused: %w", job, l.explain(ctx, err))
	}
	return was, nil
}

// Resume ends a pause, and forgets the failures that may have led to it. It
// returns the pause, nil if the job was not paused. Ticks that were due
// meanwhile have been skipped.
func (l *Ledger) Resume(ctx context.Context, job string) (was *Pause, err error) {
	_, err = l.update(ctx, job, func(v *tickView) (w tickWrite) {
		rec := &v.record
		if rec.Paused != nil {
			was = rec.Paused.public()
		}
		w.set = rec.Paused != nil || rec.Failures != 0
		rec.Paused, rec.Failures = nil, 0
		return w
	})
	if err != nil {
		return nil, fmt.Errorf("job %q not resumed: %w", job, l.explain(ctx, err))
	}
	return was, nil
}

// pauseAfterFailures pauses a job whose runs fail, unless it is paused already.
func (r *tickRecord) pauseAfterFailures(run string, end End) {
	if r.pausedAt(time.Now()) != nil {
		return
	}
	reason := fmt.Sprintf("%d runs in a row have failed, the last one with: %s", r.Failures, end.Reason)
	r.Paused = &pauseNote{
		ID: run, By: "lockkeeper", Reason: words.Clip(reason, maxReason), For: end.PauseFor.Milliseconds(),
	}
}

// pausedAt returns the pause that is in force at an instant, or nil.
func (r *tickRecord) pausedAt(instant time.Time) *pauseNote {
	if p := r.Paused; p != nil {
		if until := p.until(); until.IsZero() || instant.Before(until) {
			return p
		}
	}
	return nil
}

// until returns when the pause ends, zero for one without end. That of one that
// has just been made, and counts from the write, is not known yet.
func (n *pauseNote) until() time.Time {
	if n.For > 0 && n.At > 0 {
		return znode.RecordTime(n.At).Add(znode.Milliseconds(n.For)).UTC()
	}
	return n.Until
}
