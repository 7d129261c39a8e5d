package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// A skip that is not yet in the ledger: of one tick, or of several in a
// row.
type skip struct {
	first   time.Time // of several
	instant time.Time // the last one
	count   int64
	reason  SkipReason
	detail  error
	told    bool // counted and logged
}

func (p skip) span() ticks.Span {
	return ticks.Span{First: p.first, Last: p.instant, Count: p.count}
}

// maxPending bounds how many of them are kept for the ledger. In a long outage
// the oldest are kept as one.
const maxPending = 1000

// skipGaps makes skips of the gaps before a tick.
func (l *lane) skipGaps(def *definition, tick time.Time) {
	l.mu.Lock()
	n := 0
	for n < len(l.gaps) && l.gaps[n].after.Before(tick) {
		n++
	}
	gaps := l.gaps[:n]
	l.gaps = l.gaps[n:]
	l.mu.Unlock()
	for _, g := range gaps {
		span, ok := spanOf(def.schedule, g.after, g.before.Add(-1))
		if !ok {
			continue
		}
		l.s.log.Error("the clock went too far forward, or stood still for long: ticks in between are skipped",
			"job", def.Name, "first", span.First.UTC(), "last", span.Last.UTC(), "ticks", span.Count)
		l.count(func(s *JobStats) { s.Skipped[SkipMissed] += uint64(span.Count) })
		l.postpone(skip{first: span.First, instant: span.Last, count: span.Count, reason: SkipMissed, told: true})
	}
}

func (l *lane) postpone(p skip) {
	if p.count == 0 {
		p.first, p.count = p.instant, 1
	}
	if len(l.pending) == maxPending {
		l.merge()
	}
	at, _ := slices.BinarySearchFunc(l.pending, p.instant, func(p skip, t time.Time) int { return p.instant.Compare(t) })
	l.pending = slices.Insert(l.pending, at, p)
}

// merge makes one of the two oldest skips.
func (l *lane) merge() {
	for _, p := range l.pending[:2] {
		if !p.told {
			l.tellSkip(context.Background(), "", p.instant, p.reason, p.detail)
		}
	}
	a, b := l.pending[0], l.pending[1]
	b.first, b.count, b.told = a.first, a.count+b.count, true
	if a.reason != b.reason {
		b.reason = SkipUndecided // that holds for both
	}
	l.pending = l.pending[1:]
	l.pending[0] = b
}

// flush tells the ledger of skipped ticks before an instant, in order, until it
// has answered or ctx ends.
func (l *lane) flush(ctx context.Context, before time.Time) error {
	for pause := newPace(); len(l.pending) > 0 && l.pending[0].instant.Before(before); {
		if head := l.pending[0]; head.count > 1 {
			if err := l.flushSpan(ctx, head); err != nil && (early(err) != nil || !pause.wait(ctx)) {
				return err
			}
			continue
		}
		reason := l.pending[0].reason
		n := slices.IndexFunc(l.pending, func(p skip) bool {
			return p.reason != reason || p.count > 1 || !p.instant.Before(before)
		})
		if n < 0 {
			n = len(l.pending)
		}
		instants := make([]time.Time, n)
		for i, p := range l.pending[:n] {
			instants[i] = p.instant
		}
		recorded, err := l.s.cfg.Ledger.RecordSkip(ctx, l.definition().Name, string(reason), instants...)
		if err != nil {
			if early(err) != nil || !pause.wait(ctx) {
				return err
			}
			continue
		}
		// The older ones were taken by others, if any were.
		for i, p := range l.pending[:n] {
			switch {
			case p.told:
			case i < n-recorded:
				l.taken(p.instant)
			default:
				l.tellSkip(context.Background(), "", p.instant, p.reason, p.detail)
			}
		}
		l.pending = l.pending[n:]
	}
	return nil
}

// flushSpan tells the ledger of several ticks, which come first in line. If
// others have decided some of them, it leaves the rest there.
func (l *lane) flushSpan(ctx context.Context, p skip) error {
	def := l.definition()
	recorded, decided, err := l.s.cfg.Ledger.RecordMissed(ctx, def.Name, string(p.reason), p.span())
	switch {
	case err != nil:
		return err
	case !recorded:
		if rest, ok := spanOf(def.schedule, decided, p.instant); ok {
			p.first, p.instant, p.count = rest.First, rest.Last, rest.Count
			l.pending[0] = p
			return nil
		}
	}
	l.pending = l.pending[1:]
	return nil
}
