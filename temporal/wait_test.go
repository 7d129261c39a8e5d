package temporal

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
)

// waitingFor is work that waits for a workflow.
type waitingFor struct {
	server   *fakeServer
	hold     *fakeHold
	workflow *fakeWorkflow
	output   *jobs.Tail
	cancel   context.CancelCauseFunc
	ended    chan error
	began    time.Time
}

// begin starts work and its workflow, inside of a synctest bubble.
func begin(t *testing.T, change ...func(*StartWorkflow, *fakeServer)) *waitingFor {
	t.Helper()
	w := &waitingFor{server: newFakeServer(), hold: newFakeHold(t), output: jobs.NewTail(0), ended: make(chan error, 1)}
	work := waits(w.server)
	for _, change := range change {
		change(work, w.server)
	}
	var ctx context.Context
	ctx, w.cancel = context.WithCancelCause(w.hold.ctx)
	run := tick
	run.Stdout = w.output
	go func() { w.ended <- work.run(ctx, run, w.hold) }()
	w.workflow = <-w.server.started
	synctest.Wait()
	w.began = time.Now()
	t.Cleanup(func() {
		w.cancel(nil)
		w.workflow.close(nil, nil)
		synctest.Wait()
	})
	return w
}

// stopped waits for the end of cancelled work.
func (w *waitingFor) stopped(t *testing.T) (_ *StoppedError, after time.Duration) {
	t.Helper()
	err := <-w.ended
	var stopped *StoppedError
	require.ErrorAs(t, err, &stopped)
	require.ErrorIs(t, err, lockguard.ErrStopped)
	return stopped, time.Since(w.began)
}

func TestWorkThatIsToldToGoCancelsItsWorkflowAndWaitsForItsClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given a workflow that takes a second to go
		w := begin(t)
		go func() {
			<-w.server.cancelled
			time.Sleep(time.Second)
			w.workflow.close(nil, canceled)
		}()

		// when the context of the work ends
		w.cancel(errOver)

		// then the workflow is, and is waited for
		stopped, after := w.stopped(t)
		require.Equal(t, time.Second, after)
		require.Equal(t, []client.CancelWorkflowOptions{{WorkflowID: tickID, FirstExecutionRunID: tickID + "/1", Reason: "over"}}, w.server.cancels)
		require.True(t, stopped.Closed)
		require.ErrorIs(t, stopped, errOver)
		require.EqualError(t, stopped, "workflow Rebalance (id "+tickID+") was stopped: over; it was closed: canceled")
		require.Empty(t, w.server.terminates)
	})
}

func TestWorkflowThatCompletesAfterAllWasStoppedAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t)
		w.cancel(errOver)
		<-w.server.cancelled
		w.workflow.close("result", nil)
		stopped, _ := w.stopped(t)
		require.EqualError(t, stopped, "workflow Rebalance (id "+tickID+") was stopped: over; it has completed")
		require.Contains(t, w.output.String(), "\"result\"\n")
	})
}

func TestWorkflowThatCompletesAfterItWasGivenUpWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, func(_ *StartWorkflow, s *fakeServer) { s.late = true })
		w.cancel(&lockguard.PreemptedError{})
		stopped, _ := w.stopped(t)
		require.False(t, stopped.Closed)
		w.workflow.close("result", nil)
		synctest.Wait()
		require.NotContains(t, w.output.String(), "result", "what the work writes to is no longer its own")
	})
}

func TestWorkflowThatDoesNotGoHasItsTime(t *testing.T) {
	preempted := func(grace time.Duration) error {
		return &lockguard.PreemptedError{Grace: grace, Deadline: time.Now().Add(grace)}
	}
	expired := func(grace time.Duration) error {
		return &lockguard.LeaseExpiredError{Grace: grace, Deadline: time.Now().Add(grace)}
	}
	timeout := func(time.Duration) error { return &jobs.TimeoutError{Job: "nightly", Timeout: time.Hour} }
	for name, c := range map[string]struct {
		cause     func(time.Duration) error
		grace     time.Duration
		timeout   time.Duration
		terminate bool
		want      time.Duration
	}{
		"a timeout":                              {timeout, 0, 0, false, DefaultCancelTimeout},
		"a timeout, with a time to cancel":       {timeout, 0, time.Minute, false, time.Minute},
		"a preemption":                           {preempted, time.Minute, 0, false, time.Minute},
		"a preemption, with less to cancel":      {preempted, time.Minute, 20 * time.Second, false, 20 * time.Second},
		"a preemption, with more to cancel":      {preempted, time.Minute, time.Hour, false, time.Minute},
		"a preemption without a grace":           {preempted, 0, 0, false, 0},
		"a lease":                                {expired, time.Minute, 0, false, time.Minute},
		"a preemption, to be terminated":         {preempted, time.Minute, 0, true, time.Minute - requestTimeout},
		"a short preemption, to be terminated":   {preempted, 4 * time.Second, 0, true, 3 * time.Second},
		"a preemption at once, to be terminated": {preempted, 0, 0, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := begin(t, func(w *StartWorkflow, _ *fakeServer) { w.CancelTimeout, w.Terminate = c.timeout, c.terminate })
				cause := c.cause(c.grace)
				w.cancel(cause)
				stopped, after := w.stopped(t)
				require.Equal(t, c.want, after)
				require.False(t, stopped.Closed)
				require.Equal(t, c.terminate, stopped.Terminated)
				require.ErrorIs(t, stopped, cause)
				if c.want > 0 {
					require.Len(t, w.server.cancels, 1)
				}
				if c.terminate {
					require.Equal(t, []client.TerminateWorkflowOptions{{WorkflowID: tickID, FirstExecutionRunID: tickID + "/1", Reason: cause.Error()}}, w.server.terminates)
					require.ErrorContains(t, stopped, "; it had to be terminated")
					return
				}
				require.ErrorContains(t, stopped, "; its cancellation was requested, and it may go on")
			})
		})
	}
}

func TestPreemptionDuringTheTimeAfterATimeoutShortensIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, func(w *StartWorkflow, _ *fakeServer) { w.CancelTimeout = time.Hour })
		w.cancel(errOver)
		time.Sleep(time.Second)
		w.hold.end(&lockguard.PreemptedError{Grace: time.Second, Deadline: time.Now().Add(time.Second)})
		stopped, after := w.stopped(t)
		require.Equal(t, 2*time.Second, after)
		require.Equal(t, errOver, stopped.Cause)
	})
}

func TestLostLockIsNoTimeToWait(t *testing.T) {
	lost := &lockguard.LostError{Scope: "cluster/orders", Reason: "session"}
	for name, c := range map[string]struct {
		lose      func(w *waitingFor)
		terminate bool
		after     time.Duration
	}{
		"at once":              {func(w *waitingFor) { w.hold.end(lost); close(w.hold.lost) }, false, 0},
		"and terminates":       {func(w *waitingFor) { w.hold.end(lost); close(w.hold.lost) }, true, 0},
		"told by the lock":     {func(w *waitingFor) { close(w.hold.lost) }, false, 0},
		"in the middle of it":  {func(w *waitingFor) { w.cancel(errOver); time.Sleep(time.Second); close(w.hold.lost) }, true, time.Second},
		"after it was at risk": {func(w *waitingFor) { close(w.hold.atRisk); time.Sleep(time.Second); close(w.hold.lost) }, true, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := begin(t, func(w *StartWorkflow, _ *fakeServer) { w.Terminate = c.terminate })
				c.lose(w)
				stopped, after := w.stopped(t)
				require.Equal(t, c.after, after)
				require.Equal(t, c.terminate, len(w.server.terminates) == 1)
				require.Equal(t, c.terminate, stopped.Terminated)
			})
		})
	}
}

func TestServerThatDoesNotAnswerDoesNotDelayTheEndAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, func(_ *StartWorkflow, s *fakeServer) { s.silent = true })
		close(w.hold.lost)
		stopped, after := w.stopped(t)
		require.LessOrEqual(t, after, requestTimeout)
		require.ErrorContains(t, stopped, "; it may go on: ")
	})
}

func TestWorkflowOfACleanupHasWhatIsLeftOfTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given a cleanup hook, whose hold has ended
		server, h := newFakeServer(), newFakeHold(t)
		h.end(&lockguard.PreemptedError{})
		ctx, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		run := tick
		run.Cause = &lockguard.PreemptedError{}
		began := time.Now()

		// when its workflow is not closed at the end of the grace
		err := waits(server).run(ctx, run, h)

		// then it is not waited for any longer
		var stopped *StoppedError
		require.ErrorAs(t, err, &stopped)
		require.Equal(t, time.Minute, time.Since(began))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Len(t, server.cancels, 1)
	})
}

func TestWorkThatIsToldToGoWhileItStartsItsWorkflowCancelsItByName(t *testing.T) {
	for name, wait := range map[string]bool{"with wait": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			server := &slowServer{fakeServer: newFakeServer(), began: make(chan struct{})}
			w := &StartWorkflow{Client: server, TaskQueue: "orders", Workflow: "Rebalance", Wait: wait}
			ended := make(chan error, 1)
			go func() { ended <- w.Run(ctx, tick) }()
			<-server.began
			cancel(errOver)
			err := <-ended
			require.EqualError(t, err, "workflow Rebalance (id "+tickID+") was stopped: over")
			require.ErrorIs(t, err, lockguard.ErrStopped)
			if !wait {
				require.Empty(t, server.cancels)
				return
			}
			require.Equal(t, []client.CancelWorkflowOptions{{WorkflowID: tickID, Reason: "over"}}, server.cancels)
		})
	}
}

// slowServer does not answer a start.
type slowServer struct {
	*fakeServer
	began chan struct{}
}

func (s *slowServer) ExecuteWorkflow(ctx context.Context, _ client.StartWorkflowOptions, _ any, _ ...any) (client.WorkflowRun, error) {
	close(s.began)
	<-ctx.Done()
	return nil, errors.New("no answer")
}
