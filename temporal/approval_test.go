package temporal_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// A hearing is one approval workflow in the SDK's environment, where time flies.
type hearing struct {
	*testsuite.TestWorkflowEnvironment
	t    *testing.T
	told []temporal.Escalation
	// escalate is what becomes of an escalation.
	escalate error
}

func newHearing(t *testing.T) *hearing {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	h := &hearing{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment(), t: t}
	h.SetTestTimeout(patience)
	h.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: patience})
	temporal.RegisterApprovals(h, func(_ context.Context, e temporal.Escalation) error {
		h.told = append(h.told, e)
		return h.escalate
	})
	h.at(0, func() { h.hear("host-1 payments") })
	return h
}

func aQuestion() temporal.ApprovalQuestion {
	return temporal.ApprovalQuestion{
		ID: "w-3f29c1d07ab41122", Scope: "cluster/orders", Job: "payments",
		Requestor:  temporal.ApprovalParty{Owner: "payments", Priority: 80},
		Holders:    []temporal.ApprovalParty{{ID: "c1", Owner: "backup", Priority: 20, Token: 42}},
		DeadlineMS: (15 * time.Minute).Milliseconds(),
	}
}

// at does something when the workflow has run that long.
func (h *hearing) at(d time.Duration, do func()) { h.RegisterDelayedCallback(do, d) }

func (h *hearing) hear(name string) {
	h.SignalWorkflow("askers", map[string]any{"name": name})
}

func (h *hearing) leave(name string, gone bool) {
	h.SignalWorkflow("askers", map[string]any{"name": name, "leave": true, "gone": gone})
}

// An update is what somebody has said, and what became of it.
type update struct {
	rejected, err error
	state         temporal.ApprovalState
}

func (h *hearing) decide(d time.Duration, name string, r temporal.ApprovalRuling) *update {
	u := &update{}
	h.at(d, func() {
		h.UpdateWorkflow(name, name+d.String(), &testsuite.TestUpdateCallback{
			OnAccept: func() {},
			OnReject: func(err error) { u.rejected = err },
			OnComplete: func(result any, err error) {
				u.err = err
				u.state, _ = result.(temporal.ApprovalState)
			},
		}, r)
	})
	return u
}

// run runs the workflow, and returns its decision and how long it took.
func (h *hearing) run(q temporal.ApprovalQuestion) (temporal.ApprovalDecision, time.Duration, error) {
	h.t.Helper()
	began := h.Now()
	h.ExecuteWorkflow(temporal.ApprovalWorkflowType, q)
	require.True(h.t, h.IsWorkflowCompleted())
	var d temporal.ApprovalDecision
	err := h.GetWorkflowError()
	if err == nil {
		require.NoError(h.t, h.GetWorkflowResult(&d))
	}
	return d, h.Now().Sub(began), err
}

func TestAQuestionIsDecidedByTheFirstUpdate(t *testing.T) {
	ana := temporal.ApprovalRuling{By: " ana ", Reason: "payments are stuck", Identity: "digest:ana"}
	for update, word := range map[string]string{
		temporal.ApproveUpdate: "approved", temporal.ForceUpdate: "forced", temporal.DenyUpdate: "denied",
	} {
		t.Run(update, func(t *testing.T) {
			h := newHearing(t)
			said := h.decide(5*time.Minute, update, ana)
			d, took, err := h.run(aQuestion())
			require.NoError(t, err)
			require.NoError(t, errors.Join(said.rejected, said.err))
			require.Equal(t, 5*time.Minute, took)
			require.Equal(t, word, d.Word())
			require.Equal(t, word != "denied", d.Approved)
			require.Equal(t, word == "forced", d.Force)
			require.Equal(t, []string{"ana", "payments are stuck", "digest:ana"}, []string{d.By, d.Reason, d.Identity})
			require.True(t, d.Person)
			require.Equal(t, 10*time.Minute, d.Until.Sub(d.At))
		})
	}
}

func TestARulingNeedsWhoAndWhy(t *testing.T) {
	for name, r := range map[string]temporal.ApprovalRuling{
		"by is missing":     {By: "  ", Reason: "because"},
		"reason is missing": {By: "ana", Reason: "\t"},
	} {
		for _, update := range []string{temporal.ApproveUpdate, temporal.ForceUpdate, temporal.DenyUpdate} {
			h := newHearing(t)
			said := h.decide(time.Minute, update, r)
			d, took, err := h.run(aQuestion())
			require.NoError(t, err)
			require.ErrorContains(t, said.rejected, name, update)
			require.Equal(t, "the deadline", d.By, "nothing was decided")
			require.Equal(t, 15*time.Minute, took)
		}
	}
}

func TestQuestionWithoutAnAnswerIsDecidedAtTheDeadline(t *testing.T) {
	h := newHearing(t)
	d, took, err := h.run(aQuestion())
	require.NoError(t, err)
	require.Equal(t, 15*time.Minute, took)
	require.False(t, d.Approved)
	require.False(t, d.Person)
	require.Equal(t, "the deadline: no decision within 15m0s", d.By+": "+d.Reason)
}

func TestWhatIsSaidAfterTheDeadlineIsLate(t *testing.T) {
	// given a deadline that is over when a worker first looks at the question
	h, q := newHearing(t), aQuestion()
	q.DeadlineMS = 0
	late := h.decide(0, temporal.ForceUpdate, temporal.ApprovalRuling{By: "ana", Reason: "payments"})
	d, _, err := h.run(q)
	require.NoError(t, err)
	require.Equal(t, "the deadline", d.By)
	require.False(t, d.Approved)
	require.ErrorContains(t, late.rejected, "deadline is over")
}

func TestAQuestionIsClosedWhenItsDecisionIsNoLongerNeeded(t *testing.T) {
	for name, c := range map[string]struct {
		leave func(h *hearing)
		took  time.Duration
		ended bool
	}{
		"the only request is given up": {func(h *hearing) { h.at(time.Minute, func() { h.leave("host-1 payments", false) }) }, time.Minute, true},
		"one of two is": {func(h *hearing) {
			h.at(0, func() { h.hear("host-2 payments") })
			h.at(time.Minute, func() { h.leave("host-1 payments", false) })
		}, 15 * time.Minute, false},
		"both are": {func(h *hearing) {
			h.at(0, func() { h.hear("host-2 payments") })
			h.at(time.Minute, func() { h.leave("host-1 payments", false) })
			h.at(2*time.Minute, func() { h.leave("host-2 payments", false) })
		}, 2 * time.Minute, true},
		"the holders have gone": {func(h *hearing) {
			h.at(0, func() { h.hear("host-2 payments") })
			h.at(time.Minute, func() { h.leave("host-1 payments", true) })
		}, time.Minute, true},
		"one asks again": {func(h *hearing) {
			h.at(time.Second, func() { h.hear("host-1 payments") })
			h.at(time.Minute, func() { h.leave("host-1 payments", false) })
		}, time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHearing(t)
			c.leave(h)
			_, took, err := h.run(aQuestion())
			require.Equal(t, c.took, took)
			if c.ended {
				var cancelled *sdk.CanceledError
				require.ErrorAs(t, err, &cancelled)
				return
			}
			require.NoError(t, err)
		})
	}
}

func TestAQuestionThatWaitsIsEscalatedStepByStep(t *testing.T) {
	for name, unreachable := range map[string]error{"reached": nil, "unreachable": errors.New("no such number")} {
		t.Run(name, func(t *testing.T) {
			q := aQuestion()
			q.Escalation = []temporal.EscalationStep{
				{AfterMS: (10 * time.Minute).Milliseconds(), To: "the boss"},
				{AfterMS: (2 * time.Minute).Milliseconds(), To: "on-call"},
				{AfterMS: (14 * time.Minute).Milliseconds(), To: "manager"},
			}
			h := newHearing(t)
			if unreachable != nil {
				h.escalate = sdk.NewNonRetryableApplicationError(unreachable.Error(), "", nil)
			}
			var between temporal.ApprovalState
			h.at(5*time.Minute, func() {
				value, err := h.QueryWorkflow(temporal.ApprovalStateQuery)
				require.NoError(t, err)
				require.NoError(t, value.Get(&between))
			})
			h.decide(12*time.Minute, temporal.ApproveUpdate, temporal.ApprovalRuling{By: "ana", Reason: "month's end"})
			d, _, err := h.run(q)
			require.NoError(t, err)
			require.Equal(t, "ana", d.By)
			require.Len(t, between.Escalated, 1)
			require.Equal(t, "on-call", between.Escalated[0].To)
			require.Equal(t, 2*time.Minute, between.Escalated[0].At.Sub(between.Opened))
			require.Equal(t, 15*time.Minute, between.Until.Sub(between.Opened))
			require.Equal(t, []string{"host-1 payments"}, between.Askers)
			require.Nil(t, between.Decision)
			var told []string
			for _, e := range h.told {
				told = append(told, e.To)
				require.Equal(t, q.ID, e.Question.ID)
			}
			require.Equal(t, []string{"on-call", "the boss"}, told)
		})
	}
}

func TestTheSameQuestionHasTheSameName(t *testing.T) {
	id := temporal.ApprovalID("/lockkeeper", "cluster/orders", "job payments", []string{"c1", "c2"})
	require.True(t, temporal.IsApprovalID(id))
	require.Equal(t, id, temporal.ApprovalID("/lockkeeper", "cluster/orders", "job payments", []string{"c2", "c1"}))
	for _, other := range []string{
		temporal.ApprovalID("/other", "cluster/orders", "job payments", []string{"c1", "c2"}),
		temporal.ApprovalID("/lockkeeper", "cluster/users", "job payments", []string{"c1", "c2"}),
		temporal.ApprovalID("/lockkeeper", "cluster/orders", "job refunds", []string{"c1", "c2"}),
		temporal.ApprovalID("/lockkeeper", "cluster/orders", "job payments", []string{"c1"}),
		temporal.ApprovalID("/lockkeeper", "cluster/orders", "job payments", []string{"c1c2"}),
	} {
		require.NotEqual(t, id, other)
	}
	for _, no := range []string{"a-0000000012", "w-", "w-3f29", "w-zzzzzzzzzzzzzzzz", "../w-3f29c1d07ab41122"} {
		require.False(t, temporal.IsApprovalID(no), no)
	}
}

// The history was recorded on a real server, and is never written anew: workflows that were
// started before a change of this package go on after it.
func TestRecordedApprovalsReplay(t *testing.T) {
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DisableDeadlockDetection: true})
	require.NoError(t, err)
	temporal.RegisterApprovalWorkflow(replayer)
	require.NoError(t, replayer.ReplayWorkflowHistoryFromJSONFile(nil, "testdata/approval.json"))
}

func TestAQuestionThatIsNotThereOutlivesItsProcess(t *testing.T) {
	approvals, err := temporal.NewApprovals(temporal.ApprovalsConfig{Client: struct{ temporal.ApprovalClient }{}})
	require.NoError(t, err)
	_, err = approvals.Find(t.Context(), "a-0000000012")
	var none *opstore.NoApprovalError
	require.ErrorAs(t, err, &none)
	require.EqualError(t, none, `there is no approval "a-0000000012", or not any more: the request has got its lock, or was given up`)
}
