package priority

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
)

// Terms are what a request declares about the lock that it asks for. The zero value asks for the exclusive lock at the
// lowest priority, and waits for it as long as its context lives. A nil pointer means unset.
//
// This is the one declaration of the terms: what asks for a lock, from a line of YAML to the node in
// ZooKeeper, embeds it.
type Terms struct {
	// Priority orders the queue, and decides who may preempt whom: 0 (default, lowest) to 2147483646.
	Priority Level

	// Mode is exclusive (default), which has the lock alone, or shared, which has it together with other shared ones.
	Mode Mode

	// LeaseTimeout is how long the work needs. It is lazy: after it the holder keeps the lock until another request asks
	// for it, of whatever priority. The holder loses the lock when that request has waited for the grace period, and also
	// when its connection ends. A holder that is cut off then may believe for five sixteenths of a session timeout more
	// that it holds: see "Takeovers and breaks" in docs/safety.md. Defaults to DefaultLeaseTimeout.
	LeaseTimeout time.Duration

	// CleanupTimeout is how long the holder needs to clean up once it is preempted. Defaults to 0: it needs no
	// time.
	CleanupTimeout time.Duration

	// WaitingTimeout is how long a preemptor waits for the holder's cleanup, counted from its preempt request. 0: now.
	// nil: for ever.
	WaitingTimeout *time.Duration

	// AcquireTimeout bounds everything from call to grant, waiting included. 0: take the lock only if that needs no
	// holder's consent, never preempt, leave nothing behind. nil: as long as the context lives.
	AcquireTimeout *time.Duration

	// Forceful takes the lock when the grace period of an outranked holder is over. A request that is not forceful
	// (polite) waits for the release until its WaitingTimeout.
	Forceful bool

	// MinRuntime is how long the holder is not preempted for a priority, from its grant on; with several locks, from when
	// all are held. The end of its lease, a request at Emergency and an administrator do not wait for it. At most
	// LeaseTimeout; as long as that means: nothing but those three ends the hold, also when the lease is extended.
	// Defaults to 0.
	MinRuntime time.Duration

	// LockDelay is how long the lock is granted to no request after an unclean end of the hold: a crash, the end of the
	// session, an eviction. It is for work on something that cannot refuse an old token. A release, in time or late, is
	// not delayed. The unclean end of a shared hold delays exclusive requests alone. At most MaxLockDelay. Defaults to 0:
	// none.
	LockDelay time.Duration

	// PreemptDelta is by how much Priority has to be higher than a holder's to preempt it for that. It changes
	// neither the order of the queue nor what happens at the end of a lease. Defaults to 0, which is 1: any
	// higher priority. At Emergency it counts as 1.
	PreemptDelta int

	// NeverPreempts preempts no holder for Priority, which then orders the queue alone; holders whose lease is over are
	// preempted all the same. It has no meaning at Emergency, which an override may raise the request to. It excludes a
	// PreemptDelta.
	NeverPreempts bool
}

// DefaultLeaseTimeout is the LeaseTimeout of Terms that say none.
const DefaultLeaseTimeout = 10 * time.Minute

// MaxLockDelay is the longest LockDelay: no holder that crashes takes a lock out of service for longer.
const MaxLockDelay = 10 * time.Minute

// A RequestError names a part of a request, of a requirement or of a client's configuration that can never work.
type RequestError struct {
	Field  string // for example "lease_timeout"
	Reason string // what is wrong, and after a semicolon what to write instead
}

func (e *RequestError) Error() string { return "lockkeeper: " + e.Field + ": " + e.Reason }

// WithDefaults returns the terms with what they leave out.
func (t Terms) WithDefaults() Terms {
	if t.LeaseTimeout == 0 {
		t.LeaseTimeout = DefaultLeaseTimeout
	}
	return t
}

// Granted returns what is left of the terms at the moment of their grant.
func (t Terms) Granted() Remaining {
	return Remaining{LeaseLeft: t.LeaseTimeout, MinRuntimeLeft: t.MinRuntime}
}

// UntilLeaseEnds returns the terms with the longest MinRuntime: nothing but the end of the lease ends the hold.
func (t Terms) UntilLeaseEnds() Terms {
	t.MinRuntime = t.WithDefaults().LeaseTimeout
	return t
}

// Validate returns everything that is wrong with the terms of a job or of a requirement, joined
// (errors.Join). Each problem is a *RequestError. The configuration, the flags, the API of the console and
// Temporal say its Reason word for word, so it holds wherever terms are written.
func (t Terms) Validate() error {
	c := termsCheck{Terms: t.WithDefaults(), shortest: time.Millisecond}
	if err := t.Priority.CheckJob(); err != nil {
		c.refuse("priority", "%s", err)
	}
	c.each()
	if c.CleanupTimeout >= c.LeaseTimeout && c.LeaseTimeout > 0 {
		c.refuse("cleanup_timeout",
			"cleanup_timeout (%s) must be shorter than lease_timeout (%s); shorten the one or lengthen the other",
			words.Duration(c.CleanupTimeout), words.Duration(c.LeaseTimeout))
	}
	return errors.Join(c.problems...)
}

// ValidateRequest is Validate for what a request has become: an override may have raised it to Emergency, and have
// lengthened its CleanupTimeout alone.
func (t Terms) ValidateRequest() error {
	c := termsCheck{Terms: t.WithDefaults()}
	if t.Priority < Default {
		c.refuse("priority", "%s", t.Priority.CheckJob())
	}
	c.each()
	return errors.Join(c.problems...)
}

// A termsCheck collects what is wrong with terms.
type termsCheck struct {
	Terms
	shortest time.Duration // that may be written: ZooKeeper keeps milliseconds. What a request has become may be shorter
	problems []error
}

func (c *termsCheck) refuse(field, format string, args ...any) {
	c.problems = append(c.problems, &RequestError{Field: field, Reason: fmt.Sprintf(format, args...)})
}

// each checks what holds for all terms.
func (c *termsCheck) each() {
	if c.Mode != Exclusive && c.Mode != Shared {
		c.refuse("mode", "%s is unknown; write exclusive or shared", c.Mode)
	}
	c.length("lease_timeout", c.LeaseTimeout, time.Millisecond, "write how long the work needs, or leave it out")
	c.length("cleanup_timeout", c.CleanupTimeout, c.shortest, "write how long the cleanup needs, or leave it out")
	if c.WaitingTimeout != nil {
		c.length("waiting_timeout", *c.WaitingTimeout, c.shortest, "write 0 to wait for no cleanup, or leave it out")
	}
	if c.AcquireTimeout != nil { // what is left of one may be short
		c.length("acquire_timeout", *c.AcquireTimeout, 0, "write 0 to try once, or leave it out")
	}
	c.length("min_runtime", c.MinRuntime, c.shortest, "write how long the work is not to be preempted, or leave it out")
	if c.MinRuntime > c.LeaseTimeout && c.LeaseTimeout > 0 {
		c.refuse("min_runtime", "min_runtime (%s) is longer than lease_timeout (%s); shorten the one or lengthen the other",
			words.Duration(c.MinRuntime), words.Duration(c.LeaseTimeout))
	}
	c.length("lock_delay", c.LockDelay, c.shortest,
		"write how long work that was cut off may still do harm, or leave it out")
	if c.LockDelay > MaxLockDelay {
		c.refuse("lock_delay", "%s is longer than %s; write how long work that was cut off may still do harm",
			words.Duration(c.LockDelay), words.Duration(MaxLockDelay))
	}
	switch {
	case c.PreemptDelta < 0:
		c.refuse("preempt_delta", "%d is negative; write 1 for any higher priority, or leave it out", c.PreemptDelta)
	case c.PreemptDelta > 0 && c.NeverPreempts:
		c.refuse("preempt_delta", "has no meaning for a request that never preempts; leave one of them out")
	}
}

// length checks one of the durations.
func (c *termsCheck) length(field string, d, shortest time.Duration, instead string) {
	switch {
	case d < 0:
		c.refuse(field, "%s is negative; %s", words.Duration(d), instead)
	case d > 0 && d < shortest:
		c.refuse(field, "%s is too short; write 1ms or more", d)
	}
}

// Equal reports whether both say the same.
func (t Terms) Equal(o Terms) bool {
	same := equal(t.WaitingTimeout, o.WaitingTimeout) && equal(t.AcquireTimeout, o.AcquireTimeout)
	t.WaitingTimeout, t.AcquireTimeout, o.WaitingTimeout, o.AcquireTimeout = nil, nil, nil, nil
	return same && t == o
}

func equal(a, b *time.Duration) bool { return a == b || a != nil && b != nil && *a == *b }
