package zktest

import "time"

// A clock is the server's time. Inside a bubble of testing/synctest it is the
// bubble's. It is not safe for concurrent use.
type clock struct {
	start  time.Time
	frozen bool
	added  time.Duration // by Advance
}

func newClock(frozen bool) clock { return clock{start: time.Now(), frozen: frozen} }

// elapsed is the time since the server began, to the millisecond, as in Java.
func (c *clock) elapsed() time.Duration {
	d := c.added
	if !c.frozen {
		d += time.Since(c.start)
	}
	return d.Truncate(time.Millisecond)
}

// now is the time that goes into nodes, in milliseconds since 1970.
func (c *clock) now() int64 {
	at := c.start.Add(c.added)
	if !c.frozen {
		at = time.Now().Add(c.added)
	}
	return at.UnixMilli()
}
