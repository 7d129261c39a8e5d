package lockguard

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// endure waits until no override keeps the request from being granted. It
// returns what has become of it, or a *FrozenError when the acquire timeout or
// ctx ends before that.
func (t *tenure) endure(ctx context.Context, effect override.Effect, changed <-chan struct{}) (override.Effect, <-chan struct{}, error) {
	var over <-chan time.Time
	for ; effect.Frozen != nil; effect, changed = t.weigh(ctx) {
		t.tellFrozen(*effect.Frozen)
		frozen := func(err error) error {
			return &FrozenError{Scope: t.claim.about.Scope, Override: *effect.Frozen, Err: err}
		}
		if t.isTry() {
			return effect, nil, frozen(&recipes.NotAcquiredError{Scope: t.claim.about.Scope})
		}
		if left := t.left(); left != nil && over == nil {
			timer := time.NewTimer(*left)
			defer timer.Stop()
			over = timer.C
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return effect, nil, frozen(context.Cause(ctx))
		case <-over:
			return effect, nil, frozen(&recipes.NotAcquiredError{Scope: t.claim.about.Scope, Waited: time.Since(t.started)})
		}
	}
	return effect, changed, nil
}

// thawLocked tells of the end of the freeze, if there was one.
func (t *tenure) thawLocked() {
	if t.frozen {
		t.frozen = false
		t.stream.add(Thawed{t.aboutLocked()})
	}
}

// tellFrozen tells of the freeze, once until the request is made again.
func (t *tenure) tellFrozen(by override.Override) {
	t.mu.Lock()
	if !t.frozen {
		t.frozen = true
		t.stream.add(Frozen{t.aboutLocked(), by})
	}
	t.mu.Unlock()
	t.stream.deliver()
}
