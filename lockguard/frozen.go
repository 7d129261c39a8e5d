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
func (l *heldLock) endure(ctx context.Context, effect override.Effect, changed <-chan struct{}) (override.Effect, <-chan struct{}, error) {
	var over <-chan time.Time
	shown := l.showFrozen()
	defer shown.end()
	for ; effect.Frozen != nil; effect, changed = l.weigh(ctx) {
		l.tellFrozen(*effect.Frozen)
		frozen := func(err error) error {
			return &FrozenError{Scope: l.claim.about.Scope, Override: *effect.Frozen, Err: err}
		}
		if l.isTry() {
			return effect, nil, frozen(&recipes.NotAcquiredError{Scope: l.claim.about.Scope})
		}
		shown.by(*effect.Frozen)
		if left := l.left(); left != nil && over == nil {
			timer := time.NewTimer(*left)
			defer timer.Stop()
			over = timer.C
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return effect, nil, frozen(context.Cause(ctx))
		case <-over:
			return effect, nil, frozen(&recipes.NotAcquiredError{Scope: l.claim.about.Scope, Waited: time.Since(l.started)})
		}
	}
	return effect, changed, nil
}

// thawLocked tells of the end of the freeze, if there was one.
func (l *heldLock) thawLocked() {
	if l.frozen {
		l.frozen = false
		l.stream.note(Thawed{})
	}
}

// tellFrozen tells of the freeze, once until the request is made again.
func (l *heldLock) tellFrozen(by override.Override) {
	l.mu.Lock()
	if !l.frozen {
		l.frozen = true
		l.stream.note(Frozen{by})
	}
	l.mu.Unlock()
	l.stream.deliver()
}

// A freezer shows in ZooKeeper which requests wait for the end of a freeze: a
// locker that can do so. It returns when ctx ends.
type freezer interface {
	showFrozen(ctx context.Context, r recipes.FrozenRequest) error
}

// shownFrozen is what others see of a request while it is frozen.
type shownFrozen struct {
	l    *heldLock
	now  override.Override
	stop context.CancelFunc // nil: nothing is shown
}

func (l *heldLock) showFrozen() *shownFrozen { return &shownFrozen{l: l} }

// by shows that an override keeps the request out, in place of the one before.
// It waits for nothing: showing it is for people, and must not hold up the
// request.
func (s *shownFrozen) by(o override.Override) {
	locker, able := s.l.guard.locker.(freezer)
	if !able || s.stop != nil && s.now.ID == o.ID && s.now.Until.Equal(o.Until) {
		return
	}
	s.end()
	ctx, stop := context.WithCancel(s.l.stream.ctx)
	s.now, s.stop = o, stop
	l := s.l
	about := l.stream.subject()
	r := recipes.FrozenRequest{
		ID: about.ID, Scope: l.claim.about.Scope, Identity: about.Identity, Job: l.claim.about.Job,
		Priority: l.claim.asked.Priority, Mode: l.requirement.Mode,
		Override: recipes.Mark{ID: o.ID, By: o.By, Reason: o.Reason}, Until: o.Until,
	}
	go func() {
		if err := locker.showFrozen(ctx, r); err != nil {
			l.guard.logger.DebugContext(ctx, "others cannot see that a request is frozen", "scope", r.Scope, "owner", r.Owner, "override", r.Override.ID, "error", err)
		}
	}()
}

func (s *shownFrozen) end() {
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
}
