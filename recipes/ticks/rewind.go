package ticks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A Stretch is a stretch of instants: those after After, up to Until.
type Stretch struct{ After, Until time.Time }

// tickGap is a Stretch in a record.
type tickGap struct {
	After time.Time `json:"after"`
	Until time.Time `json:"until"`
}

// tickFormatLeftOut is the format of a record with stretches to leave out: a program
// that does not know them would drop them, and run their ticks again.
const tickFormatLeftOut = 2

// Rewind says how Rewind does it.
type Rewind struct {
	// Since is when the clock that was ahead has gone wrong. It counts where the
	// history does not reach back to then: of the ticks that it has forgotten only
	// those are left out that can have run early since. Defaults to not known: all
	// of them are.
	Since time.Time

	// DryRun changes nothing.
	DryRun bool
}

// Rewound is what Rewind has done, or would do.
type Rewound struct {
	Job string

	// From is the last instant that was decided before, To the one from now on:
	// ZooKeeper's time. Both are zero if the job was not ahead: nothing was done. They
	// are the same if it has been set back before, and Since leaves out fewer ticks.
	From, To time.Time

	// LeftOut are the stretches whose ticks are skipped when they come, for
	// ReasonEarly: they have run early, or may have. In ascending order.
	LeftOut []Stretch

	// Forgotten: the history does not reach back to when the clock went wrong, so
	// that some of them may not have run.
	Forgotten bool
}

// rewindMargin is how late a tick may have been run by the clock that was ahead.
const rewindMargin = time.Minute

// Rewind sets the last instant of job that was decided back to ZooKeeper's time, if
// it is later: a daemon whose clock was ahead has decided ticks that were still to
// come. They come due again, but for those that have run, or may have.
//
// Programs that do not know what to leave out refuse the record of the job until the
// last of these has passed.
func (l *Ledger) Rewind(ctx context.Context, job string, how Rewind) (done Rewound, err error) {
	if err := l.AwaitServerTime(ctx); err != nil {
		return done, fmt.Errorf("job %q not set back: %w", job, err)
	}
	now, _ := l.store.ServerTime()
	if how.Since.After(now.Latest) {
		return done, &zkclient.RequestError{
			Field:  "since",
			Reason: fmt.Sprintf("%s is still to come; write when the clock went wrong", how.Since.UTC().Format(time.RFC3339)),
		}
	}
	sent := false
	_, err = l.update(ctx, job, func(v *tickView) (w tickWrite) {
		if l.ahead(v.record.decided()) == 0 {
			switch {
			case v.record.narrow(how.Since):
				at := v.record.decided()
				done = Rewound{Job: job, From: at, To: at, LeftOut: v.record.publicLeftOut(), Forgotten: true}
				w.set = !how.DryRun
				sent = sent || w.set
			case !sent: // else the reply was lost
				done = Rewound{Job: job}
			}
			return w
		}
		now, _ := l.store.ServerTime()
		done = v.record.rewind(now.Earliest.Truncate(time.Millisecond).UTC(), how.Since)
		w.set = !how.DryRun
		sent = sent || w.set
		return w
	})
	if err != nil {
		return Rewound{}, fmt.Errorf("job %q not set back: %w", job, l.explain(ctx, err))
	}
	done.Job = job // whatever the record says
	return done, nil
}

// rewind sets the mark back to an instant.
func (r *tickRecord) rewind(to, since time.Time) Rewound {
	done := Rewound{Job: r.Job, From: znode.Writable(r.decided()), To: to}
	if until := r.forgottenUntil(); until.After(to) {
		done.Forgotten = true
		after := to
		if ahead, ok := r.leastAhead(); ok && !since.IsZero() {
			after = later(to, since.Add(ahead-rewindMargin))
		}
		if until.After(after) {
			r.LeftOut = append(r.LeftOut, tickGap{after.UTC(), znode.Writable(until)})
		}
	}
	r.leaveOutClaims(to)
	r.Waiting = slices.DeleteFunc(r.Waiting, func(t time.Time) bool { return t.After(to) }) // they come due again
	r.Last = to
	if r.Begins.After(to) {
		r.Begins = to
	}
	r.tidyLeftOut()
	done.LeftOut = r.publicLeftOut()
	return done
}

// leaveOutClaims leaves out the ticks after an instant that are known to have run.
func (r *tickRecord) leaveOutClaims(after time.Time) {
	for n := range r.claims() {
		if n.Instant.After(after) {
			r.LeftOut = append(r.LeftOut, tickGap{znode.Writable(n.Instant.Add(-1)), znode.Writable(n.Instant)})
		}
	}
}

// narrow lets ticks run again that are left out, and cannot have run early if the clock
// went wrong at since. It reports whether there are any.
func (r *tickRecord) narrow(since time.Time) bool {
	ahead, ok := r.leastAhead()
	if since.IsZero() || !ok {
		return false
	}
	was, first := r.LeftOut, since.Add(ahead-rewindMargin).UTC()
	r.LeftOut = nil
	for _, g := range was {
		if g.After = later(g.After, first); g.Until.After(g.After) {
			r.LeftOut = append(r.LeftOut, g)
		}
	}
	r.leaveOutClaims(r.Last)
	r.tidyLeftOut()
	return !slices.EqualFunc(was, r.LeftOut, func(a, b tickGap) bool {
		return a.After.Equal(b.After) && a.Until.Equal(b.Until)
	})
}

// claims are the runs of the schedule that are known, with those that have ended.
func (r *tickRecord) claims() func(yield func(*runNote) bool) {
	return func(yield func(*runNote) bool) {
		for i := range r.history {
			if e := r.history[i].read(); e.Outcome != Skipped && !e.Manual && !e.Instant.IsZero() && !yield(&e.runNote) {
				return
			}
		}
		for i := range r.Runs {
			if n := &r.Runs[i]; !n.Manual && !yield(n) {
				return
			}
		}
	}
}

// forgottenUntil returns an instant before which those lie that the history has
// forgotten; zero: it has forgotten none. Instants are decided in ascending order,
// and what is forgotten had ended when the oldest entry that is left ended.
func (r *tickRecord) forgottenUntil() time.Time {
	known := int64(0)
	for i := range r.history {
		known += max(1, r.history[i].read().Count)
	}
	if r.Counts.Total() <= known || len(r.history) == 0 {
		return time.Time{}
	}
	ended := r.history[0].read().EndedAt
	bound := r.decided()
	for n := range r.claims() {
		if n.ClaimedAt > ended {
			bound = earlier(bound, n.Instant)
		}
	}
	for i := range r.history {
		if e := r.history[i].read(); e.Outcome == Skipped && !e.Manual && e.ClaimedAt == 0 && !e.Instant.IsZero() {
			bound = earlier(bound, e.Instant)
		}
	}
	return bound
}

// leastAhead is how early the ticks were run that are known to have been, at least.
func (r *tickRecord) leastAhead() (least time.Duration, ok bool) {
	for n := range r.claims() {
		by := n.Instant.Sub(znode.RecordTime(n.ClaimedAt))
		if by > Tolerance && (!ok || by < least) {
			least, ok = by, true
		}
	}
	return least, ok
}

// leavesOut reports whether a tick must not run because it has, or may have.
func (r *tickRecord) leavesOut(instant time.Time) bool {
	return slices.ContainsFunc(r.LeftOut, func(g tickGap) bool {
		return instant.After(g.After) && !instant.After(g.Until)
	})
}

// tidyLeftOut joins stretches, drops those that have passed, and sets the format.
func (r *tickRecord) tidyLeftOut() {
	slices.SortFunc(r.LeftOut, func(a, b tickGap) int { return a.After.Compare(b.After) })
	var tidy []tickGap
	for _, g := range r.LeftOut {
		switch last := len(tidy) - 1; {
		case !g.Until.After(r.Last):
		case last >= 0 && !g.After.After(tidy[last].Until):
			tidy[last].Until = later(tidy[last].Until, g.Until)
		default:
			tidy = append(tidy, g)
		}
	}
	r.LeftOut, r.Format = tidy, znode.RecordFormat
	if len(tidy) > 0 {
		r.Format = tickFormatLeftOut
	}
}

func (r *tickRecord) publicLeftOut() (all []Stretch) {
	for _, g := range r.LeftOut {
		all = append(all, Stretch{After: znode.Writable(g.After), Until: znode.Writable(g.Until)})
	}
	return all
}
