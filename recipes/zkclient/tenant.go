package zkclient

import (
	"context"
	"time"
)

// A Tenant is something that is held by virtue of a session, and has to end
// before the session can. Its methods are called without locks, from any
// goroutine, and must not block.
type Tenant interface {
	// Holding names what is held, for people.
	Holding() string
	// Overdue reports whether it may be taken away without learning of it, were
	// the session cut off at that time.
	Overdue(now Instant) bool
	// AtRisk tells that ZooKeeper has been silent for long, and what is left.
	AtRisk(left time.Duration)
	// SessionLost ends it: the session has ended, or may have.
	SessionLost(cause error)
}

// A Reassured tenant is also notified when ZooKeeper answers again after
// AtRisk.
type Reassured interface{ Safe() }

// An Evictable tenant can be taken away while the session lives. It learns of
// that from its own node.
type Evictable interface {
	Tenant
	// Blink notes that its node may change unheard of until it is looked at again.
	Blink()
	// Blind reports whether that should have been done by now.
	Blind(now Instant) bool
}

// A Verifiable tenant looks now and then whether ZooKeeper still says that it holds.
type Verifiable interface {
	Tenant
	// VerifyDue reports whether it is time to look.
	VerifyDue(now Instant) bool
	// Verify looks. It ends the tenant that does not hold.
	Verify(ctx context.Context)
}
