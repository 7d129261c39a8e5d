package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// joinSoon tries to join without a tick that waits for it, for a job that is
// not due for long may have missed its last tick.
func (l *lane) joinSoon() {
	if l.joined {
		return
	}
	ctx, cancel := l.s.until(l.s.now().Add(drainClaim))
	defer cancel()
	_ = l.join(ctx, l.definition()) // else later
}

// join puts the ticks into the queue that were due before this daemon looked,
// and that are undecided, back to the last one that the ledger knows: by
// claiming a later one we would take them from a daemon whose clock is behind,
// and a tick is not lost because it was due while no daemon ran. Those that are
// too old to be made up for are recorded as missed.
func (l *lane) join(ctx context.Context, def *definition) error {
	for !l.joined {
		state, err := l.s.cfg.Ledger.State(ctx, def.Name)
		if err != nil {
			return err
		}
		if len(state.Waiting) > 0 {
			l.expectWaiting()
		}
		decided := state.DecidedUntil()
		if decided.IsZero() {
			// It begins with the first tick. Until then people can find it.
			if _, err := l.s.cfg.Ledger.RecordSkip(ctx, def.Name, string(SkipMissed)); err != nil {
				return err
			}
			l.joined = true
			return nil
		}
		l.begun = true
		until := l.feed.from
		from := l.oldestWorth(def)
		if from.After(until) {
			from = until // later ones come through the feed
		}
		if from.Before(decided) {
			from = decided
		}
		due, more := newest(def.schedule, from, until, maxBacklog)
		if more {
			from = due[0].Add(-1)
		}
		if decided.Before(from) {
			done, err := l.recordMissed(ctx, def, decided, from)
			if err != nil {
				return err
			}
			if !done {
				continue // another daemon has got further
			}
		}
		l.putBack(due...)
		l.joined = true
	}
	return nil
}

// oldestWorth returns the instant before which ticks are not made up for.
func (l *lane) oldestWorth(def *definition) time.Time {
	worth := l.s.cfg.Lateness
	if def.Misfire.Policy != jobs.MisfireSkip {
		worth = max(worth, def.Misfire.Window)
	}
	return l.s.now().Add(-worth - def.Jitter)
}

// recordMissed records the ticks after one instant and up to another one. It
// reports false if others have decided some of them meanwhile.
func (l *lane) recordMissed(ctx context.Context, def *definition, after, until time.Time) (done bool, err error) {
	span, ok := spanOf(def.schedule, after, until)
	if !ok {
		return true, nil
	}
	recorded, _, err := l.s.cfg.Ledger.RecordMissed(ctx, def.Name, string(SkipMissed), span)
	if err != nil || !recorded {
		return false, err
	}
	l.count(func(s *JobStats) { s.Skipped[SkipMissed] += uint64(span.Count) })
	l.s.log.Warn("ticks were missed: no daemon ran when they were due, and they are too old to be made up for",
		"job", def.Name, "first", span.First.UTC(), "last", span.Last.UTC(), "ticks", span.Count)
	return true, nil
}

// maxCounted bounds how many ticks of a long absence are counted one by one.
const maxCounted = 100_000

// spanOf counts the ticks after one instant and up to another one. Beyond
// maxCounted the count is what the distance of those makes likely.
func spanOf(schedule Schedule, after, until time.Time) (span ticks.Span, ok bool) {
	for tick := schedule.Next(after); !tick.IsZero() && !tick.After(until); tick = schedule.Next(tick) {
		if span.Count == 0 {
			span.First = tick
		}
		span.Last = tick
		span.Count++
		if span.Count == maxCounted {
			last, _ := lastUntil(schedule, until)
			if rest := last.Sub(tick); rest > 0 {
				span.Count += int64(float64(rest) / float64(tick.Sub(span.First)) * maxCounted)
				span.Last = last
			}
			break
		}
	}
	return span, span.Count > 0
}

// lastUntil returns the last tick that is not after an instant, looking back up
// to eight years.
func lastUntil(schedule Schedule, until time.Time) (last time.Time, ok bool) {
	for back := time.Minute; back < 8*366*24*time.Hour; back *= 4 {
		tick := schedule.Next(until.Add(-back))
		if tick.IsZero() || tick.After(until) {
			continue
		}
		for next := tick; !next.IsZero() && !next.After(until); next = schedule.Next(next) {
			last = next
		}
		return last, true
	}
	return last, false
}

// begin makes sure that the ledger knows where the ticks of the job begin. It
// reports false if older ticks than this one came to light: then the queue has
// them, and this one behind them.
func (l *lane) begin(ctx context.Context, def *definition, tick time.Time) (first bool, err error) {
	if !l.joined {
		if err := l.join(ctx, def); err != nil {
			return false, err
		}
		if older := l.undecidedFrom(); older.Before(tick) {
			l.requeue(tick)
			return false, nil
		}
	}
	if l.begun {
		return true, nil
	}
	start := tick
	if len(l.pending) > 0 {
		start = l.pending[0].instant
	}
	after, err := l.beginAt(ctx, def, start)
	if err != nil {
		return false, err
	}
	l.begun = true
	from := start.Add(-l.s.cfg.Lateness)
	if after.Before(from) { // a daemon whose clock is behind has begun it: what lies between is made up for, or recorded
		l.joined = false
		l.requeue(tick)
		return false, nil
	}
	from = after
	var older []time.Time
	for t := def.schedule.Next(from); !t.IsZero() && t.Before(start); t = def.schedule.Next(t) {
		older = append(older, t)
	}
	if len(older) == 0 {
		return true, nil
	}
	l.requeue(append(older, tick)...)
	return false, nil
}

// beginPending makes sure that the ledger knows where the ticks of the job
// begin, before it records a skip that may be the first of them.
func (l *lane) beginPending(ctx context.Context) bool {
	if !l.begun {
		_, err := l.beginAt(ctx, l.definition(), l.pending[0].first)
		l.begun = err == nil
	}
	return l.begun
}

// requeue puts ticks into the queue, by instant.
func (l *lane) requeue(ticks ...time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, ticks...)
	slices.SortFunc(l.queue, time.Time.Compare)
}

// beginAt asks the ledger until it answers or ctx ends.
func (l *lane) beginAt(ctx context.Context, def *definition, first time.Time) (after time.Time, err error) {
	for pause := newPace(); ; {
		after, err = l.s.cfg.Ledger.Begin(ctx, def.Name, first)
		if err == nil || early(err) != nil || !pause.wait(ctx) {
			return after, err
		}
	}
}

// isMissed reports whether a tick is too old to be run, given how many newer
// ones are due as well.
func (l *lane) isMissed(def *definition, tick time.Time, newer int) bool {
	age := l.s.now().Sub(def.due(tick))
	if age <= l.s.cfg.Lateness {
		return false
	}
	if age > def.Misfire.Window {
		return true
	}
	switch def.Misfire.Policy {
	case jobs.MisfireAll:
		return newer >= def.Misfire.Max
	case jobs.MisfireOnce:
		return newer > 0
	case jobs.MisfireSkip:
	}
	return true
}
