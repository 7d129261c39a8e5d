package priority

import "time"

// Facts are what a waiter knows at one moment: all that Judge needs.
type Facts struct {
	Request Request // of the waiter itself

	// First says that no other waiter stands before this one. For a request
	// that has not queued: that it would be first if it did.
	First bool

	// Holders are all that are alive, in any order. A holder whose node is
	// gone counts for nothing and is left out.
	Holders []Holder
}

// A Request is what a waiter asks for.
type Request struct {
	Level Level
	Mode  Mode

	// WaitingTimeout is how long a preemptor is ready to wait for the holder's
	// cleanup, from its first preempt request on. 0 (or less): now. nil: for
	// ever.
	WaitingTimeout *time.Duration

	// Forceful takes the lock when the grace of an outranked holder is over.
	// Without it (polite), only a lease that has run out gives that right.
	Forceful bool

	// PreemptDelta is by how much the level has to be higher than a holder's to
	// preempt it. 0 and 1: any higher level will do.
	PreemptDelta int

	// NeverPreempts: the request preempts no holder for its level, unless that is
	// Emergency. It has its place in the queue all the same, and it preempts holders
	// whose leases have run out.
	NeverPreempts bool

	// Try, the acquire timeout 0: the request takes only what is free. It never
	// preempts.
	Try bool
}

// A Holder is one that has the lock and is alive.
type Holder struct {
	Level Level
	Mode  Mode

	// CleanupTimeout is how long the holder needs for its cleanup once it is
	// preempted.
	CleanupTimeout time.Duration

	Remaining

	// Asked are the waiter's own requests to this holder that stand. What
	// others have asked it is no concern of the waiter.
	Asked []Asked
}

// Remaining is what is left of the times that began with a grant.
type Remaining struct {
	// LeaseLeft is how long the holder's lease still runs; 0 or less: it has
	// run out. A lease that has run out never starts again while an Asked
	// stands.
	LeaseLeft time.Duration

	// MinRuntimeLeft is how long the holder cannot yet be preempted for a level;
	// 0 or less: it can be. It does not outlive the lease: one
	// that only the end of its lease ends has as much left of both.
	MinRuntimeLeft time.Duration
}

// Later returns what is left d later, not less than 0.
func (r Remaining) Later(d time.Duration) Remaining {
	return Remaining{LeaseLeft: max(r.LeaseLeft-d, 0), MinRuntimeLeft: max(r.MinRuntimeLeft-d, 0)}
}

// Longest returns the longer of each.
func (r Remaining) Longest(o Remaining) Remaining {
	return Remaining{LeaseLeft: max(r.LeaseLeft, o.LeaseLeft), MinRuntimeLeft: max(r.MinRuntimeLeft, o.MinRuntimeLeft)}
}

// Asked is a standing request of the waiter to a holder to go.
type Asked struct {
	Reason Reason
	Ago    time.Duration // since it was written; estimate it too short rather than too long
}
