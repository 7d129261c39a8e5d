package lockguard

import (
	"context"
	"time"
)

// An errand is how a lock is acquired that is one of several.
type errand struct {
	among   *bundle // nil: it is the only one
	timeout *time.Duration
	last    bool
	under   []string // IDs of what the same work holds
}

// early reports whether the lock is granted before others that the work needs.
func (e errand) early() bool { return e.among != nil && !e.last }

// yields reports whether other locks are held that must not wait for a freeze
// to end.
func (e errand) yields() bool { return e.among != nil && e.among.holdsAny() }

// request returns what acquires the lock.
func (e errand) request(caller context.Context, g *Guard, requirement Requirement) *request {
	var r *request
	if e.among == nil {
		r = newRequest(caller, g, requirement)
		e.under = heldBy(caller)
	} else {
		r = e.among.take(caller, requirement, e.timeout)
		e.under = append(heldBy(caller), e.among.ids()...)
	}
	r.errand = e
	return r
}
