package temporal

import (
	"fmt"
	"slices"
	"time"

	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// A WorkflowHold is a lock that is held for a workflow, as its body sees it. It is
// for workflow code.
type WorkflowHold struct{ hold *workflowHold }

// Token returns the fencing token: it grows with every grant of the scope.
// Activities in scope find it in their own context as well.
func (h WorkflowHold) Token() lockguard.Token { return h.hold.reference.Token }

// Reference returns what others can join the hold by, see lockguard.Guard.Join.
func (h WorkflowHold) Reference() lockguard.Reference { return h.hold.reference }

// Interrupted says why the context of body was cancelled, unless that was with
// the workflow; false if the hold has not been interrupted.
func (h WorkflowHold) Interrupted() (Preemption, bool) {
	if i := h.hold.interrupted; i != nil {
		return i.Preemption, true
	}
	return Preemption{}, false
}

// Continued reports whether the lock was taken over from the run before, without
// having been free, under the same token.
func (h WorkflowHold) Continued() bool { return h.hold.continued }

// ContinueAsNew is workflow.NewContinueAsNewError, and has the lock kept for the
// next run: body has to return the error. A WithLock with the same scope takes it
// over there, with the same token, if it comes soon: within keepTime or so. If it
// does not come, the lock is given away then.
func (h WorkflowHold) ContinueAsNew(ctx workflow.Context, wfn any, args ...any) error {
	if err := h.hold.keepForNext(ctx); err != nil {
		return err
	}
	return workflow.NewContinueAsNewError(ctx, wfn, args...)
}

type holdPhase uint8

const (
	holdWaiting holdPhase = iota // for the grant
	holdGranted
	holdLost // and asked for anew, if that is wanted
	holdOver // its keeper has ended, or is about to
)

// A workflowHold is one WithLock. All of it is workflow code.
type workflowHold struct {
	ctx         workflow.Context // of the caller, and of its coroutine alone
	detached    workflow.Context // does not end with it
	requirement lockguard.Requirement
	options     lockOptions
	name        string // of its signals

	signals workflow.ReceiveChannel
	keeper  workflow.Future // of the holder activity
	dismiss workflow.CancelFunc

	phase       holdPhase
	epoch       int64 // of the last signal that counted
	reference   lockguard.Reference
	adopting    lockguard.Reference // what the run before has kept
	continued   bool
	kept        bool          // for the next run
	interrupted *interruption // nil: not
	next        *interruption // of the hold that follows a lost one
	told        bool          // of the loss, by the keeper, which asks for the lock anew
	failure     error         // how the keeper has failed
	running     []*running    // under the lock
}

// A running is a body or a hook under the lock.
type running struct{ stop workflow.CancelFunc }

func newWorkflowHold(ctx workflow.Context, requirement lockguard.Requirement, o lockOptions) *workflowHold {
	h := &workflowHold{ctx: ctx, requirement: requirement, options: o}
	h.detached, _ = workflow.NewDisconnectedContext(ctx)
	// Seeded by the run: after a reset to before this, signals of the old run do
	// not count.
	h.name = fmt.Sprintf("%016x", workflow.GetRandomStream(ctx, "lockkeeper").Uint64())
	h.signals = workflow.GetSignalChannel(h.detached, signalPrefix+h.name)
	return h
}

// run is WithLock.
func (h *workflowHold) run(body func(ctx workflow.Context, hold WorkflowHold) error) error {
	h.begin()
	for {
		if err := h.await(); err != nil {
			h.release(h.detached)
			return err
		}
		err, again := h.under(body)
		if !again {
			return err
		}
		if h.phase == holdLost && !h.told {
			// An activity has found the lock lost, of which the keeper knows nothing: it
			// may even find it there again, and has nothing to tell then.
			h.release(h.detached)
			h = newWorkflowHold(h.ctx, h.requirement, h.options)
			h.begin()
		}
	}
}

// begin starts the keeper.
func (h *workflowHold) begin() {
	var limit time.Duration
	if l := h.requirement.AcquireTimeout; l != nil {
		limit = *l + h.options.heartbeat // for when there is no worker
	}
	if kept, ok := keptFor(h.ctx, h.requirement.Scope); ok {
		h.adopting = kept
	}
	h.keep(h.adopting, limit)
}

// keep has the lock kept by a worker that begins within limit, unless that is 0, and
// that takes over what is adopted, unless that is zero.
func (h *workflowHold) keep(adopted lockguard.Reference, limit time.Duration) {
	input := holderInput{Name: h.name, Requirement: h.requirement, Again: h.options.again, MaxHold: h.options.maxHold}
	if adopted != (lockguard.Reference{}) {
		input.Adopt = &adopted
	}
	ctx, dismiss := workflow.WithCancel(ours(h.detached))
	h.dismiss = dismiss
	h.keeper = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              h.options.taskQueue,
		ScheduleToStartTimeout: limit,
		StartToCloseTimeout:    keeperAttempt,
		HeartbeatTimeout:       h.options.heartbeat,
		RetryPolicy:            &sdk.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 1},
		Summary:                h.requirement.Scope,
	}), HolderActivity, input)
}

// await returns when the lock is held.
func (h *workflowHold) await() error {
	canceled := false
	for h.phase == holdWaiting || h.phase == holdLost {
		if canceled {
			return h.ctx.Err()
		}
		s := h.selector(h.detached)
		s.AddReceive(h.ctx.Done(), func(c workflow.ReceiveChannel, _ bool) { canceled = true })
		s.Select(h.detached)
	}
	h.hearAll(h.detached)
	switch {
	case h.phase == holdOver && h.interrupted != nil:
		return h.interrupted.error(h.failure, false)
	case h.phase == holdOver:
		return h.failure
	case h.interrupted != nil: // and nothing was begun
		return h.interrupted.error(nil, false)
	case h.ctx.Err() != nil:
		return h.ctx.Err()
	}
	return nil
}

// under runs body under the lock, and what follows from it. When again, the lock
// is asked for anew.
func (h *workflowHold) under(body func(ctx workflow.Context, hold WorkflowHold) error) (err error, again bool) { //nolint:revive // again is no error
	watched := h.watch()
	defer watched()

	ctx, done := h.enter(scoped{hold: h}, h.ctx)
	err = body(ctx, WorkflowHold{h})
	done()
	h.hearAll(h.detached)

	if workflow.IsContinueAsNewError(err) {
		if !h.kept {
			h.release(h.detached)
		}
		return err, false
	}
	i := h.interruption(h.ctx, h.requirement, err)
	switch {
	case i == nil && h.options.releaseOnClose:
		h.releaseWhenAsked()
		return err, false
	case i == nil || err == nil && i.Held():
		h.release(h.detached)
		return err, false
	case h.options.hook != nil:
		err = h.putRight(h.detached, h.options.hook, *i, err)
	}
	if !i.Held() && h.options.again && h.phase != holdOver && h.ctx.Err() == nil {
		h.interrupted, h.next = h.next, nil
		return nil, true
	}
	h.release(h.detached)
	if i.Reason == PreemptionCanceled {
		return err, false
	}
	return i.error(err, false), false
}

// interruption says what has interrupted body, which was given ctx and has returned
// err; nil: nothing. The requirement is that of body.
func (h *workflowHold) interruption(ctx workflow.Context, requirement lockguard.Requirement, err error) *interruption {
	if h.interrupted == nil {
		h.learn(err) // an activity was faster than the keeper
	}
	if h.interrupted != nil {
		return h.interrupted
	}
	if ctx.Err() == nil {
		return nil
	}
	i := &interruption{Hold: h.reference.Hold, Preemption: Preemption{
		Reason: PreemptionCanceled, Scope: requirement.Scope, Token: h.reference.Token,
		Grace: requirement.CleanupTimeout, Deadline: workflow.Now(ctx).Add(requirement.CleanupTimeout),
		Message: fmt.Sprintf("workflow was cancelled under the lock %q", requirement.Scope),
	}}
	for _, outer := range scopesOf(ctx) {
		if o := outer.hold.interrupted; o != nil {
			i.Message = fmt.Sprintf("what ran under the lock %q was cancelled: %s", requirement.Scope, o.Message)
			if o.Held() && o.Deadline.Before(i.Deadline) {
				i.Deadline = o.Deadline
				i.Grace = max(0, o.Deadline.Sub(workflow.Now(ctx)))
			}
		}
	}
	return i
}

// learn gets the error of an activity in scope, or of what was in scope of it: it
// may contain what the keeper has not sent yet.
func (h *workflowHold) learn(err error) {
	if i, ok := interruptionOf(err); ok && h.phase == holdGranted && i.Hold == h.reference.Hold &&
		i.Token == h.reference.Token {
		h.interrupt(i)
	}
}

// putRight runs the hook after what was given a context has returned err. The
// detached one is like that, and does not end.
func (h *workflowHold) putRight(
	detached workflow.Context, hook func(ctx workflow.Context, p Preemption) error, i interruption, err error,
) error {
	detached = withoutLost(detached)
	var problem error
	if i.Held() && h.phase == holdGranted {
		ctx, done := h.enter(scoped{hold: h, cleanup: true, deadline: i.Deadline}, detached)
		problem = hook(ctx, i.Preemption)
		done()
	} else {
		problem = hook(detached, i.Preemption) // out of scope
	}
	h.hearAll(h.detached)
	switch {
	case problem == nil:
		return err
	case err == nil:
		return fmt.Errorf("cleanup: %w", problem)
	}
	return fmt.Errorf("%w; cleanup: %w", err, problem)
}

// enter returns a context in scope that is cancelled when the hold is interrupted,
// or when it is lost if that has happened.
func (h *workflowHold) enter(s scoped, parent workflow.Context) (ctx workflow.Context, done func()) {
	ctx, cancel := workflow.WithCancel(s.within(parent))
	r := &running{cancel}
	h.running = append(h.running, r)
	if h.interrupted != nil && !s.cleanup || h.phase != holdGranted {
		cancel()
	}
	return ctx, func() { h.running = slices.DeleteFunc(h.running, func(other *running) bool { return other == r }) }
}

// releaseWhenAsked leaves the lock to the end of the workflow, unless somebody
// asks for it before.
func (h *workflowHold) releaseWhenAsked() {
	workflow.Go(h.detached, func(ctx workflow.Context) {
		for h.interrupted == nil && h.phase == holdGranted {
			h.selector(ctx).Select(ctx)
		}
		h.release(ctx)
	})
}

// release gives the lock away, and ends the keeper. The local activity is what
// makes it fast: the keeper hears of its end at its next heartbeat only.
func (h *workflowHold) release(ctx workflow.Context) {
	if h.phase == holdOver {
		return
	}
	_ = h.ask(ctx, releaseInput{}, nil) // the keeper does it otherwise
	h.phase = holdOver
	h.dismiss()
}

// keepForNext has the lock kept for the next run.
func (h *workflowHold) keepForNext(ctx workflow.Context) error {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	h.hearAll(ctx)
	if h.interrupted != nil {
		return h.interrupted.error(nil, false)
	}
	if h.phase != holdGranted {
		return lostBecause(h.reference, "the hold is over").error(nil, false)
	}
	var kept lockguard.Reference
	if err := h.ask(ctx, releaseInput{Keep: keepTime}, &kept); err != nil {
		return fmt.Errorf("lock %q cannot be kept for the next run: %w", h.requirement.Scope, err)
	}
	h.reference, h.kept = kept, true
	return nil
}

// ask has something done with the lock, by this worker if that can be.
func (h *workflowHold) ask(ctx workflow.Context, in releaseInput, result any) error {
	in.Name, in.Requirement, in.Reference = h.name, h.requirement, h.reference
	if h.reference.Hold == "" {
		in.Reference = h.adopting
	}
	ctx = workflow.WithLocalActivityOptions(ours(ctx), workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: releaseTimeout,
		RetryPolicy:            &sdk.RetryPolicy{MaximumAttempts: 1},
	})
	return workflow.ExecuteLocalActivity(ctx, ReleaseActivity, in).Get(ctx, result)
}

// ours returns a context for activities that are none of the workflow's: what it
// wants for its own does not concern them.
func ours(ctx workflow.Context) workflow.Context {
	return workflow.WithValue(ctx, callLockKey{}, (*Lock)(nil))
}
