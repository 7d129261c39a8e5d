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
	jitter   time.Duration // instants are emitted up to that much later
	emit     func(instants []time.Time)
	dropped  func(after, before time.Time) // instants in between are not emitted; told in order with emit

	from time.Time // later instants are emitted
	last time.Time // taken from the schedule up to here
	held []held    // taken, to be emitted later
	gap  *gap      // between those that are held

	mu   sync.Mutex
	swap func() // what replace has asked for
}

// held is an instant that its jitter holds back until its time has come.
type held struct{ instant, until time.Time }

// gap is a stretch of which there are too many instants to emit.
type gap struct{ after, before time.Time }

// maxBacklog bounds how many instants that are due at once are emitted: the
// newest ones.
const maxBacklog = 1000

// replace gives the feed another schedule from the next look on: until then
// instants are those of the old one, from then on those of the new one. Wake its
// alarm, so that this is soon.
func (f *feed) replace(schedule Schedule, jitter time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.swap = func() { f.schedule, f.jitter = schedule, jitter }
}

// begin sets where the feed begins: what was due before this moment, its jitter
// apart, is not emitted. Without it that is the first look.
func (f *feed) begin(now time.Time) {
	f.from = now.Add(-f.jitter) // those after it may still have to wait
	f.last = f.from
}

// next emits what is due and returns when to call it again.
func (f *feed) next(now time.Time) time.Time {
	if f.last.IsZero() {
		f.from, f.last = now, now // what was due before is not ours
	}
	f.take(now)
	f.replaced(now)
	f.release(now)
	return f.wanted()
}

// take takes from the schedule what the clock has passed.
func (f *feed) take(now time.Time) {
	due, more := newest(f.schedule, f.last, now, maxBacklog)
	if more {
		f.tellGap()
		f.gap = &gap{after: f.last, before: due[0]}
	}
	for _, at := range due {
		f.held = append(f.held, held{at, at.Add(jitterOf(f.job, at, f.jitter))})
		f.last = at
	}
}

// release emits what is held back no longer. A later instant never overtakes
// an earlier one.
func (f *feed) release(now time.Time) {
	var due []time.Time
	for _, h := range f.held {
		if f.gap != nil && h.instant.After(f.gap.after) {
			f.emitAll(due)
			due = nil
			f.tellGap()
		}
		if h.until.After(now) {
			break
		}
		due = append(due, h.instant)
	}
	f.emitAll(due)
}

func (f *feed) emitAll(due []time.Time) {
	if len(due) == 0 {
		return
	}
	f.held = f.held[len(due):]
	if len(f.held) == 0 {
		f.held = nil
	}
	f.emit(due)
}

func (f *feed) tellGap() {
	if f.gap == nil {
		return
	}
	g := f.gap
	f.gap = nil
	f.dropped(g.after, g.before)
}

// wanted returns when the next instant can be emitted.
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

// newest returns the instants after one and up to another one, in order: the
// last ones if there are more than most.
func newest(schedule Schedule, after, until time.Time, most int) (due []time.Time, more bool) {
	const some = 2 // times as many as wanted are few enough to look at
	from, many, none := after, after, until
	for {
		due, more = due[:0], false
		for at := schedule.Next(from); !at.IsZero() && !at.After(until); at = schedule.Next(at) {
			if len(due) == some*most {
				more = true
				break
			}
			due = append(due, at)
		}
		switch {
		case more:
			many = from
		case len(due) == 0 && from.After(after):
			none = from
		case len(due) > most:
			return slices.Clone(due[len(due)-most:]), true
		default:
			return due, from.After(after)
		}
		from = many.Add(none.Sub(many) / 2)
	}
}
