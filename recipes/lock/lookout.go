package lock

import (
	"context"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A Lookout follows every lock below the root of a client: it learns of changes
// by watches, and reads only what has changed. While nothing happens it sends
// no request. It writes only what it needs to know the servers' clock.
//
// Its watches are those of the client's session: one on the node of each request,
// two on that of each lock. go-zookeeper cannot take a watch back, so those that
// stand when Run ends go with the next change, or with the session. A program that
// locks much and looks at much uses a client of its own for looking.
type Lookout struct {
	c *Client
	o LookoutOptions
}

// LookoutOptions are how a Lookout looks. The zero value is good.
type LookoutOptions struct {
	// Gap is the least time between two looks at the same lock: of what changes
	// more often, some states are not seen. Where thousands wait it is longer, at
	// most 300ms, because their list is. Defaults to 100ms.
	Gap time.Duration
}

// DefaultLookoutGap is LookoutOptions.Gap when it is not set.
const DefaultLookoutGap = 100 * time.Millisecond

// A Sighting is what a Lookout tells: the state of one lock, or, without a
// State.Scope, something about the whole.
type Sighting struct {
	// State is the lock as it was seen.
	State State

	// Moved is the transaction in which a request came or went last. It is the
	// token of the holder that was handed the lock or has taken it, unless a
	// request came or went since, or a client has ended its watch on those that
	// come and go; a waiter that found the lock abandoned was granted later than
	// that.
	Moved Token

	// Version is that of the lock node: each grant raises it by one. What else writes
	// the node does so too.
	Version int32

	// Gone: the lock was not used for long and has been collected. The State has
	// a scope alone.
	Gone bool

	// Unreadable, when it is not nil, are the nodes in the place of locks, or of
	// lists of locks, that cannot be read, by path: all that there are now.
	// Reported when they have changed. What of a lock cannot be read is part of
	// its State.
	Unreadable []zkclient.Unreadable

	// Synced: every lock that there is has been reported, since Run began, or
	// since it was Blind.
	Synced bool

	// Blind is set when ZooKeeper has not answered for a second: until Synced,
	// what was reported may be out of date. Reported once for each such time.
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
	switch {
	case o.Gap < 0:
		return nil, &zkclient.RequestError{Field: "gap", Reason: fmt.Sprintf("%s is negative", o.Gap)}
	case o.Gap == 0:
		o.Gap = DefaultLookoutGap
	}
	return &Lookout{c: c, o: o}, nil
}

// Run looks at all locks, and then at those that change, until ctx ends, whose
// cause it returns, or the client is closed (ErrClosed), or it may not list the
// locks (*AccessError). It calls seen from one goroutine; while that does not
// return, changes add up. It may be called again, and more than once at a time.
//
// Each lock is reported once at the beginning, and then when its state differs
// from the last one reported. After a lost connection or session everything is
// read again, and changes are reported.
func (l *Lookout) Run(ctx context.Context, seen func(Sighting)) error {
	v := newVigil(l, seen)
	defer v.end()
	for {
		s, err := v.session(ctx)
		if err != nil {
			return err
		}
		if err := v.on(ctx, s); err != nil {
			return err
		}
	}
}

// blindAfter is how long ZooKeeper may be silent before that is reported: a
// restart of one server is not reported.
const blindAfter = time.Second
