package temporal

import (
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdk "go.temporal.io/sdk/temporal"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
)

// tick is a run that a schedule has started.
var tick = jobs.Run{Attempt: "7f3a", Job: "nightly", Scheduled: time.Date(2026, 3, 8, 9, 30, 0, 0, time.FixedZone("", 2*60*60))}

const tickID = "nightly-2026-03-08T07:30:00Z"

var errOver = errors.New("over")

func starts(server *fakeServer) *StartWorkflow {
	return &StartWorkflow{Client: server, TaskQueue: "orders", Workflow: "Rebalance"}
}

func waits(server *fakeServer) *StartWorkflow {
	w := starts(server)
	w.Wait = true
	return w
}

func TestWorkflowIsNamedByItsTickAndToldOfItsLock(t *testing.T) {
	// given a lock, and a run that a schedule has started
	server, h := newFakeServer(), newFakeHold(t)
	w := starts(server)
	w.Args, w.IDPrefix, w.Memo = []any{"all", 3}, "eu/", map[string]any{"team": "orders"}
	w.ExecutionTimeout, w.RunTimeout = time.Hour, time.Minute
	w.SearchAttributes = sdk.NewSearchAttributes(sdk.NewSearchAttributeKeyString("Team").ValueSet("orders"))
	output := jobs.NewTail(0)
	run := tick
	run.Stdout = output

	// when it runs
	err := w.run(h.ctx, run, h)

	// then the workflow has the name of its tick, and knows the token
	require.NoError(t, err)
	instant := tick.Scheduled.UTC()
	require.Equal(t, []client.StartWorkflowOptions{{
		ID:                       "eu/" + tickID,
		TaskQueue:                "orders",
		WorkflowExecutionTimeout: time.Hour,
		WorkflowRunTimeout:       time.Minute,
		Memo: map[string]any{"team": "orders", MemoKey: Origin{
			Job: "nightly", Run: "7f3a", Scheduled: &instant, Scope: "cluster/orders", Token: 4294967298,
			Tokens: map[string]string{"cluster/orders": "4294967298", "cluster/users": "7"}, Trace: h.Trace(),
		}},
		TypedSearchAttributes:                    w.SearchAttributes,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
	}}, server.starts)
	require.Equal(t, []any{"all", 3}, server.args)
	require.Equal(t, "workflow Rebalance is started: id eu/"+tickID+", run eu/"+tickID+"/1\n", output.String())
}

func TestWorkflowIDs(t *testing.T) {
	byHand := jobs.Run{Attempt: "7f3a", Job: "nightly"}
	cleanup := tick
	cleanup.Cause = errOver
	for name, c := range map[string]struct {
		run  jobs.Run
		lock bool
		want string
	}{
		"of a tick":                   {tick, true, tickID},
		"of a run by hand":            {byHand, true, "nightly-7f3a"},
		"of a cleanup":                {cleanup, true, tickID + "-cleanup-4294967298"},
		"of a cleanup without a lock": {cleanup, false, tickID + "-cleanup"},
	} {
		t.Run(name, func(t *testing.T) {
			server, h := newFakeServer(), newFakeHold(t)
			var lock lockguard.WorkHold
			if c.lock {
				lock = h
			}
			require.NoError(t, starts(server).run(h.ctx, c.run, lock))
			require.Equal(t, c.want, server.starts[0].ID)
		})
	}
	require.ErrorContains(t, starts(newFakeServer()).Run(t.Context(), jobs.Run{}), "has neither an instant nor an attempt")
}

func TestSecondStartOfATickIsNoSecondRunAndSaysSo(t *testing.T) {
	for name, lose := range map[string]bool{"after a start": false, "after a lost reply": true} {
		t.Run(name, func(t *testing.T) {
			// given a tick whose workflow has been started
			server := newFakeServer()
			server.loseNext = lose
			err := starts(server).Run(t.Context(), tick)
			require.Equal(t, lose, errors.As(err, new(*StartError)), "%v", err)

			// when it is started again
			output := jobs.NewTail(0)
			run := tick
			run.Stdout = output
			require.NoError(t, starts(server).Run(t.Context(), run))

			// then it is the same one
			require.Len(t, server.workflows, 1)
			require.Equal(t, "workflow Rebalance had been started already: id "+tickID+", run "+tickID+"/1\n", output.String())
		})
	}
}

func TestAttemptThatWaitsTakesWhatHasCompletedAndReplacesWhatHasFailed(t *testing.T) {
	for name, c := range map[string]struct {
		closed error
		starts int
	}{
		"completed": {nil, 0},
		"failed":    {errors.New("boom"), 1},
		"cancelled": {canceled, 1},
	} {
		t.Run(name, func(t *testing.T) {
			server := newFakeServer()
			require.NoError(t, starts(server).Run(t.Context(), tick))
			(<-server.started).close("result", c.closed)
			ended := make(chan error, 1)
			go func() { ended <- waits(server).Run(t.Context(), tick) }()
			if c.starts > 0 {
				(<-server.started).close("result", nil)
			}
			require.NoError(t, <-ended)
		})
	}
}

func TestWorkThatWaitsEndsAsItsWorkflowDoes(t *testing.T) {
	failure := sdk.NewApplicationError("disk full", "DiskFull")
	for name, c := range map[string]struct {
		result any
		err    error
		says   string // as output, or as error
	}{
		"with nothing":        {nil, nil, ""},
		"with a result":       {map[string]any{"moved": 3}, nil, "{\"moved\":3}\n"},
		"with nil":            {(*int)(nil), nil, ""},
		"with bytes":          {[]byte("abc"), nil, "its result has 3 bytes of binary/plain\n"},
		"with a failure":      {nil, failure, "workflow Rebalance (id " + tickID + ", run " + tickID + "/1) did not complete: disk full (type: DiskFull, retryable: true)"},
		"with a cancellation": {nil, canceled, "did not complete: canceled"},
		"without a trace":     {nil, serviceerror.NewNotFound("gone"), "did not complete: gone"},
		"with odd encoding":   {&common.Payload{Metadata: map[string][]byte{"encoding": []byte("binary/encrypted")}, Data: []byte("x")}, nil, "its result has 1 bytes of binary/encrypted\n"},
	} {
		t.Run(name, func(t *testing.T) {
			server, output := newFakeServer(), jobs.NewTail(0)
			run := tick
			run.Stdout = output
			ended := make(chan error, 1)
			go func() { ended <- waits(server).Run(t.Context(), run) }()
			(<-server.started).close(c.result, c.err)
			err := <-ended
			if c.err == nil {
				require.NoError(t, err)
				_, said, _ := strings.Cut(output.String(), "\n")
				require.Equal(t, c.says, said)
				return
			}
			require.ErrorAs(t, err, new(*WorkflowError))
			require.ErrorIs(t, err, c.err)
			require.ErrorContains(t, err, c.says)
			require.NotErrorIs(t, err, lockguard.ErrStopped)
		})
	}
}

func TestServerThatIsAwayIsNoEndOfAWorkflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		server.away = 20
		ended := make(chan error, 1)
		go func() { ended <- waits(server).Run(t.Context(), tick) }()
		w := <-server.started
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Negative(t, server.away, "it was asked until it answered")
		require.Empty(t, ended)
		w.close(nil, nil)
		require.NoError(t, <-ended)
	})
}

func TestStartThatIsRefusedSaysWhatAndWhy(t *testing.T) {
	server := newFakeServer()
	server.refuse = serviceerror.NewNamespaceNotFound("orders")
	err := starts(server).Run(t.Context(), tick)
	require.ErrorAs(t, err, new(*StartError))
	require.ErrorAs(t, err, new(*serviceerror.NamespaceNotFound))
	require.EqualError(t, err, "workflow Rebalance (id "+tickID+") could not be started: "+server.refuse.Error())
}

func TestWorkflowIsNotStartedWhenItWouldBeToldToGo(t *testing.T) {
	for name, end := range map[string]func(h *fakeHold) error{
		"context over": func(h *fakeHold) error { h.end(errOver); return errOver },
		"lock lost":    func(h *fakeHold) error { close(h.lost); return &lockguard.LostError{Scope: h.info.Requirement.Scope} },
		"lock at risk": func(h *fakeHold) error { close(h.atRisk); return lockguard.ErrAtRisk },
	} {
		t.Run(name, func(t *testing.T) {
			server, h := newFakeServer(), newFakeHold(t)
			want := end(h)
			err := starts(server).run(h.ctx, tick, h)
			var stopped *StoppedError
			require.ErrorAs(t, err, &stopped)
			require.EqualError(t, stopped.Cause, want.Error())
			require.ErrorIs(t, err, lockguard.ErrStopped)
			require.Empty(t, server.starts)
		})
	}
}

func TestStartWorkflowValidateTellsAllAtOnce(t *testing.T) {
	require.NoError(t, waits(newFakeServer()).Validate())

	wrong := &StartWorkflow{
		Args: []any{1, make(chan int), math.Inf(1)}, CancelTimeout: time.Second, Terminate: true,
		ExecutionTimeout: time.Minute, RunTimeout: time.Hour, IDPrefix: strings.Repeat("x", 81),
		Memo: map[string]any{MemoKey: 1}, TaskQueue: "a\nb",
	}
	err := wrong.Validate()
	var fields []string
	for _, problem := range err.(interface{ Unwrap() []error }).Unwrap() {
		var r *lockguard.RequestError
		require.ErrorAs(t, problem, &r)
		fields = append(fields, r.Field)
	}
	require.Equal(t, []string{"temporal", "workflow", "task_queue", "id_prefix", "run_timeout", "cancel_timeout", "terminate", "args[1]", "args[2]", "memo.lockkeeper"}, fields)
	require.ErrorContains(t, err, "run_timeout (1h0m0s) is longer than execution_timeout (1m0s)")
	require.EqualError(t, wrong.Run(t.Context(), tick), err.Error())

	require.ErrorContains(t, (*StartWorkflow)(nil).Validate(), "workflow: is nil")
	w := waits(newFakeServer())
	w.CancelTimeout, w.RunTimeout, w.ExecutionTimeout = -1, -1, time.Millisecond
	require.ErrorContains(t, w.Validate(), "cancel_timeout: -1ns is negative")
	require.ErrorContains(t, w.Validate(), "run_timeout: -1ns is negative")
	require.ErrorContains(t, w.Validate(), "execution_timeout: 1ms is shorter than a second")
}

func TestOriginIsReadAsItWasWritten(t *testing.T) {
	h := newFakeHold(t)
	payload, err := converter.GetDefaultDataConverter().ToPayload(originOf(tick, h))
	require.NoError(t, err)
	require.JSONEq(t, `{"job":"nightly","run":"7f3a","scheduled":"2026-03-08T07:30:00Z","scope":"cluster/orders","token":"4294967298",
		"tokens":{"cluster/orders":"4294967298","cluster/users":"7"},"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}`, string(payload.GetData()))
	var back Origin
	require.NoError(t, converter.GetDefaultDataConverter().FromPayload(payload, &back))
	require.Equal(t, originOf(tick, h), back)
	token, ok := back.TokenOf("cluster/users")
	require.True(t, ok)
	require.EqualValues(t, 7, token)
	_, ok = back.TokenOf("cluster/others")
	require.False(t, ok)

	require.Equal(t, Origin{Job: "a", Cause: "cancelled"}, originOf(jobs.Run{Job: "a", Cause: errOver}, nil))
}
