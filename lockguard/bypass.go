package lockguard

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// pass returns the first Hold of work that runs without the lock. That the
// override ends meanwhile changes nothing for it.
func (r *request) pass(caller context.Context, by override.Override, hooks []Hook) *Hold {
	r.mu.Lock()
	r.frozen = false
	hold := r.openLocked(caller, r.heldSince(time.Now(), noGrant{&by}), hooks, Bypassed{by})
	r.mu.Unlock()
	r.stream.deliver()
	return hold
}

// bypass is the override by which the work runs without the lock; nil: it holds
// the lock.
func (l *heldLock) bypass() *override.Override {
	none, _ := l.grant.(noGrant)
	return none.by
}

// noGrant is the grant of work that runs without a lock. Nothing happens to it.
type noGrant struct{ by *override.Override }

// ages is longer than anything runs.
const ages = 100 * 365 * 24 * time.Hour

func (noGrant) ID() string                                   { return "" }
func (noGrant) Reference() Reference                         { return Reference{} }
func (noGrant) Terms() priority.Terms                        { return priority.Terms{} }
func (noGrant) Mode() priority.Mode                          { return priority.Exclusive }
func (noGrant) LeaseDeadline() time.Time                     { return time.Now().Add(ages) }
func (noGrant) Token(context.Context) (lock.Token, error)    { return 0, nil }
func (noGrant) Deadline() time.Time                          { return time.Now().Add(ages) }
func (noGrant) Check() error                                 { return nil }
func (noGrant) Extend(context.Context, time.Duration) error  { return nil }
func (noGrant) Protect(context.Context, time.Duration) error { return nil }
func (noGrant) Downgrade(context.Context) error              { return nil }
func (noGrant) Release(context.Context) error                { return nil }

var _ grant = noGrant{}
