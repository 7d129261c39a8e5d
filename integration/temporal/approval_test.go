package temporal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/worker"

	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// asking is the configuration of daemons whose job waits for the lock "db", and asks in workflows.
func (p *programs) asking(approvals string) string {
	return fmt.Sprintf(`version: 1
zookeeper: {session_timeout: 2m}
temporal: {address: %q, namespace: %s}
drain_timeout: 0s
approvals: %s
jobs:
  payments:
    schedule: "@every 1s"
    run: [sh, -c, 'echo paid >> paid']
    locks: [{scope: db, priority: 80, waiting_timeout: 300ms, acquire_timeout: 10m}]
`, temporals.Server(p).Addr(), p.namespace, approvals)
}

// stubborn has somebody hold the lock "db" who does not finish its cleanup until it is released, or has lost the lock.
func (p *programs) stubborn() (release func()) {
	p.Helper()
	g, err := lockguard.New(p.daemonClient(), lockguard.WithOwner("backup"))
	require.NoError(p, err)
	hold, err := g.Acquire(context.WithoutCancel(p.Context()), lockguard.Requirement{
		Scope: "db", Terms: priority.Terms{Priority: 20, LeaseTimeout: 24 * time.Hour, CleanupTimeout: time.Hour},
	})
	require.NoError(p, err)
	release = func() { _ = hold.Release(context.WithoutCancel(p.Context())) }
	p.Cleanup(release)
	return release
}

// question is what the command lists.
type question struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind"`
	Until     time.Time `json:"until"`
	Escalated []struct{ To string }
}

// asked returns the one question that the command lists.
func (p *programs) asked(file string) (q question) {
	p.Helper()
	harness.Eventually(p, func() bool {
		all := []question{}
		require.NoError(p, json.Unmarshal([]byte(p.listed("approvals", "ls", "-f", file)), &all))
		require.LessOrEqual(p, len(all), 1)
		if len(all) == 1 {
			q = all[0]
		}
		return len(all) == 1
	}, "a question is listed")
	return q
}

// decides runs the command with which ana decides.
func (p *programs) decides(code int, what, id, reason string) string {
	p.Helper()
	return p.run(code, "approvals", what, id, "-r", reason, "--zk-digest-file", "ana")
}

// statuses are those of the runs of one question.
func (p *programs) statuses(id string) (all []enums.WorkflowExecutionStatus) {
	p.Helper()
	found, err := p.temporal.ListWorkflow(p.Context(), &workflowservice.ListWorkflowExecutionsRequest{
		Query: "WorkflowId = 'lockkeeper-approval-" + id + "'",
	})
	require.NoError(p, err)
	for _, e := range found.GetExecutions() {
		all = append(all, e.GetStatus())
	}
	return all
}

// entries are what is on record of one action.
func (p *programs) entries(action opstore.AuditAction) (some []opstore.AuditRecord) {
	p.Helper()
	log, err := p.observer.AuditLog(0)
	require.NoError(p, err)
	all, _, err := log.Read(p.Context(), opstore.AuditQuery{})
	require.NoError(p, err)
	for _, r := range all {
		if r.Action == action {
			some = append(some, r)
		}
	}
	return some
}

func TestAQuestionOutlivesTheDaemonsThatAskIt(t *testing.T) {
	t.Parallel()
	// given a daemon whose request waits for a person
	p := newPrograms(t)
	p.write("lockkeeper.yaml", p.asking("{deadline: 10m, temporal: {escalation: [{after: 100ms, to: on-call}]}}"))
	p.stubborn()
	first := p.daemon()
	first.Await(t, "an approval is open", "approval=w-")
	asked := p.asked("lockkeeper.yaml")
	require.True(t, temporal.IsApprovalID(asked.ID))
	require.Equal(t, "workflow", asked.Kind)
	first.Await(t, "an approval is escalated", "to=on-call")
	harness.Eventually(t, func() bool { return len(p.entries(opstore.AuditApprovalEscalate)) == 1 }, "that is on record")
	harness.Eventually(t, func() bool { // else another daemon would put it on record again
		workflow, err := p.temporal.DescribeWorkflowExecution(t.Context(), "lockkeeper-approval-"+asked.ID, "")
		require.NoError(t, err)
		return len(workflow.GetPendingActivities()) == 0
	}, "Temporal knows it")

	// when that is killed, and another one is stopped
	require.NoError(t, first.Cmd.Process.Kill())
	first.Stop()
	second := p.daemon()
	second.Await(t, "an approval is open", "approval="+asked.ID)
	second.Stop()
	third := p.daemon()
	third.Await(t, "an approval is open", "approval="+asked.ID)

	// then it is the same question, with the same deadline
	again := p.asked("lockkeeper.yaml")
	require.Len(t, again.Escalated, 1)
	asked.Escalated = again.Escalated
	require.Equal(t, asked, again)
	require.Equal(t, []enums.WorkflowExecutionStatus{enums.WORKFLOW_EXECUTION_STATUS_RUNNING}, p.statuses(asked.ID))

	// and only an operator decides it, once
	require.Contains(t, p.run(78, "approvals", "force", asked.ID, "-r", "please"),
		"digest:daemons is none of the operators (digest:ana)")
	require.Contains(t, p.decides(78, "force", "w-0123456789abcdef", "please"), `there is no approval "w-0123456789abcdef"`)
	require.Contains(t, p.decides(0, "force", asked.ID, "payments are stuck"),
		asked.ID+": forced; payments takes lock \"db\" from backup (priority 20)")
	require.Contains(t, p.decides(1, "deny", asked.ID, "no"), "was forced already, by ana (digest:ana)")
	harness.Eventually(t, func() bool { return strings.HasPrefix(p.read("paid"), "paid\n") }, "the job has run")

	// and its history is that of the workflow as it is now
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DisableDeadlockDetection: true})
	require.NoError(t, err)
	temporal.RegisterApprovalWorkflow(replayer)
	require.NoError(t, replayer.ReplayWorkflowHistory(nil, p.history(p.temporal.GetWorkflow(t.Context(), "lockkeeper-approval-"+asked.ID, ""))))

	// and all of it is on record
	require.Equal(t, asked.ID, p.entries(opstore.AuditTakeover)[0].Approval)
	require.Len(t, p.entries(opstore.AuditApprovalOpen), 3)
	require.Len(t, p.entries(opstore.AuditApprovalEscalate), 1)
	for _, r := range p.entries(opstore.AuditApprovalDecide) {
		require.Equal(t, []string{"digest:ana", "ana", "forced"}, []string{r.Identity, r.By, r.After["decision"]},
			"who decides puts it on record")
	}
	harness.Eventually(t, func() bool { // Temporal lists a workflow for a moment after its end
		return strings.Contains(p.run(0, "approvals", "ls", "-f", "lockkeeper.yaml"), "nothing waits for a decision")
	}, "a question is left")
}

// An asker is a guard in this process that asks in workflows.
type asker struct {
	*programs
	workflows *temporal.Approvals
	guard     *lockguard.Guard
	opened    chan lockguard.Opened
}

// An auditLog is where a guard puts things on record.
type auditLog struct{ *opstore.AuditLog }

func (l auditLog) Audit(ctx context.Context, entry opstore.AuditEntry) error {
	_, err := l.Append(ctx, entry)
	return err
}

// Ask asks, and tells the test what.
func (a *asker) Ask(ctx context.Context, q lockguard.Question) (lockguard.Answer, error) {
	tell := q.Opened
	q.Opened = func(ctx context.Context, o lockguard.Opened) {
		tell(ctx, o)
		a.opened <- o
	}
	return a.workflows.Ask(ctx, q)
}

func newAsker(t *testing.T, policy emergency.Policy, trusting bool) *asker {
	t.Helper()
	a := &asker{programs: newPrograms(t), opened: make(chan lockguard.Opened, 16)}
	locks := a.daemonClient()
	log, err := locks.AuditLog(0)
	require.NoError(t, err)
	a.workflows, err = temporal.NewApprovals(temporal.ApprovalsConfig{Client: a.temporal, Root: a.Root})
	require.NoError(t, err)
	config := emergency.ApprovalsConfig{Auditor: auditLog{log}, Forum: a, Logger: slog.New(slog.DiscardHandler), Policy: policy}
	trust := "temporal"
	if !trusting {
		config.Witness, trust = emergency.OnRecord(locks), "operators"
	}
	approvals, err := emergency.NewApprovals(config)
	require.NoError(t, err)
	a.guard, err = lockguard.New(locks, lockguard.WithApprover(approvals), lockguard.WithAuditor(auditLog{log}))
	require.NoError(t, err)
	a.write("lockkeeper.yaml", a.asking("{temporal: {trust: "+trust+"}}"))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		require.NoError(t, a.workflows.Close(ctx))
	})
	return a
}

// answers runs a worker for the questions until the end of the test.
func (a *asker) answers() {
	ctx, cancel := context.WithCancel(context.Background())
	done := harness.Go(a, "the worker", func() (any, error) {
		temporal.RunApprovalWorker(ctx, a.temporal, temporal.ApprovalWorker{})
		return nil, nil
	})
	a.Cleanup(func() { cancel(); <-done.Done() })
}

// asks requests the lock "db", politely.
func (a *asker) asks(ctx context.Context) *harness.Call[any] {
	r := lockguard.Requirement{Scope: "db", Owner: "payments", Terms: priority.Terms{Priority: 80, WaitingTimeout: new(300 * time.Millisecond)}}
	return harness.Go(a, "the request", func() (any, error) {
		return nil, a.guard.Do(ctx, r, func(context.Context) error { return nil })
	})
}

func (a *asker) question() string {
	a.Helper()
	return harness.Receive(a, a.opened, "a question").ID
}

// isClosed waits until the workflow of a question has a status.
func (a *asker) isClosed(id string, status enums.WorkflowExecutionStatus) {
	a.Helper()
	a.status("lockkeeper-approval-"+id, status)
}

// There was no worker to say so in time.
func TestADecisionAfterTheDeadlineDoesNotCount(t *testing.T) {
	t.Parallel()
	a := newAsker(t, emergency.Policy{Deadline: time.Second}, true)
	a.stubborn()
	request := a.asks(t.Context())
	id := a.question()
	require.Equal(t, id, a.asked("lockkeeper.yaml").ID, "it is listed without a worker")
	harness.Eventually(t, func() bool {
		found, err := a.workflows.Find(t.Context(), id)
		require.NoError(t, err)
		return time.Now().After(found.Until.Add(time.Second))
	}, "the deadline is over")

	// when somebody decides then, and there is a worker
	late := harness.Go(t, "the decision", func() (any, error) {
		return nil, a.workflows.Decide(t.Context(), id, opstore.Decision{Approved: true, Force: true, By: "ana", Reason: "payments"})
	})
	a.answers()

	// then it was denied already
	var decided *opstore.DecidedError
	require.ErrorAs(t, late.Refused(), &decided)
	require.Equal(t, "the deadline", decided.Decision.By)
	var denied *emergency.DeniedError
	require.ErrorAs(t, request.Refused(), &denied)
	require.Equal(t, "the deadline", denied.By)
	require.ErrorContains(t, denied, "no decision within 1s")
	a.isClosed(id, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	require.Empty(t, a.entries(opstore.AuditTakeover))
	require.Equal(t, "the deadline", a.entries(opstore.AuditApprovalDecide)[0].By)
}

func TestOfTwoDecisionsAtOnceOneCounts(t *testing.T) {
	t.Parallel()
	// given two people whose decisions reach the workflow at the same moment
	a := newAsker(t, emergency.Policy{}, true)
	a.stubborn()
	request := a.asks(t.Context())
	id := a.question()
	decide := func(by string, d opstore.Decision) *harness.Call[any] {
		return harness.Go(t, by+"'s decision", func() (any, error) {
			d.By, d.Reason = by, "because"
			return nil, a.workflows.Decide(t.Context(), id, d)
		})
	}
	deny, force := decide("ana", opstore.Decision{}), decide("bob", opstore.Decision{Approved: true, Force: true})
	a.answers()

	// then one counts, and the other one hears of it
	_, err := request.Wait()
	late, counts := force, "ana"
	if err == nil {
		late, counts = deny, "bob"
	}
	decided, ok := errors.AsType[*opstore.DecidedError](late.Refused())
	require.True(t, ok)
	require.Equal(t, counts, decided.Decision.By)
}

func TestTheWorkflowIsClosedWhenTheDecisionIsNotNeeded(t *testing.T) {
	t.Parallel()
	a := newAsker(t, emergency.Policy{}, false)
	a.answers()
	release := a.stubborn()

	// the request is given up
	ctx, cancel := context.WithCancel(t.Context())
	request := a.asks(ctx)
	id := a.question()
	cancel()
	require.ErrorIs(t, request.Refused(), context.Canceled)
	a.isClosed(id, enums.WORKFLOW_EXECUTION_STATUS_CANCELED)

	// the holder has gone
	request = a.asks(t.Context())
	id = a.question()
	a.isClosed(id, enums.WORKFLOW_EXECUTION_STATUS_RUNNING)
	release()
	request.Granted()
	a.isClosed(id, enums.WORKFLOW_EXECUTION_STATUS_CANCELED)
}

// Every client of the namespace may update the workflow. Only an operator's recorded decision is believed, unless the
// configuration says otherwise.
func TestAnApprovalThatNoOperatorHasPutOnRecordIsNotBelieved(t *testing.T) {
	t.Parallel()
	for name, trusting := range map[string]bool{"trust: operators": false, "trust: temporal": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAsker(t, emergency.Policy{}, trusting)
			a.answers()
			a.stubborn()
			request := a.asks(t.Context())
			err := a.workflows.Decide(t.Context(), a.question(), opstore.Decision{
				Approved: true, Force: true, By: "ana", Reason: "payments", Identity: "digest:ana",
			})
			require.NoError(t, err)
			if trusting {
				request.Granted()
				require.Equal(t, "ana", a.entries(opstore.AuditApprovalDecide)[0].By)
				return
			}
			err = request.Refused()
			require.ErrorAs(t, err, new(*emergency.DeniedError))
			require.ErrorContains(t, err, "the approval of ana is not believed: no operator has put it on record")
			require.Equal(t, "the guard", a.entries(opstore.AuditApprovalDecide)[0].By)
			require.Empty(t, a.entries(opstore.AuditTakeover))
		})
	}
}

func TestAnUnheardApprovalIsGoodForTheNextRequest(t *testing.T) {
	t.Parallel()
	for name, forged := range map[string]bool{"unless it is not on record": true, "of an operator": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// given a process that ends while it asks
			a := newAsker(t, emergency.Policy{}, false)
			a.answers()
			a.stubborn()
			ctx, cancel := context.WithCancel(t.Context())
			a.workflows.KeepQuestions(ctx)
			request := a.asks(ctx)
			id := a.question()
			cancel()
			require.ErrorIs(t, request.Refused(), context.Canceled)

			// when somebody decides, and it asks again
			if !forged {
				a.decides(0, "force", id, "payments are stuck")
				a.asks(t.Context()).Granted()
				require.Equal(t, id, a.entries(opstore.AuditTakeover)[0].Approval)
				return
			}
			err := a.workflows.Decide(t.Context(), id, opstore.Decision{Approved: true, Force: true, By: "ana", Reason: "payments"})
			require.NoError(t, err)
			request = a.asks(t.Context())
			require.Equal(t, id, a.question())
			a.decides(0, "deny", id, "it was not me")
			require.ErrorContains(t, request.Refused(), "denied by ana")
			require.Empty(t, a.entries(opstore.AuditTakeover))
		})
	}
}

func TestQuestionsOfOneNamespaceAreNotThoseOfAnother(t *testing.T) {
	t.Parallel()
	one, other := newAsker(t, emergency.Policy{}, false), newAsker(t, emergency.Policy{}, false)
	one.answers()
	other.answers()
	one.stubborn()
	request := one.asks(t.Context())
	id := one.question()
	require.Equal(t, "[]\n", other.listed("approvals", "ls"))
	other.decides(78, "force", id, "please")

	// nor those of one root those of another, in one namespace
	other.write("lockkeeper.yaml", one.asking("{temporal: {}}"))
	require.Equal(t, "[]\n", other.listed("approvals", "ls"))
	other.decides(78, "force", id, "please")
	request.IsPending()
	one.decides(0, "deny", id, "no")
	require.ErrorContains(t, request.Refused(), "denied by ana")
}
