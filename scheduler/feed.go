package scheduler

import "time"

// A feed turns a schedule into a stream of its instants: each one once, in
// order, when the clock has passed it. What became due while the clock was not
// looked at, or jumped, is emitted all the same. A clock that goes back repeats
// nothing.
type feed struct {
	schedule Schedule
	skew     func() time.Duration // of the schedule's clock against the machine's
	emit     func(instants []time.Time)
	dropped  func(after, before time.Time) // instants in between are not emitted

	last time.Time // on the schedule's clock: emitted up to here
}

// maxBacklog bounds how many instants that are due at once are emitted, apart
// from the newest ones.
const maxBacklog = 1000

// next emits what is due and returns when to look again, on the machine's
// clock.
func (f *feed) next(machine time.Time) time.Time {
	skew := f.skew()
	now := machine.Add(skew)
	if f.last.IsZero() {
		f.last = now // what was due before is not ours
	}
	due, more := f.between(f.last, now)
	if more {
		newest := f.newest(now)
		f.dropped(due[len(due)-1], newest[0])
		due = append(due, newest...)
	}
	if len(due) > 0 {
		f.last = due[len(due)-1]
		f.emit(due)
	}
	at := f.schedule.Next(now)
	if at.IsZero() {
		return at
	}
	return at.Add(-skew)
}

func (f *feed) between(after, until time.Time) (due []time.Time, more bool) {
	for at := f.schedule.Next(after); !at.IsZero() && !at.After(until); at = f.schedule.Next(at) {
		if len(due) == maxBacklog {
			return due, true
		}
		due = append(due, at)
	}
	return due, false
}

// newest returns the last instants up to now; there are some.
func (f *feed) newest(now time.Time) []time.Time {
	for back := time.Minute; ; back *= 2 {
		if due, _ := f.between(now.Add(-back), now); len(due) > 0 {
			return due
		}
	}
}
