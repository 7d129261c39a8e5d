package temporal

import (
	"context"
	"slices"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// guardLocks are the locks of a Guard.
type guardLocks struct{ guard *lockguard.Guard }

func (g guardLocks) enqueue(ctx context.Context, requirement lockguard.Requirement) pendingLock {
	return guardTicket{g.guard.Enqueue(ctx, requirement)}
}

func (g guardLocks) adopt(
	ctx context.Context, requirement lockguard.Requirement, reference lockguard.Reference,
) (heldLock, error) {
	return orNil(g.guard.Adopt(ctx, requirement, reference))
}

func (g guardLocks) join(
	ctx context.Context, requirement lockguard.Requirement, reference lockguard.Reference, cleanup bool,
) (heldLock, error) {
	if cleanup {
		return orNil(g.guard.Join(ctx, requirement, reference, lockguard.ForCleanup()))
	}
	return orNil(g.guard.Join(ctx, requirement, reference))
}

type guardTicket struct{ *lockguard.Ticket }

func (t guardTicket) held() (heldLock, error) { return orNil(t.Hold()) }

// orNil keeps a nil *Hold out of an interface.
func orNil(hold *lockguard.Hold, err error) (heldLock, error) {
	if err != nil {
		return nil, err
	}
	return hold, nil
}

// workflowHolds is the part of the plugin that WithLock needs.
type workflowHolds struct{ agent *agent }

func newWorkflowHolds(p *Plugin) *workflowHolds {
	return &workflowHolds{newAgent(guardLocks{p.guard}, p.logger)}
}

// interceptor is around that for the locks of activities: an activity that
// declares the lock of its workflow again has it already.
func (w *workflowHolds) interceptor() interceptor.WorkerInterceptor {
	return &holdInterceptor{locks: w.agent.locks}
}

func (w *workflowHolds) configure(_ *host, options *worker.Options) error {
	options.Interceptors = append(slices.Clip(options.Interceptors), w.interceptor())
	return nil
}

func (w *workflowHolds) replay(options *worker.WorkflowReplayerOptions) {
	options.Interceptors = append(slices.Clip(options.Interceptors), w.interceptor())
}

func (w *workflowHolds) start(_ context.Context, h *host, registry activityRegistry) error {
	w.agent.admit(h.key)
	activities := &holder{agent: w.agent, worker: h.key, inTest: func() bool { return !h.isReal() }}
	for name, f := range map[string]any{HolderActivity: activities.Hold, ReleaseActivity: activities.Release} {
		registry.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name, DisableAlreadyRegisteredCheck: true})
	}
	return nil
}

func (w *workflowHolds) drain(ctx context.Context, h *host) { w.agent.drain(ctx, h.key) }

var (
	_ component = (*workflowHolds)(nil)
	_ replayed  = (*workflowHolds)(nil)
	_ heldLock  = (*lockguard.Hold)(nil)
)
