package lockkeeper

import (
	"context"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// A Guard runs work under locks: Guard.Do under one, Guard.DoAll under several.
// Guard.Acquire returns the Hold instead. A process needs one Guard.
type Guard = lockguard.Guard

// An Option changes a Guard: WithObserver, WithOwner, or one of package lockguard.
type Option = lockguard.Option

// NewGuard returns a Guard that acquires its locks through client.
func NewGuard(client *Client, options ...Option) (*Guard, error) {
	return lockguard.New(client, options...)
}

// WithOwner sets the owner of requirements that name none. Defaults to "host:pid".
func WithOwner(owner string) Option { return lockguard.WithOwner(owner) }

// A Hold is a lock that is held, or several that are held together: its context, its
// tokens, its lease.
type Hold = lockguard.Hold

// FromContext returns the Hold whose work ctx is the context of; false if there is
// none.
func FromContext(ctx context.Context) (*Hold, bool) { return lockguard.FromContext(ctx) }

// A Token is a fencing token. It grows with every grant of its scope. Give it to what
// the work writes to, and let that refuse a smaller one.
type Token = lockguard.Token

// A Hook puts things right after an interruption, still under the lock, until the
// grace period ends.
type Hook = lockguard.Hook

// Retry says how a Guard repeats a request that was not granted: Guard.Retrying.
type Retry = lockguard.Retry
