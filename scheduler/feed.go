package scheduler

import (
	"slices"
	"sync"
	"time"
)

// A feed turns a schedule into a stream of its instants: each one once, in
// order, when the clock has passed it and its jitter. What became due while the
// clock was not looked at, or jumped, is emitted all the same. A clock that goes
// back repeats nothing.
type feed struct {
	job      string
	schedule Schedule
	jitter   time.Duration        // instants are emitted up to that much later
	skew     func() time.Duration // of the schedule's clock against the machine's; nil: none
	emit     func(instants []time.Time)
	dropped  func(after, before time.Time) // instants in between are not emitted

	from time.Time // on the schedule's clock: later instants are emitted
	last time.Time // likewise: taken from the schedule up to here
	held []held    // taken, to be emitted later

	mu   sync.Mutex
	swap func() // what replace has asked for
}

// held is an instant that its jitter holds back until its time has come.
type held struct{ instant, until time.Time }

// maxBacklog bounds how many instants that are due at once are emitted, apart
// from the newest ones.
const maxBacklog = 1000

// replace gives the feed another schedule from the next look on: until then
// instants are those of the old one, from then on those of the new one. Wake its
// alarm, so that this is soon.
func (f *feed) replace(schedule Schedule, jitter time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.swap = func() { f.schedule, f.jitter = schedule, jitter }
}

// begin sets where the feed begins: what was due before this moment, on the
// machine's clock and its jitter apart, is not emitted. Without it that is the
// first look.
func (f *feed) begin(machine time.Time) {
	now := machine.Add(f.ahead())
	f.from = now.Add(-f.jitter) // those after it may still have to wait
	f.last = f.from
}

// ahead is how far the schedule's clock is ahead of the machine's.
func (f *feed) ahead() time.Duration {
	if f.skew == nil {
		return 0
	}
	return f.skew()
}

// next emits what is due and returns when to look again, on the machine's
// clock.
func (f *feed) next(machine time.Time) time.Time {
	skew := f.ahead()
	now := machine.Add(skew)
	if f.last.IsZero() {
		f.from, f.last = now, now // what was due before is not ours
	}
	f.take(now)
	f.replaced(now)
	f.release(now)
	at := f.wanted()
	if at.IsZero() {
		return at
	}
	return at.Add(-skew)
}

// take takes from the schedule what the clock has passed.
func (f *feed) take(now time.Time) {
	due, more := f.between(f.last, now)
	if more {
		oldest := due[len(due)-1]
		newest := f.newest(oldest, now)
		if !newest[0].Equal(f.schedule.Next(oldest)) {
			f.dropped(oldest, newest[0])
		}
		due = append(due, newest...)
	}
	for _, at := range due {
		f.held = append(f.held, held{at, at.Add(jitterOf(f.job, at, f.jitter))})
		f.last = at
	}
}

// release emits what is held back no longer. A later instant never overtakes
// an earlier one.
func (f *feed) release(now time.Time) {
	n := 0
	for n < len(f.held) && !f.held[n].until.After(now) {
		n++
	}
	if n == 0 {
		return
	}
	due := make([]time.Time, n)
	for i, h := range f.held[:n] {
		due[i] = h.instant
	}
	f.held = slices.Delete(f.held, 0, n)
	f.emit(due)
}

// wanted returns when the next instant can be emitted, on the schedule's clock.
func (f *feed) wanted() time.Time {
	if len(f.held) > 0 {
		return f.held[0].until
	}
	at := f.schedule.Next(f.last)
	if at.IsZero() {
		return at
	}
	return at.Add(jitterOf(f.job, at, f.jitter))
}

func (f *feed) replaced(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.swap == nil {
		return
	}
	f.swap()
	f.swap = nil
	if now.After(f.last) {
		f.last = now // what the new schedule says about the past was never due
	}
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

// newest returns the last instants up to now that are after the given one;
// there are some.
func (f *feed) newest(after, now time.Time) []time.Time {
	for back := time.Minute; ; back *= 2 {
		from := now.Add(-back)
		if from.Before(after) {
			from = after
		}
		if due, _ := f.between(from, now); len(due) > 0 {
			return due
		}
	}
}
