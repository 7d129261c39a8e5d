package temporal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// LocksMemoKey is the key, in the memo of a workflow that a Schedule has started,
// of the locks that it runs under.
const LocksMemoKey = "lockkeeper_locks"

// declaredLocks are in the memo of a workflow.
type declaredLocks struct {
	Root  string                  `json:"root"` // of the locks: another one is another cluster
	Locks []lockguard.Requirement `json:"locks"`
}

// Declared returns the locks that the job needs whose Schedule has started the
// workflow; none for any other workflow. A worker with the Plugin has taken them
// when the workflow begins.
//
// It is for workers whose data converter is the default one, or none at all.
func Declared(ctx workflow.Context) ([]lockguard.Requirement, error) {
	payload, ok := workflow.GetInfo(ctx).Memo.GetFields()[LocksMemoKey]
	if !ok {
		return nil, nil
	}
	if workflow.GetInfo(ctx).ParentWorkflowExecution != nil {
		return nil, nil // children have memos of their own; this one was copied
	}
	var declared declaredLocks
	if err := converter.GetDefaultDataConverter().FromPayload(payload, &declared); err != nil {
		return nil, fmt.Errorf("memo %q cannot be read: %w", LocksMemoKey, err)
	}
	for i := range declared.Locks {
		r := &declared.Locks[i]
		r.Class = cmp.Or(r.Class, r.Scope)
	}
	return declared.Locks, nil
}

// withoutClass returns locks that do not say a class which Declared knows without:
// what is not said is the same for programs that know of no classes.
func withoutClass(locks []lockguard.Requirement) []lockguard.Requirement {
	locks = slices.Clone(locks)
	for i := range locks {
		if r := &locks[i]; r.Class == r.Scope {
			r.Class = ""
		}
	}
	return locks
}

// underDeclared runs a workflow under the locks that it declares, the whole of it:
// they are acquired one after the other in the order of their scopes, so that two
// workflows never wait for each other in a circle. A workflow that declares none is
// left as it is, and so is its history.
func underDeclared(ctx workflow.Context, run func(ctx workflow.Context) (any, error)) (any, error) {
	locks, err := Declared(ctx)
	if err != nil {
		return nil, failure(ErrTypeLockConfiguration, "the locks of the workflow are not known", err, forGood, loud)
	}
	slices.SortFunc(locks, func(a, b lockguard.Requirement) int { return strings.Compare(a.Scope, b.Scope) })
	var result any
	under := func(ctx workflow.Context) (err error) {
		result, err = run(ctx)
		return err
	}
	for _, requirement := range slices.Backward(locks) {
		inner := under
		under = func(ctx workflow.Context) error {
			return WithLock(ctx, requirement, func(ctx workflow.Context, _ WorkflowHold) error { return inner(ctx) })
		}
	}
	err = under(ctx)
	return result, err
}
