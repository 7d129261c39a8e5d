package priority

import "time"

// A Bar is what keeps a request from preempting a holder for its level. No bar
// keeps it from preempting one whose lease has run out.
type Bar string

const (
	// NoBar: the request may preempt.
	NoBar Bar = ""

	// BarLevel: the request does not outrank the holder.
	BarLevel Bar = "level"

	// BarNever: the request does not preempt for its level (Request.NeverPreempts).
	BarNever Bar = "never_preempts"

	// BarDelta: the request outranks the holder by less than its PreemptDelta.
	BarDelta Bar = "preempt_delta"

	// BarMinRuntime: the holder has not held long enough yet. The only bar that
	// time lifts.
	BarMinRuntime Bar = "min_runtime"
)

// BarOf returns what keeps r from preempting h for its level, or NoBar. Of
// several bars it is the first in the order of the constants.
//
// A request at the Emergency level knows BarLevel alone: an operator's word goes
// before what jobs have agreed on, and before what the request itself has
// declared, for it is an operator who has raised it there.
func BarOf(r Request, h Holder) Bar {
	switch {
	case !r.Level.Outranks(h.Level):
		return BarLevel
	case r.Level == Emergency:
		return NoBar
	case r.NeverPreempts:
		return BarNever
	case int64(r.Level)-int64(h.Level) < int64(r.PreemptDelta):
		return BarDelta
	case h.MinRuntimeLeft > 0:
		return BarMinRuntime
	}
	return NoBar
}

// askableIn returns how long it takes until r may preempt c, for any
// reason, or has preempted it: at most until the end of its lease.
func (c conflict) askableIn(r Request) time.Duration {
	if c.LeaseLeft <= 0 || c.asked(LeaseExpired) || c.asked(Outranked) {
		return 0
	}
	switch BarOf(r, c.Holder) {
	case NoBar:
		return 0
	case BarMinRuntime:
		return min(c.MinRuntimeLeft, c.LeaseLeft)
	case BarLevel, BarNever, BarDelta:
	}
	return c.LeaseLeft // these do not pass
}

// allAskableIn returns how long it takes until every holder in the way may be
// preempted, or has been: before that none is asked for its level.
func allAskableIn(r Request, all []conflict) time.Duration {
	var last time.Duration
	for _, c := range all {
		last = max(last, c.askableIn(r))
	}
	return last
}
