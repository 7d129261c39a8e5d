package priority

import "time"

// A Reason is the right by which a waiter preempts a holder.
type Reason string

const (
	// Outranked: the waiter has a higher level than the holder. A forceful
	// waiter may take over when the grace ends; a polite one goes on waiting
	// for the release.
	Outranked Reason = "outranked"

	// LeaseExpired: the holder's lease has run out. Every waiter, of whatever
	// level, polite ones too, may take over when the grace ends.
	LeaseExpired Reason = "lease"
)

// evicts reports whether a holder asked for this reason may be evicted by w
// when its grace ends.
func (reason Reason) evicts(w Request) bool {
	return reason == LeaseExpired || reason == Outranked && w.Forceful
}

// Grace returns how long a holder with this cleanup timeout may clean up when
// r preempts it: its cleanup timeout or, for a forceful request, the smaller
// of that and the request's waiting timeout. Timeouts below 0 count as 0.
//
// The grace is the same for both reasons: one that has outstayed its lease
// still has something to put right, and a forceful request that cannot wait
// for one holder cannot wait for the other.
func Grace(_ Reason, r Request, cleanup time.Duration) time.Duration {
	grace := max(cleanup, 0)
	if r.Forceful && r.WaitingTimeout != nil {
		grace = min(grace, max(*r.WaitingTimeout, 0))
	}
	return grace
}
