package nightly

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

const (
	// pulseEvery is how often ZooKeeper is asked for a sign of life.
	pulseEvery = time.Second

	// silence is how long an answer may take before that is worth a line.
	silence = 2 * time.Second
)

// feelPulse puts it on the timeline when ZooKeeper falls silent and when it
// answers again, until ctx ends.
func (d *daemon) feelPulse(ctx context.Context, line *timeline) {
	scope := d.jobs[0].Requirements[0].Scope
	var since time.Time // of the silence
	for pause(ctx, pulseEvery) == nil {
		asked := time.Now()
		waiting, cancel := context.WithTimeout(ctx, silence)
		_, err := d.client.Lock(waiting, scope)
		cancel()
		if ctx.Err() != nil {
			return
		}
		down := errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*lock.UnavailableError))
		s := step{At: time.Now(), Daemon: " "}
		switch {
		case down && since.IsZero():
			since = asked
			s.Kind, s.Text = outage, "ZooKeeper does not answer"
		case err == nil && !since.IsZero():
			s.Kind, s.Text = answers, "ZooKeeper is back, after "+seconds(time.Since(since))
			since = time.Time{}
		default:
			continue
		}
		line.add(s)
	}
}
