package scheduler

import (
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
)

// civil evaluates a cron spec on the clock on the wall of a time zone.
//
// The offset of a zone is constant between two changes. Inside such a stretch
// wall time and elapsed time differ by a constant, so the spec is evaluated on
// wall time as if it were UTC, where each day has 24 hours. Only the first
// hours of a stretch, after a change, need a policy.
type civil struct {
	eval    cronSpec
	loc     *time.Location
	elapsed bool // the spec has a * in the hour or minute field
	dst     jobs.DST
	text    string
}

func (s civil) String() string { return s.text }

// maxStretches bounds the search: 29 February is at most 8 years away, and no
// zone changes its offset more than a few times a year.
const maxStretches = 200

func (s civil) Next(after time.Time) time.Time {
	from := after.Unix() + 1
	for range maxStretches {
		stretch := stretchAt(from, s.loc)
		due, ok := s.firstIn(stretch, from)
		if ok {
			return time.Unix(due, 0).In(s.loc)
		}
		if stretch.forever {
			break
		}
		// What is due later on this clock is due about then on those of the
		// stretches to come: they differ by no more than the date line. But the
		// next one may show again what this one has shown just before.
		searched := stretch.end - max(from, stretch.start+stretch.repeated)
		from = stretch.end
		if searched > 2*day {
			from = max(from, due-2*day)
		}
	}
	return time.Time{}
}

// firstIn returns the first due instant of the stretch that is not before
// from. If there is none, it is what would be if the stretch went on.
func (s civil) firstIn(st stretch, from int64) (int64, bool) {
	regular := from
	if st.repeated > 0 && s.leavesOutRepeated() {
		// Clocks went back: until here, the wall repeats what was due before.
		regular = max(from, st.start+st.repeated)
	}
	due, ok := s.match(regular, st.offset)
	ok = ok && st.has(due)

	// Clocks went forward: what was due in the gap is due now, on the wall
	// clock as it was before.
	if end := st.start + st.skipped; st.skipped > 0 && s.makesUpForGap() && from < end {
		late, found := s.match(from, st.before)
		if found && late < end && st.has(late) && (!ok || late < due) {
			return late, true
		}
	}
	return due, ok
}

func (s civil) makesUpForGap() bool     { return !s.elapsed && s.dst.Gap != jobs.GapSkip }
func (s civil) leavesOutRepeated() bool { return !s.elapsed && s.dst.Overlap != jobs.FoldBoth }

// match returns the first instant from the given one on at which a wall clock
// with this offset shows a time of the spec.
func (s civil) match(from, offset int64) (int64, bool) {
	wall, ok := s.eval.next(from + offset)
	return wall - offset, ok
}

const day = 24 * 60 * 60

// A stretch is a time between two changes of a zone's offset. All in Unix
// seconds.
type stretch struct {
	start, end int64
	forever    bool  // there is no end
	offset     int64 // east of UTC
	before     int64 // offset before the start
	skipped    int64 // length of the gap at the start
	repeated   int64 // length of the overlap at the start
}

func (st stretch) has(unix int64) bool { return st.forever || unix < st.end }

func stretchAt(unix int64, loc *time.Location) stretch {
	t := time.Unix(unix, 0).In(loc)
	_, offset := t.Zone()
	st := stretch{offset: int64(offset), before: int64(offset)}
	start, end := t.ZoneBounds()
	st.forever = end.IsZero()
	if !st.forever {
		st.end = end.Unix()
		// Where the zone goes on by rule, Go breaks at the turn of the year
		// too, and in leap years a day early: before the instant asked for.
		if st.end <= unix {
			st.end = unix - unix%day + day
		}
	}
	if !start.IsZero() {
		st.start = start.Unix()
		_, before := start.Add(-time.Second).Zone()
		st.before = int64(before)
		st.skipped = max(0, st.offset-st.before)
		st.repeated = max(0, st.before-st.offset)
	}
	return st
}
