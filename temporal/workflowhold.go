package temporal

import (
	"errors"
	"fmt"
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
	if err := h.hold.keep(ctx); err != nil {
		return err
	}
	return workflow.NewContinueAsNewError(ctx, wfn, args...)
}

type holdPhase uint8

const (
	holdWaiting holdPhase = iota // for the grant
	holdGranted
	holdLost // and asked for anew, if that is wanted
	holdOver // its keeper has ended, or is told to
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
	failure     error         // how the keeper has failed
	stop        func()        // what is running under the lock; nil: nothing is
}

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
	}
}

// begin starts the keeper.
func (h *workflowHold) begin() {
	input := holderInput{Name: h.name, Requirement: h.requirement, Again: h.options.again, MaxHold: h.options.maxHold}
	if kept, ok := keptFor(h.ctx, h.requirement.Scope); ok {
		input.Adopt, h.adopting = &kept, kept
	}
	ctx, dismiss := workflow.WithCancel(ours(h.detached))
	options := workflow.ActivityOptions{
		TaskQueue:           h.options.taskQueue,
		StartToCloseTimeout: keeperAttempt,
		HeartbeatTimeout:    h.options.heartbeat,
		RetryPolicy:         &sdk.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 1},
		Summary:             h.requirement.Scope,
	}
	if limit := h.requirement.AcquireTimeout; limit != nil {
		options.ScheduleToStartTimeout = *limit + h.options.heartbeat // for when there is no worker
	}
	h.dismiss = dismiss
	h.keeper = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), HolderActivity, input)
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
	i := h.interruption(err)
	switch {
	case i == nil && h.options.releaseOnClose:
		h.releaseWhenAsked()
		return err, false
	case i == nil || err == nil && i.Held():
		h.release(h.detached)
		return err, false
	case h.options.hook != nil:
		err = h.putRight(*i, err)
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

// interruption says what has interrupted body, which returned err; nil: nothing.
func (h *workflowHold) interruption(err error) *interruption {
	if h.interrupted != nil {
		return h.interrupted
	}
	if i, ok := interruptionOf(err); ok && i.Hold == h.reference.Hold && i.Token == h.reference.Token {
		h.interrupt(i) // an activity was faster than the keeper
		return h.interrupted
	}
	if h.ctx.Err() != nil {
		return &interruption{Hold: h.reference.Hold, Preemption: Preemption{
			Reason: PreemptionCanceled, Scope: h.requirement.Scope, Token: h.reference.Token,
			Grace: h.requirement.CleanupTimeout, Deadline: workflow.Now(h.ctx).Add(h.requirement.CleanupTimeout),
			Message: fmt.Sprintf("workflow was cancelled under the lock %q", h.requirement.Scope),
		}}
	}
	return nil
}

// putRight runs the hook after body has returned err.
func (h *workflowHold) putRight(i interruption, err error) error {
	var problem error
	if i.Held() && h.phase == holdGranted {
		ctx, done := h.enter(scoped{hold: h, cleanup: true, deadline: i.Deadline}, h.detached)
		problem = h.options.hook(ctx, i.Preemption)
		done()
	} else {
		problem = h.options.hook(h.detached, i.Preemption) // out of scope
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
	h.stop = cancel
	if h.interrupted != nil && !s.cleanup || h.phase != holdGranted {
		cancel()
	}
	return ctx, func() { h.stop = nil }
}

// watch hears what becomes of the hold while something runs under it.
func (h *workflowHold) watch() (stop func()) {
	over, settle := workflow.NewFuture(h.detached)
	workflow.Go(h.detached, func(ctx workflow.Context) {
		for done := false; !done; {
			s := h.selector(ctx)
			s.AddFuture(over, func(workflow.Future) { done = true })
			s.Select(ctx)
		}
	})
	return func() { settle.Set(nil, nil) }
}

// selector waits for news of the keeper, in the coroutine of ctx.
func (h *workflowHold) selector(ctx workflow.Context) workflow.Selector {
	s := workflow.NewSelector(ctx)
	s.AddReceive(h.signals, func(c workflow.ReceiveChannel, _ bool) {
		var news holdSignal
		c.Receive(ctx, &news)
		h.hear(news)
	})
	if h.phase != holdOver {
		s.AddFuture(h.keeper, func(f workflow.Future) { h.ended(f.Get(ctx, nil)) })
	}
	return s
}

// hearAll hears what has come already.
func (h *workflowHold) hearAll(ctx workflow.Context) {
	var news holdSignal
	for h.signals.ReceiveAsync(&news) {
		h.hear(news)
		news = holdSignal{}
	}
	if h.phase != holdOver && h.keeper.IsReady() {
		h.ended(h.keeper.Get(ctx, nil))
	}
}

// hear is told by the keeper. What is old, or told twice, does not count.
func (h *workflowHold) hear(news holdSignal) {
	known, token := h.reference.Token, news.Reference.Token
	if h.phase == holdOver || token < known || token == known && news.Epoch <= h.epoch {
		return
	}
	h.epoch = news.Epoch
	if token > known && h.phase == holdGranted {
		// After a reset the keeper begins anew: the hold that is in the history
		// has ended with the old run.
		h.lose(lostBecause(h.reference, "the workflow was reset"))
	}
	switch news.State {
	case stateGranted, stateRegranted:
		h.reference, h.continued = news.Reference, news.Continued
		h.phase = holdGranted
	case statePreempting:
		h.reference = news.Reference
		h.phase = holdGranted
		if news.Interruption != nil {
			h.interrupt(*news.Interruption)
		}
	case stateLost:
		if news.Interruption != nil {
			h.lose(*news.Interruption)
		}
	}
}

// interrupt stops what runs under the lock.
func (h *workflowHold) interrupt(i interruption) {
	if !i.Held() {
		h.lose(i)
		return
	}
	i.Deadline = workflow.Now(h.detached).Add(i.Grace)
	switch {
	case h.interrupted == nil:
		h.interrupted = &i
		h.halt()
	case !h.interrupted.Held() && h.phase == holdGranted:
		h.next = &i
	}
}

// lose stops what runs under the lock, cleanup too.
func (h *workflowHold) lose(i interruption) {
	h.phase = holdLost
	h.interrupted, h.next = &i, nil
	h.halt()
}

func (h *workflowHold) halt() {
	if h.stop != nil {
		h.stop()
	}
}

// ended hears that there is no keeper any more.
func (h *workflowHold) ended(err error) {
	before := h.phase
	h.phase = holdOver
	if err == nil {
		err = errors.New("its keeper has ended")
	}
	if application, ok := errors.AsType[*sdk.ApplicationError](err); ok {
		err = application // the activity is none of the caller's business
	}
	h.failure = err
	if i, ok := interruptionOf(err); ok {
		h.interrupted, h.failure = &i, nil
		h.halt()
		return
	}
	if timeout, ok := errors.AsType[*sdk.TimeoutError](err); ok && before == holdWaiting {
		h.failure = failure(ErrTypeLockWaitTimeout, fmt.Sprintf("lock %q not acquired: no worker has asked for it in time", h.requirement.Scope), timeout)
		return
	}
	if before != holdWaiting {
		i := lostBecause(h.reference, "%v", err)
		h.interrupted = &i
		h.halt()
	}
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

// keep has the lock kept for the next run.
func (h *workflowHold) keep(ctx workflow.Context) error {
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
