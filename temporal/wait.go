package temporal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdk "go.temporal.io/sdk/temporal"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// requestTimeout bounds a request that has to be made when the time is over.
const requestTimeout = 2 * time.Second

// A closing is the end of a workflow, with its result if it has completed.
type closing struct {
	result converter.RawValue
	err    error
}

// A waiting sees a workflow to its end.
type waiting struct {
	*attempt
	closed  chan closing
	lasting context.Context // that of its requests: ends with the waiting

	cause    error       // why it was cancelled, first reason
	asked    chan error  // gets the answer to the request to cancel
	end      time.Time   // of its grace; zero: no end is set
	endTimer *time.Timer // nil: no end is set
}

// wait returns when the workflow is closed, or need not be waited for.
func (a *attempt) wait() error {
	follow, stop := context.WithCancel(context.WithoutCancel(a.ctx))
	defer stop()
	w := &waiting{attempt: a, closed: make(chan closing, 1), lasting: follow}
	go func() { w.closed <- a.follow(follow) }()

	how, closed := w.supervise()
	if w.endTimer != nil {
		w.endTimer.Stop()
	}
	a.tell(how.result) // here, as follow may outlive the work and its output
	if w.cause == nil {
		return a.outcome(how.err)
	}
	stopped := &StoppedError{Cause: w.cause, Closed: closed, Err: how.err, ID: a.id, RunID: a.first, Workflow: a.Workflow}
	if !closed {
		w.giveUp(stopped)
	}
	return stopped
}

// supervise returns how the workflow was closed, or that it was not in time.
func (w *waiting) supervise() (how closing, closed bool) {
	s := w.signals
	work, hold, lost, atRisk := s.Work.Done(), s.Hold.Done(), s.Lost, s.AtRisk
	for {
		var end <-chan time.Time
		if w.endTimer != nil {
			end = w.endTimer.C
		}
		select {
		case how = <-w.closed:
			return how, true
		case <-work:
			work = nil
			w.askToGo(context.Cause(s.Work))
		case <-hold:
			hold = nil
			w.askToGo(context.Cause(s.Hold))
		case <-lost:
			lost = nil
			w.askToGo(s.LossCause())
		case <-atRisk:
			atRisk = nil
			w.askToGo(lockguard.ErrAtRisk)
		case <-end:
			return closing{}, false
		}
	}
}

// askToGo has the workflow cancelled, with the grace that goes with cause: the
// earliest of several.
func (w *waiting) askToGo(cause error) {
	end := w.signals.GraceEnd(cause, cmp.Or(w.CancelTimeout, DefaultCancelTimeout))
	if own := time.Now().Add(w.CancelTimeout); w.CancelTimeout > 0 && own.Before(end) {
		end = own
	}
	if w.Terminate {
		end = end.Add(-min(requestTimeout, max(0, time.Until(end)/4))) // it takes time, too
	}
	if w.cause == nil {
		w.cause = cause
		w.logger().Info("cancelling workflow", "workflow_id", w.id, "cause", cause, "grace", time.Until(end))
	}
	if w.asked == nil && (!w.Terminate || time.Now().Before(end)) {
		w.asked = make(chan error, 1)
		go func() {
			ctx, done := context.WithDeadline(w.lasting, later(end, time.Now().Add(requestTimeout)))
			defer done()
			w.asked <- w.cancel(ctx, cause)
		}()
	}
	if !w.end.IsZero() && !end.Before(w.end) {
		return
	}
	if w.endTimer != nil {
		w.endTimer.Stop()
	}
	w.end, w.endTimer = end, time.NewTimer(time.Until(end))
}

// giveUp leaves a workflow that has not closed in time, or ends it.
func (w *waiting) giveUp(stopped *StoppedError) {
	ctx, done := w.moment()
	defer done()
	if w.Terminate {
		stopped.Err = w.terminate(ctx, w.cause)
		stopped.Terminated = stopped.Err == nil
		w.logger().Warn("workflow is terminated", "workflow_id", w.id, "error", stopped.Err)
		return
	}
	select {
	case stopped.Err = <-w.asked:
	case <-ctx.Done():
		stopped.Err = errors.New("the request to cancel it was not answered")
	}
	w.logger().Warn("workflow goes on without its lock", "workflow_id", w.id, "error", stopped.Err)
}

// follow returns how the workflow was closed. That the server does not answer
// is no end of a workflow.
func (a *attempt) follow(ctx context.Context) closing {
	pause := backoff.NewExponentialBackOff()
	pause.MaxInterval = 30 * time.Second
	for {
		var result converter.RawValue
		err := a.execution.Get(ctx, &result)
		if err == nil {
			return closing{result: result}
		}
		if closedWith(err) || ctx.Err() != nil {
			return closing{err: err}
		}
		wait := pause.NextBackOff()
		a.logger().Warn("how the workflow goes on cannot be seen", "workflow_id", a.id, "error", err, "again_in", wait)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		a.execution = a.Client.GetWorkflow(ctx, a.id, a.execution.GetRunID())
	}
}

// closedWith reports whether err is about the workflow, and not about a server
// that is away.
func closedWith(err error) bool {
	var (
		execution *sdk.WorkflowExecutionError
		gone      *serviceerror.NotFound
		denied    *serviceerror.PermissionDenied
		invalid   *serviceerror.InvalidArgument
		namespace *serviceerror.NamespaceNotFound
	)
	return errors.As(err, &execution) || errors.As(err, &gone) || errors.As(err, &denied) ||
		errors.As(err, &invalid) || errors.As(err, &namespace)
}

// tell writes the result of the workflow as output.
func (a *attempt) tell(result converter.RawValue) {
	payload := result.Payload()
	if a.run.Stdout == nil || payload == nil {
		return
	}
	encoding := string(payload.GetMetadata()[converter.MetadataEncoding])
	switch {
	case encoding == converter.MetadataEncodingNil:
	case strings.HasPrefix(encoding, "json/"):
		_, _ = fmt.Fprintf(a.run.Stdout, "%s\n", payload.GetData())
	default:
		_, _ = fmt.Fprintf(a.run.Stdout, "its result has %d bytes of %s\n", len(payload.GetData()), encoding)
	}
}

func (a *attempt) outcome(err error) error {
	if err == nil {
		return nil
	}
	return &WorkflowError{Err: reason(err), ID: a.id, RunID: a.execution.GetRunID(), Workflow: a.Workflow}
}

// reason leaves out of err what a WorkflowError says itself.
func reason(err error) error {
	if e, ok := errors.AsType[*sdk.WorkflowExecutionError](err); ok && e.Unwrap() != nil {
		return e.Unwrap()
	}
	return err
}

// cancel cancels the workflow. One that is not there has ended.
func (a *attempt) cancel(ctx context.Context, cause error) error {
	return unlessGone(a.Client.CancelWorkflowWithOptions(ctx, client.CancelWorkflowOptions{
		WorkflowID: a.id, FirstExecutionRunID: a.first, Reason: cause.Error(),
	}))
}

func (a *attempt) terminate(ctx context.Context, cause error) error {
	return unlessGone(a.Client.TerminateWorkflowWithOptions(ctx, client.TerminateWorkflowOptions{
		WorkflowID: a.id, FirstExecutionRunID: a.first, Reason: cause.Error(),
	}))
}

func unlessGone(err error) error {
	if errors.As(err, new(*serviceerror.NotFound)) {
		return nil
	}
	return err
}

// moment is a context for a request that has to be made although the time is
// over.
func (a *attempt) moment() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(a.ctx), requestTimeout)
}

func (a *attempt) logger() *slog.Logger {
	if a.run.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return a.run.Logger
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
