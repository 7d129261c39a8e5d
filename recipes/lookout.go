package recipes

import (
	"context"
	"time"
)

// A Lookout follows every lock below the root of a client: it is told of changes
// by watches, and reads only what has changed. It writes nothing.
type Lookout struct {
	c *Client
	o LookoutOptions
}

// LookoutOptions are how a Lookout looks. The zero value is good.
type LookoutOptions struct {
	// Gap is the least time between two looks at the same lock: of what changes
	// more often, some states are not seen. Defaults to 100ms.
	Gap time.Duration
}

// A Sighting is what a Lookout tells: the state of one lock, or, without a
// State.Scope, something about the whole.
type Sighting struct {
	// State is the lock as it was seen.
	State LockState

	// Gone: the lock was not used for long and has been collected. The State has
	// a scope alone.
	Gone bool

	// Synced: every lock that there is has been told, since Run began, or since it
	// was Blind.
	Synced bool

	// Blind is set while ZooKeeper does not answer: until Synced, what was told
	// may be out of date. Told once for each such time.
	Blind *Blindness
}

// Blindness says that ZooKeeper does not answer.
type Blindness struct {
	Since time.Time // by the servers' clock, about
	Err   error     // *UnavailableError
}

// Lookout returns one that has not looked yet, see Run. It returns a
// *RequestError for options that cannot be.
func (c *Client) Lookout(o LookoutOptions) (*Lookout, error) {
	return &Lookout{c: c, o: o}, nil
}

// Run looks at all locks, and then at those that change, until ctx ends, whose
// cause it returns, or the client is closed. It calls seen from one goroutine.
func (l *Lookout) Run(ctx context.Context, seen func(Sighting)) error {
	<-ctx.Done()
	return context.Cause(ctx)
}
