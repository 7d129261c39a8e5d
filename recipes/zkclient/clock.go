package zkclient

import (
	"sync/atomic"
	"time"
)

// Instant is a point on a clock of this process that never steps and that goes
// on while the machine is suspended. Wall clocks play no part in the protocol.
type Instant time.Duration

// Add is the instant a time later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub is the time since j.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// clock reads instants. Go's monotonic clock stands still during a suspend, so
// the time that the machine slept is added; inside a testing/synctest bubble
// there is none, and the clock is the bubble's.
type clock struct {
	base   time.Time
	before time.Duration // slept before base
	slept  atomic.Int64  // since base, as last noticed
}

func newClock() *clock {
	c := &clock{base: time.Now(), before: suspended()}
	for range 3 { // one reading may be too small by a pause of this thread
		c.before = max(c.before, suspended())
	}
	return c
}

// now returns the present. Right after a suspend that was not noticed yet it
// is early: a request stamped then counts as sent before it was, which only
// makes a hold end sooner. The arrival of an answer that prolongs a hold takes awake.
func (c *clock) now() Instant {
	return Instant(time.Since(c.base) + time.Duration(c.slept.Load()))
}

// awake is now, and notices a suspend: for whatever decides that something is
// still held.
func (c *clock) awake() Instant {
	// Small differences are noise, and the clock never steps back.
	const noise = int64(50 * time.Millisecond)
	slept := int64(suspended() - c.before)
	for {
		known := c.slept.Load()
		if slept <= known+noise || c.slept.CompareAndSwap(known, slept) {
			return c.now()
		}
	}
}
