package console

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// An Operator does what people ask for, in their name. Each act is on record
// before it is done; what cannot be put on record is not done. Errors say what was
// tried and what to do next, and are shown. With an error and an Act, the act has
// begun; if ZooKeeper has not answered, it may have been done. With an error and no
// Act, nothing is done, also later.
type Operator interface {
	// Apply puts an override in force.
	Apply(ctx context.Context, o override.Override) (Done, error)

	// Break takes a lock from the holder with a token, at once.
	Break(ctx context.Context, scope string, token lock.Token, by By) (Done, error)

	// Clear takes an override back.
	Clear(ctx context.Context, id string, by By) (Done, error)

	// Concerns returns how many an override meets now: requests, or jobs for one that
	// pauses. It does nothing.
	Concerns(ctx context.Context, o override.Override) (int, error)

	// Decide answers a question.
	Decide(ctx context.Context, id string, d opstore.Decision) (Done, error)

	// Pause keeps a job from running until a time; the zero one: until somebody
	// resumes it.
	Pause(ctx context.Context, job string, until time.Time, by By) (Done, error)

	// Preempt preempts the holders of a lock. It returns when the preemption is
	// sent: the rest is to be seen.
	Preempt(ctx context.Context, p Preemption) (Done, error)

	// Resume lets a paused job run again.
	Resume(ctx context.Context, job string, by By) (Done, error)

	// Run has a job run now.
	Run(ctx context.Context, job string, by By) (Done, error)
}

// By is who does something, and why. Neither is empty.
type By struct{ Name, Reason string }

// A Preemption says whom to preempt, and how.
type Preemption struct {
	Scope string
	Token lock.Token // of the holder that is meant; 0: the present holder
	By    By

	// Force takes the lock when the time to clean up is over, which is Grace at
	// most; nil: the holder's cleanup timeout.
	Force bool
	Grace *time.Duration
}

// Done is what has come of an act.
type Done struct {
	Text string `json:"text"` // what was done, in a sentence
	Act  string `json:"act"`  // what the audit trail calls it; "" when there was nothing to do, or nothing was begun
}
