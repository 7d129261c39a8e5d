package temporal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// asking is the configuration of daemons whose job waits for the lock "db", and asks
// in workflows.
func asking(server *devserver.Server, namespace, approvals string) string {
	return fmt.Sprintf(`version: 1
zookeeper: {session_timeout: 4s}
temporal: {address: %q, namespace: %s}
drain_timeout: 0s
approvals: %s
jobs:
  payments:
    schedule: "@every 1s"
    run: [sh, -c, 'echo paid >> paid']
    locks: [{scope: db, priority: 80, waiting_timeout: 300ms, acquire_timeout: 10m}]
`, server.Addr(), namespace, approvals)
}

// A stubborn holder has the lock "db", and does not finish its cleanup until it is
// let go, or loses the lock.
type stubborn struct {
	release func()
	ended   chan error
}

func (h *house) stubborn(cleanup time.Duration) *stubborn {
	h.Helper()
	g, err := lockguard.New(h.client(), lockguard.WithOwner("backup"))
	require.NoError(h, err)
	free, held := make(chan struct{}), make(chan struct{})
	s := &stubborn{release: sync.OnceFunc(func() { close(free) }), ended: make(chan error, 1)}
	go func() {
		s.ended <- g.Do(context.WithoutCancel(h.Context()), lockguard.Requirement{Scope: "db", Priority: 20, LeaseTimeout: 24 * time.Hour, CleanupTimeout: cleanup}, func(ctx context.Context) error {
			close(held)
			<-ctx.Done()
			return context.Cause(ctx)
		}, func(ctx context.Context) error {
			select {
			case <-free:
			case <-ctx.Done():
				<-free
			}
			return nil
		})
	}()
	select {
	case <-held:
	case err := <-s.ended:
		require.NoError(h, err)
	}
	h.Cleanup(func() {
		s.release()
		select {
		case <-s.ended:
		case <-time.After(patience):
			h.Error("the holder has not gone")
		}
	})
	return s
}

// asked returns the one question that the command lists.
func (h *house) asked(file string) (q struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind"`
	Until     time.Time `json:"until"`
	Escalated []struct{ To string }
},
) {
	h.Helper()
	h.within("a question is listed", func() bool {
		out := h.listed("approvals", "ls", "-f", file)
		all := []json.RawMessage{}
		require.NoError(h, json.Unmarshal([]byte(out), &all), out)
		require.LessOrEqual(h, len(all), 1, out)
		return len(all) == 1 && json.Unmarshal(all[0], &q) == nil
	})
	return q
}

// history are the runs of one question.
func history(t *testing.T, c client.Client, id string) []enums.WorkflowExecutionStatus {
	t.Helper()
	found, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: "WorkflowId = 'lockkeeper-approval-" + id + "'"})
	require.NoError(t, err)
	var all []enums.WorkflowExecutionStatus
	for _, e := range found.GetExecutions() {
		all = append(all, e.GetStatus())
	}
	return all
}

// entries are what is on record of one action.
func (h *house) entries(c *recipes.Client, action recipes.AuditAction) []recipes.AuditRecord {
	h.Helper()
	log, err := c.AuditLog(0)
	require.NoError(h, err)
	all, _, err := log.Read(h.Context(), recipes.AuditQuery{})
	require.NoError(h, err)
	var some []recipes.AuditRecord
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
	h := newHouse(t)
	server := temporals.Server(t)
	namespace := server.Namespace(t)
	c := server.ClientIn(t, namespace)
	h.write("lockkeeper.yaml", asking(server, namespace, "{deadline: 10m, temporal: {escalation: [{after: 100ms, to: on-call}]}}"))
	h.stubborn(time.Hour)
	first := h.daemon()
	first.says("somebody has to decide", "approval=w-")
	question := h.asked("lockkeeper.yaml")
	require.True(t, temporal.IsApprovalID(question.ID))
	require.Equal(t, "workflow", question.Kind)
	first.says("it is escalated", "to=on-call")
	locks := h.client()
	h.within("that is on record", func() bool { return len(h.entries(locks, recipes.AuditApprovalEscalate)) == 1 })

	// when that is killed, and another one is stopped
	first.end(syscall.SIGKILL)
	second := h.daemon()
	second.says("somebody has to decide", "approval="+question.ID)
	second.end(syscall.SIGTERM)
	third := h.daemon()
	third.says("somebody has to decide", "approval="+question.ID)

	// then it is the same question, with the same deadline
	again := h.asked("lockkeeper.yaml")
	require.Equal(t, question.ID, again.ID)
	require.Equal(t, question.Until, again.Until)
	require.Len(t, again.Escalated, 1)
	require.Equal(t, []enums.WorkflowExecutionStatus{enums.WORKFLOW_EXECUTION_STATUS_RUNNING}, history(t, c, question.ID))

	// and nobody but an operator decides it, once
	out, code := h.run("approvals", "force", question.ID, "-r", "please")
	require.Equal(t, 78, code, out)
	require.Contains(t, out, "digest:daemons is none of the operators (digest:ana)")
	out, code = h.run("approvals", "force", "w-0123456789abcdef", "-r", "please", "--zk-digest-file", "ana")
	require.Equal(t, 78, code, out)
	require.Contains(t, out, `there is no approval "w-0123456789abcdef"`)
	out, code = h.run("approvals", "force", question.ID, "-r", "payments are stuck", "--zk-digest-file", "ana")
	require.Zero(t, code, out)
	require.Contains(t, out, question.ID+": forced; payments takes lock \"db\" from backup (priority 20)")
	out, code = h.run("approvals", "deny", question.ID, "-r", "no", "--zk-digest-file", "ana")
	require.Equal(t, 1, code, out)
	require.Contains(t, out, "was forced already, by ana (digest:ana)")
	h.within("the job has run", func() bool { return strings.HasPrefix(h.read("paid"), "paid\n") })

	// and its history is that of the workflow as it is now
	record(t, c, "lockkeeper-approval-"+question.ID, "../../temporal/testdata/approval.json", temporal.RegisterApprovalWorkflow)

	// and all of it is on record
	require.Equal(t, question.ID, h.entries(locks, recipes.AuditTakeover)[0].Approval)
	require.Len(t, h.entries(locks, recipes.AuditApprovalOpen), 3)
	require.Len(t, h.entries(locks, recipes.AuditApprovalEscalate), 1)
	decided := h.entries(locks, recipes.AuditApprovalDecide)
	require.Equal(t, []string{"digest:ana", "ana", "forced"}, []string{decided[0].Identity, decided[0].By, decided[0].After["decision"]})
	for _, r := range decided {
		require.Equal(t, "digest:ana", r.Identity, "who decides puts it on record: %+v", r)
	}
	out, code = h.run("approvals", "ls", "-f", "lockkeeper.yaml")
	require.Zero(t, code)
	require.Contains(t, out, "nothing waits for a decision")
}

func TestADeniedRequestFailsAndTheNextOneAsksAnew(t *testing.T) {
	h := newHouse(t)
	server := temporals.Server(t)
	namespace := server.Namespace(t)
	h.write("lockkeeper.yaml", asking(server, namespace, "{temporal: {}}"))
	h.stubborn(time.Hour)
	d := h.daemon()
	question := h.asked("lockkeeper.yaml")
	out, code := h.run("approvals", "deny", question.ID, "-r", "it has to finish", "--zk-digest-file", "ana")
	require.Zero(t, code, out)
	require.Contains(t, out, question.ID+": denied; the request fails, and the holder finishes its cleanup")
	d.says("tick skipped", "it has to finish")
	c := server.ClientIn(t, namespace)
	h.within("it is asked anew", func() bool { return len(history(t, c, question.ID)) == 2 })
	require.Equal(t, question.ID, h.asked("lockkeeper.yaml").ID)
}

// A bench is a guard in this process that asks in workflows, and a worker for them.
type bench struct {
	*house
	server    *devserver.Server
	namespace string
	temporal  client.Client
	locks     *recipes.Client
	workflows *temporal.Approvals
	guard     *lockguard.Guard
	opened    chan lockguard.Opened
	auditor   trail
}

// A trail is what a guard puts on record.
type trail struct{ log *recipes.AuditLog }

func (a trail) Audit(ctx context.Context, entry recipes.AuditEntry) error {
	_, err := a.log.Append(ctx, entry)
	return err
}

// A telltale tells the test what is asked.
type telltale struct {
	*temporal.Approvals
	opened chan lockguard.Opened
}

func (f telltale) Ask(ctx context.Context, q lockguard.Question) (lockguard.Answer, error) {
	tell := q.Opened
	q.Opened = func(ctx context.Context, o lockguard.Opened) {
		tell(ctx, o)
		f.opened <- o
	}
	return f.Approvals.Ask(ctx, q)
}

func newBench(t *testing.T, policy emergency.Policy, trusting bool) *bench {
	t.Helper()
	b := &bench{house: newHouse(t), server: temporals.Server(t), opened: make(chan lockguard.Opened, 16)}
	b.namespace = b.server.Namespace(t)
	b.temporal = b.server.ClientIn(t, b.namespace)
	b.locks = b.client()
	log, err := b.locks.AuditLog(0)
	require.NoError(t, err)
	b.auditor = trail{log}
	b.workflows, err = temporal.NewApprovals(temporal.ApprovalsConfig{Client: b.temporal, Root: b.root})
	require.NoError(t, err)
	config := emergency.ApprovalsConfig{Auditor: b.auditor, Forum: telltale{b.workflows, b.opened}, Logger: slog.New(slog.DiscardHandler), Policy: policy}
	trust := "temporal"
	if !trusting {
		config.Witness, trust = emergency.OnRecord(b.locks), "operators"
	}
	approvals, err := emergency.NewApprovals(config)
	require.NoError(t, err)
	b.guard, err = lockguard.New(b.locks, lockguard.WithApprover(approvals), lockguard.WithAuditor(b.auditor))
	require.NoError(t, err)
	b.write("lockkeeper.yaml", asking(b.server, b.namespace, "{temporal: {trust: "+trust+"}}"))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, b.workflows.Close(ctx))
	})
	return b
}

// work runs a worker until it is stopped, or until the end of the test.
func (b *bench) work() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		temporal.RunApprovalWorker(ctx, b.temporal, temporal.ApprovalWorker{})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	b.Cleanup(stop)
	return stop
}

// request asks for the lock "db", politely.
func (b *bench) request(ctx context.Context, change ...func(*lockguard.Requirement)) <-chan error {
	ended := make(chan error, 1)
	r := lockguard.Requirement{Scope: "db", Owner: "payments", Priority: 80, WaitingTimeout: new(300 * time.Millisecond)}
	for _, f := range change {
		f(&r)
	}
	go func() { ended <- b.guard.Do(ctx, r, func(context.Context) error { return nil }) }()
	return ended
}

func (b *bench) await(what string, of <-chan error) error {
	b.Helper()
	select {
	case err := <-of:
		return err
	case <-time.After(patience):
		require.FailNow(b, what+" does not end")
		return nil
	}
}

func (b *bench) question() lockguard.Opened {
	b.Helper()
	select {
	case o := <-b.opened:
		return o
	case <-time.After(patience):
		require.FailNow(b, "nobody is asked")
		return lockguard.Opened{}
	}
}

// closes waits until the question is in no workflow that runs any more.
func (b *bench) closes(id string, status enums.WorkflowExecutionStatus) {
	b.Helper()
	b.within("the workflow is closed", func() bool {
		found, err := b.temporal.DescribeWorkflowExecution(b.Context(), "lockkeeper-approval-"+id, "")
		return err == nil && found.GetWorkflowExecutionInfo().GetStatus() == status
	})
}

// nobodyIsAsked makes sure that the namespace has no workflow, nor had any.
func (b *bench) nobodyIsAsked() {
	b.Helper()
	found, err := b.temporal.ListWorkflow(b.Context(), &workflowservice.ListWorkflowExecutionsRequest{})
	require.NoError(b, err)
	require.Empty(b, found.GetExecutions())
	require.Empty(b, b.opened)
}

func TestARuleDecidesWithoutAWorkflow(t *testing.T) {
	b := newBench(t, emergency.Policy{Rules: []emergency.Rule{{Name: "rules[0]", Then: emergency.Force}}}, false)
	b.work()
	b.stubborn(time.Hour)
	require.NoError(t, b.await("the request", b.request(t.Context())))
	b.nobodyIsAsked()
	require.Equal(t, "rules[0]", b.entries(b.locks, recipes.AuditApprovalDecide)[0].By)
}

func TestTheDeadlineOfAWorkflowDeniesTheRequest(t *testing.T) {
	b := newBench(t, emergency.Policy{Deadline: 2 * time.Second}, false)
	b.work()
	b.stubborn(time.Hour)
	err := b.await("the request", b.request(t.Context()))
	denied := &emergency.DeniedError{}
	require.ErrorAs(t, err, &denied)
	require.Equal(t, "the deadline", denied.By)
	require.ErrorContains(t, err, "nobody has decided within 2s")
	b.closes(denied.ID, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	require.Equal(t, "the deadline", b.entries(b.locks, recipes.AuditApprovalDecide)[0].By)
}

func TestADecisionAfterTheDeadlineDoesNotCount(t *testing.T) {
	// given a deadline that has passed while no worker was there to say so
	b := newBench(t, emergency.Policy{Deadline: time.Second}, true)
	b.stubborn(time.Hour)
	request := b.request(t.Context())
	q := b.question()
	b.within("the deadline is over", func() bool {
		found, err := b.workflows.Find(t.Context(), q.ID)
		require.NoError(t, err)
		return time.Now().After(found.Until.Add(time.Second))
	})

	// when somebody decides then, and there is a worker
	late := make(chan error, 1)
	go func() {
		_, err := b.workflows.Decide(t.Context(), q.ID, temporal.ForceUpdate, temporal.ApprovalRuling{By: "ana", Reason: "payments"})
		late <- err
	}()
	b.work()

	// then it was denied already
	decided := &temporal.ApprovalDecidedError{}
	require.ErrorAs(t, b.await("the decision", late), &decided)
	require.Equal(t, "the deadline", decided.Decision.By)
	denied := &emergency.DeniedError{}
	require.ErrorAs(t, b.await("the request", request), &denied)
	require.Equal(t, "the deadline", denied.By)
	require.Empty(t, b.entries(b.locks, recipes.AuditTakeover))
}

func TestTheWorkflowIsClosedWhenNobodyNeedsTheDecision(t *testing.T) {
	t.Run("the holder has gone", func(t *testing.T) {
		b := newBench(t, emergency.Policy{}, false)
		b.work()
		holder := b.stubborn(time.Hour)
		request := b.request(t.Context())
		q := b.question()
		holder.release()
		require.NoError(t, b.await("the request", request))
		b.closes(q.ID, enums.WORKFLOW_EXECUTION_STATUS_CANCELED)
	})
	t.Run("the request is given up", func(t *testing.T) {
		b := newBench(t, emergency.Policy{}, false)
		b.work()
		b.stubborn(time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		request := b.request(ctx)
		q := b.question()
		cancel()
		require.ErrorIs(t, b.await("the request", request), context.Canceled)
		b.closes(q.ID, enums.WORKFLOW_EXECUTION_STATUS_CANCELED)
	})
}

func TestApprovedInAWorkflowLeavesTheHolderItsGrace(t *testing.T) {
	t.Parallel()
	b := newBench(t, emergency.Policy{}, false)
	b.work()
	holder := b.stubborn(10 * time.Second)
	began := time.Now()
	request := b.request(t.Context())
	q := b.question()
	out, code := b.run("approvals", "approve", q.ID, "-r", "payments are stuck", "--zk-digest-file", "ana")
	require.Zero(t, code, out)
	require.Contains(t, out, "as soon as their grace is over")
	require.NoError(t, b.await("the request", request))
	require.GreaterOrEqual(t, time.Since(began), 9*time.Second)
	holder.release()
	require.ErrorAs(t, b.await("the holder", holder.ended), new(*lockguard.LostError))
	holder.ended <- nil // for the end of the test
}

// Whoever reaches the namespace may update the workflow. Only what an operator has
// put on record is believed, unless the configuration says otherwise.
func TestAnApprovalThatNoOperatorHasPutOnRecordIsNotBelieved(t *testing.T) {
	for name, trusting := range map[string]bool{"trust: operators": false, "trust: temporal": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, emergency.Policy{}, trusting)
			b.work()
			b.stubborn(time.Hour)
			request := b.request(t.Context())
			q := b.question()
			_, err := b.workflows.Decide(t.Context(), q.ID, temporal.ForceUpdate, temporal.ApprovalRuling{By: "ana", Reason: "payments", Identity: "digest:ana"})
			require.NoError(t, err)
			err = b.await("the request", request)
			decided := b.entries(b.locks, recipes.AuditApprovalDecide)
			require.Len(t, decided, 1)
			if trusting {
				require.NoError(t, err)
				require.Equal(t, "ana", decided[0].By)
				return
			}
			require.ErrorAs(t, err, new(*emergency.DeniedError))
			require.ErrorContains(t, err, "the approval of ana is not believed: no operator has put it on record")
			require.Equal(t, "the guard", decided[0].By)
			require.Empty(t, b.entries(b.locks, recipes.AuditTakeover))
		})
	}
}

func TestOfTwoDecisionsAtOnceOneCounts(t *testing.T) {
	// given two people whose decisions reach the workflow at the same moment
	b := newBench(t, emergency.Policy{}, true)
	b.stubborn(time.Hour)
	request := b.request(t.Context())
	q := b.question()
	type said struct {
		by  string
		err error
	}
	all := make(chan said, 2)
	for by, update := range map[string]string{"ana": temporal.DenyUpdate, "bob": temporal.ForceUpdate} {
		go func() {
			_, err := b.workflows.Decide(t.Context(), q.ID, update, temporal.ApprovalRuling{By: by, Reason: "because"})
			all <- said{by, err}
		}()
	}
	b.work()

	// then one counts, and the other one hears of it
	first, second := <-all, <-all
	if first.err != nil {
		first, second = second, first
	}
	require.NoError(t, first.err)
	decided := &temporal.ApprovalDecidedError{}
	require.ErrorAs(t, second.err, &decided)
	require.Equal(t, first.by, decided.Decision.By)
	err := b.await("the request", request)
	require.Equal(t, first.by == "bob", err == nil, "%v", err)
}

func TestAForgedApprovalThatNobodyHeardIsAskedForAnew(t *testing.T) {
	b := newBench(t, emergency.Policy{}, false)
	b.work()
	b.stubborn(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	b.workflows.KeepQuestions(ctx)
	request := b.request(ctx)
	q := b.question()
	cancel()
	require.ErrorIs(t, b.await("the request", request), context.Canceled)
	_, err := b.workflows.Decide(t.Context(), q.ID, temporal.ForceUpdate, temporal.ApprovalRuling{By: "ana", Reason: "payments"})
	require.NoError(t, err)

	request = b.request(t.Context())
	require.Equal(t, q.ID, b.question().ID)
	out, code := b.run("approvals", "deny", q.ID, "-r", "it was not me", "--zk-digest-file", "ana")
	require.Zero(t, code, out)
	require.ErrorContains(t, b.await("the request", request), "denied by ana")
	require.Empty(t, b.entries(b.locks, recipes.AuditTakeover))
}

func TestAQuestionWaitsForItsWorker(t *testing.T) {
	// given a question that is asked while no worker runs
	b := newBench(t, emergency.Policy{}, false)
	b.stubborn(time.Hour)
	request := b.request(t.Context())
	q := b.question()
	require.Equal(t, q.ID, b.asked("lockkeeper.yaml").ID, "it is listed all the same")

	// when there is one, and then another one
	stop := b.work()
	_, err := b.temporal.QueryWorkflow(t.Context(), "lockkeeper-approval-"+q.ID, "", temporal.ApprovalStateQuery)
	require.NoError(t, err)
	stop()
	b.work()

	// then it is decided
	out, code := b.run("approvals", "force", q.ID, "-r", "payments are stuck", "--zk-digest-file", "ana")
	require.Zero(t, code, out)
	require.NoError(t, b.await("the request", request))
	b.closes(q.ID, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED)
}

func TestAnApprovalThatNobodyWasThereToHearIsGoodForWhoAsksAgain(t *testing.T) {
	b := newBench(t, emergency.Policy{}, false)
	b.work()
	b.stubborn(time.Hour)

	// given a process that ends while it asks
	ctx, cancel := context.WithCancel(t.Context())
	b.workflows.KeepQuestions(ctx)
	request := b.request(ctx)
	q := b.question()
	cancel()
	require.ErrorIs(t, b.await("the request", request), context.Canceled)

	// when somebody decides, and it asks again
	out, code := b.run("approvals", "force", q.ID, "-r", "payments are stuck", "--zk-digest-file", "ana")
	require.Zero(t, code, out)

	// then that is the answer
	require.NoError(t, b.await("the request", b.request(t.Context())))
	require.Equal(t, q.ID, b.entries(b.locks, recipes.AuditTakeover)[0].Approval)
}

func TestQuestionsOfOneNamespaceAreNotThoseOfAnother(t *testing.T) {
	one, other := newBench(t, emergency.Policy{}, false), newBench(t, emergency.Policy{}, false)
	one.work()
	other.work()
	one.stubborn(time.Hour)
	request := one.request(t.Context())
	q := one.question()
	require.Equal(t, "[]\n", other.listed("approvals", "ls"))
	out, code := other.run("approvals", "force", q.ID, "-r", "please", "--zk-digest-file", "ana")
	require.Equal(t, 78, code, out)

	// nor those of one root those of another, in one namespace
	other.write("lockkeeper.yaml", asking(one.server, one.namespace, "{temporal: {}}"))
	require.Equal(t, "[]\n", other.listed("approvals", "ls"))
	out, code = other.run("approvals", "force", q.ID, "-r", "please", "--zk-digest-file", "ana")
	require.Equal(t, 78, code, out)
	require.Empty(t, request)
	out, code = one.run("approvals", "deny", q.ID, "-r", "no", "--zk-digest-file", "ana")
	require.Zero(t, code, out)
	require.ErrorContains(t, one.await("the request", request), "denied by ana")
}
