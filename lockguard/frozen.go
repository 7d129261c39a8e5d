package lockguard

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// endure waits until no override keeps the request from being granted. It
// returns what has become of it, or a *FrozenError when the acquire timeout or
// ctx ends before that.
func (r *request) endure(
	ctx context.Context, effect override.Effect, changed <-chan struct{},
) (override.Effect, <-chan struct{}, error) {
	var over <-chan time.Time
	shown := shownFrozen{of: r}
	defer shown.end()
	for ; effect.Frozen != nil; effect, changed = r.weigh(ctx) {
		r.tellFrozen(*effect.Frozen)
		frozen := func(err error) error {
			return &FrozenError{Scope: r.claim.about.Scope, Override: *effect.Frozen, Err: err}
		}
		if r.limit.isTry() {
			return effect, nil, frozen(&lock.NotAcquiredError{Scope: r.claim.about.Scope})
		}
		shown.by(*effect.Frozen)
		if left := r.left(); left != nil && over == nil {
			timer := time.NewTimer(*left)
			defer timer.Stop()
			over = timer.C
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return effect, nil, frozen(context.Cause(ctx))
		case <-over:
			return effect, nil, frozen(&lock.NotAcquiredError{Scope: r.claim.about.Scope, Waited: time.Since(r.limit.start)})
		}
	}
	return effect, changed, nil
}

// thawLocked tells of the end of the freeze, if there was one.
func (r *request) thawLocked() {
	if r.frozen {
		r.frozen = false
		r.stream.note(Thawed{})
	}
}

// tellFrozen tells of the freeze, once until the request is made again.
func (r *request) tellFrozen(by override.Override) {
	r.mu.Lock()
	if !r.frozen {
		r.frozen = true
		r.stream.note(Frozen{by})
	}
	r.mu.Unlock()
	r.stream.deliver()
}

// A freezer shows in ZooKeeper which requests wait for the end of a freeze: a
// locker that can do so. It returns when ctx ends.
type freezer interface {
	showFrozen(ctx context.Context, r lock.FrozenRequest) error
}

// shownFrozen is what others see of a request while it is frozen.
type shownFrozen struct {
	of   *request
	now  override.Override
	stop context.CancelFunc // nil: nothing is shown
}

// by shows that an override keeps the request out, in place of the one before.
// It waits for nothing: showing it is for people, and must not hold up the
// request.
func (s *shownFrozen) by(o override.Override) {
	locker, able := s.of.guard.locker.(freezer)
	if !able || s.stop != nil && s.now.ID == o.ID && s.now.Until.Equal(o.Until) {
		return
	}
	s.end()
	ctx, stop := context.WithCancel(s.of.stream.ctx)
	s.now, s.stop = o, stop
	of := s.of
	about := of.stream.subject()
	r := lock.FrozenRequest{
		ID: about.ID, Scope: of.claim.about.Scope, Identity: about.Identity, Job: of.claim.about.Job,
		Priority: of.claim.asked.Priority, Mode: of.requirement.Mode,
		Override: lock.Mark{ID: o.ID, By: o.By, Reason: o.Reason}, Until: o.Until,
	}
	go func() {
		if err := locker.showFrozen(ctx, r); err != nil {
			of.guard.logger.DebugContext(ctx, "others cannot see that a request is frozen",
				"scope", r.Scope, "owner", r.Owner, "override", r.Override.ID, "error", err)
		}
	}()
}

func (s *shownFrozen) end() {
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
}
