package temporal

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

// around returns what a context is in scope of that has the lock of a scope already,
// or has lost it; false if it has to be acquired.
func around(ctx workflow.Context, scope string) (scoped, bool) {
	for _, s := range slices.Backward(scopesOf(ctx)) {
		if s.hold.requirement.Scope == scope {
			return s, s.hold.phase == holdGranted || s.hold.interrupted != nil
		}
	}
	return scoped{}, false
}

// nest runs body under a hold that is there around it: by itself it would wait for
// its own workflow, for ever. What interrupts the hold interrupts both.
func (h *workflowHold) nest(ctx workflow.Context, requirement lockguard.Requirement, o lockOptions, body func(
	ctx workflow.Context, hold WorkflowHold,
) error,
) error {
	if err := h.refuseNested(requirement, o); err != nil {
		return failure(ErrTypeLockConfiguration, fmt.Sprintf("lock %q cannot be acquired", requirement.Scope),
			err, forGood, loud)
	}
	if i := h.interrupted; i != nil && !i.Held() {
		return i.error(nil, false)
	}
	err := body(ctx, WorkflowHold{h})
	h.hearAll(h.detached)
	if workflow.IsContinueAsNewError(err) {
		return err
	}
	i := h.interruption(ctx, requirement, err)
	if i == nil || err == nil && i.Held() {
		return err
	}
	if o.hook != nil {
		detached, _ := workflow.NewDisconnectedContext(ctx)
		err = h.putRight(detached, o.hook, *i, err)
	}
	if i.Reason == PreemptionCanceled {
		return err
	}
	return i.error(err, false)
}

// refuseNested says what the hold cannot be for what is nested in it.
func (h *workflowHold) refuseNested(requirement lockguard.Requirement, o lockOptions) error {
	switch {
	case h.requirement.Mode == priority.Shared && requirement.Mode != priority.Shared:
		return &lockguard.UpgradeError{Scope: requirement.Scope}
	case o.hook != nil && requirement.CleanupTimeout > h.requirement.CleanupTimeout:
		return &lockguard.RequestError{
			Field: "cleanup_timeout",
			Reason: fmt.Sprintf("%s is more than the %s with which the lock %q was taken around this; lengthen it there",
				requirement.CleanupTimeout, h.requirement.CleanupTimeout, requirement.Scope),
		}
	}
	return nil
}
