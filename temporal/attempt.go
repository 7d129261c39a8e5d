package temporal

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

// safetyMargin is how long before a deadline of Temporal all has to be over, so
// that the server still hears how it ended.
const safetyMargin = time.Second

// IdempotencyKey names the execution of the activity whose context this is: it
// is the same for all its attempts, and for no other execution. "" if it is no
// context of an activity.
//
// It does not replace the fencing token: that tells an attempt which has lost
// its lock from the one that has it now.
func IdempotencyKey(ctx context.Context) string {
	if !activity.IsActivity(ctx) {
		return ""
	}
	return execution(activity.GetInfo(ctx))
}

func execution(info activity.Info) string {
	if info.IsWorkflowActivity() {
		return strings.Join(
			[]string{info.Namespace, info.WorkflowExecution.ID, info.WorkflowExecution.RunID, info.ActivityID}, "/")
	}
	return strings.Join([]string{info.Namespace, info.ActivityID, info.ActivityRunID}, "/")
}

// PriorityOf returns the priority of a lock that goes with a priority in
// Temporal, whose scale is upside down:
//
//	PriorityKey  1   2   3   4   5 and more, or unset
//	lock         40  30  20  10  0
//
// Temporal itself takes an unset key for 3. A lock takes it for its own default,
// which is the lowest: work without a key preempts no holder.
func PriorityOf(p sdk.Priority) priority.Level {
	if p.PriorityKey < 1 || p.PriorityKey >= 5 {
		return priority.Default
	}
	return priority.Level(10 * (5 - p.PriorityKey))
}

// WithoutPriorities has locks that set no priority have the lowest one, whatever
// priority their activity has in Temporal.
func WithoutPriorities() PluginOption {
	return func(p *Plugin) error {
		p.priorities = func(sdk.Priority) priority.Level { return priority.Default }
		return nil
	}
}

// locked is one attempt of an activity that needs a lock.
type locked struct {
	host         *host
	info         activity.Info
	lock         *compiled
	requirements []lockguard.Requirement
	call         call
	began        time.Time
	outer        context.Context // that of the SDK
	ctx          context.Context // likewise, but ended by cancel
	cancel       context.CancelCauseFunc
	pulse        *pulse // nil: of a local activity
	slip         slip   // of the attempt before
	client       client.Client
}

// fill completes the requirements with what is known of the execution.
func (a *locked) fill() {
	for i := range a.requirements {
		r := &a.requirements[i]
		if r.Owner == "" {
			r.Owner = limited(fmt.Sprintf("%s#%d", execution(a.info), a.info.Attempt), priority.MaxOwner)
		}
		if r.Job == "" {
			r.Job = a.info.ActivityType.Name
		}
		if r.Message == "" {
			r.Message = a.info.WorkflowExecution.ID
		}
		if r.Priority == priority.Default {
			r.Priority = a.host.plugin.priorities(a.info.Priority)
		}
	}
}

// limited keeps the end of a text, which tells more.
func limited(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[len(text)-n:], "")
}

// run runs the work under the lock.
func (a *locked) run(work func(ctx context.Context) (any, error)) (any, error) {
	defer a.host.begin(a.lock.cleanup())()
	hold, ctx, err := a.acquire()
	if err != nil {
		if a.lock.OnBusy == BusySkip && isBusy(err) {
			return a.skip()
		}
		return nil, a.refused(err)
	}
	if a.pulse != nil {
		a.pulse.take()
	}
	defer a.limit(ctx)()
	defer a.yieldAtStop()()
	released := false
	defer func() {
		if !released { // the work has panicked: the SDK tells it
			_ = hold.Release(a.ctx)
		}
	}()
	result, failed := any(nil), error(nil)
	if a.pulse != nil {
		failed = a.pulse.confirm(hold.Context())
	}
	if failed == nil {
		if a.lock.Cleanup != nil {
			if err := hold.OnCleanup(a.lock.Cleanup); err != nil {
				return nil, misdeclared(a.info.ActivityType.Name, err)
			}
		}
		result, failed = work(hold.Context())
	}
	released = true
	release := hold.Release(a.ctx)
	return a.outcome(result, failed, context.Cause(hold.Context()), release)
}

// skip is the outcome of an activity that does not wait.
func (a *locked) skip() (any, error) {
	r := a.requirements[0]
	a.host.plugin.guard.Observe(a.ctx, lockguard.Event{
		Subject: lockguard.Subject{
			Scope: r.Scope, Identity: priority.Identity{Owner: r.Owner, Message: r.Message}, Mode: r.Mode, Priority: r.Priority,
		},
		Notice: lockguard.Skipped{Job: r.Job, Instant: a.info.ScheduledTime, Reason: "its lock is busy"},
	})
	return a.lock.SkipResult, nil
}

// limit gives the work the time that it has from the grant on, and leaves some
// for the cleanup.
func (a *locked) limit(ctx *bidContext) (stop func() bool) {
	end := a.info.Deadline
	if cleanup := a.lock.cleanup(); cleanup > 0 || a.call.Run > 0 {
		end = end.Add(-cleanup - safetyMargin)
	}
	if run := a.call.Run; run > 0 {
		if at := time.Now().Add(run); at.Before(end) {
			end = at
		}
	}
	if a.info.Deadline.IsZero() || ctx == nil || !end.Before(a.info.Deadline) {
		return func() bool { return false }
	}
	ctx.deadline.Store(&end)
	return time.AfterFunc(time.Until(end), func() { ctx.end(errRunTimeout) }).Stop
}

// yieldAtStop ends the work when the worker stops, if the policy says so.
func (a *locked) yieldAtStop() (unwatch func()) {
	if a.host.plugin.stopPolicy != StopYield {
		return func() {}
	}
	done := make(chan struct{})
	stops := a.host.stops()
	go func() {
		select {
		case <-stops:
			a.cancel(worker.ErrWorkerShutdown)
		case <-done:
		}
	}()
	return func() { close(done) }
}
