package temporal

import (
	"context"
	"errors"
	"sync"
	"testing"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdk "go.temporal.io/sdk/temporal"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeServer is a Temporal server with as much sense as StartWorkflow needs.
type fakeServer struct {
	mu         sync.Mutex
	workflows  map[string]*fakeWorkflow
	starts     []client.StartWorkflowOptions
	args       []any
	cancels    []client.CancelWorkflowOptions
	terminates []client.TerminateWorkflowOptions

	refuse   error // what a start fails with
	loseNext bool  // the reply to a start, which then fails
	away     int   // how often Get fails
	silent   bool  // requests to cancel are not answered
	late     bool  // Get has the close on its way when its context ends: it returns with the close alone

	started   chan *fakeWorkflow // gets each
	cancelled chan struct{}      // closed by the first request to cancel
}

func newFakeServer() *fakeServer {
	return &fakeServer{
		workflows: map[string]*fakeWorkflow{},
		started:   make(chan *fakeWorkflow, 10),
		cancelled: make(chan struct{}),
	}
}

// fakeWorkflow is a client.WorkflowRun.
type fakeWorkflow struct {
	client.WorkflowRun
	server    *fakeServer
	id, runID string
	closed    chan struct{}
	result    any
	err       error
}

func (w *fakeWorkflow) close(result any, err error) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	select {
	case <-w.closed:
	default:
		w.result, w.err = result, err
		close(w.closed)
	}
}

func (w *fakeWorkflow) GetID() string    { return w.id }
func (w *fakeWorkflow) GetRunID() string { return w.runID }

func (w *fakeWorkflow) Get(ctx context.Context, result any) error {
	w.server.mu.Lock()
	away := w.server.away > 0
	w.server.away--
	w.server.mu.Unlock()
	if away {
		return serviceerror.NewUnavailable("away")
	}
	stop := ctx.Done()
	if w.server.late {
		stop = nil
	}
	select {
	case <-stop:
		return ctx.Err()
	case <-w.closed:
	}
	if w.err != nil {
		return sdkError(w)
	}
	if w.result == nil {
		return nil
	}
	payload, ok := w.result.(*common.Payload)
	if !ok {
		var err error
		if payload, err = converter.GetDefaultDataConverter().ToPayload(w.result); err != nil {
			return err
		}
	}
	*result.(*converter.RawValue) = converter.NewRawValue(payload)
	return nil
}

// sdkError wraps what closed a workflow as the SDK does.
func sdkError(w *fakeWorkflow) error {
	if errors.As(w.err, new(*serviceerror.NotFound)) {
		return w.err
	}
	return closedError{w.err}
}

// closedError is an *sdk.WorkflowExecutionError, which cannot be made here.
type closedError struct{ cause error }

func (e closedError) Error() string   { return e.cause.Error() }
func (e closedError) Unwrap() []error { return []error{&sdk.WorkflowExecutionError{}, e.cause} }

func (s *fakeServer) ExecuteWorkflow(ctx context.Context, o client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.starts, s.args = append(s.starts, o), args
	if s.refuse != nil {
		return nil, s.refuse
	}
	if w, there := s.workflows[o.ID]; there && !s.replaceable(w, o) {
		return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("there", "", w.runID)
	}
	w := &fakeWorkflow{server: s, id: o.ID, runID: o.ID + "/" + string(rune('0'+len(s.starts))), closed: make(chan struct{})}
	s.workflows[o.ID] = w
	if s.loseNext {
		s.loseNext = false
		return nil, serviceerror.NewDeadlineExceeded("lost")
	}
	s.started <- w
	return w, nil
}

func (s *fakeServer) replaceable(w *fakeWorkflow, o client.StartWorkflowOptions) bool {
	select {
	case <-w.closed:
		return w.err != nil && o.WorkflowIDReusePolicy == enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY
	default:
		return false
	}
}

func (s *fakeServer) GetWorkflow(_ context.Context, id, _ string) client.WorkflowRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.workflows[id]
}

func (s *fakeServer) CancelWorkflowWithOptions(ctx context.Context, o client.CancelWorkflowOptions) error {
	s.mu.Lock()
	s.cancels = append(s.cancels, o)
	first, silent, w := len(s.cancels) == 1, s.silent, s.workflows[o.WorkflowID]
	s.mu.Unlock()
	if silent {
		<-ctx.Done()
		return ctx.Err()
	}
	if first {
		close(s.cancelled)
	}
	if w == nil {
		return serviceerror.NewNotFound("no such workflow")
	}
	return nil
}

func (s *fakeServer) TerminateWorkflowWithOptions(_ context.Context, o client.TerminateWorkflowOptions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.terminates = append(s.terminates, o)
	return nil
}

// canceled is how a workflow closes that was cancelled.
var canceled = sdk.NewCanceledError()

// fakeHold is a lock whose fate the test decides.
type fakeHold struct {
	ctx    context.Context
	end    context.CancelCauseFunc
	info   lockguard.Info
	lost   chan struct{}
	atRisk chan struct{}
}

func newFakeHold(t *testing.T) *fakeHold {
	t.Helper()
	h := &fakeHold{lost: make(chan struct{}), atRisk: make(chan struct{})}
	h.info = lockguard.Info{Requirement: lockguard.Requirement{Scope: "cluster/orders"}, Token: 4294967298}
	h.ctx, h.end = context.WithCancelCause(context.Background())
	t.Cleanup(func() { h.end(nil) })
	return h
}

func (h *fakeHold) Context() context.Context { return h.ctx }
func (h *fakeHold) Info() lockguard.Info     { return h.info }
func (h *fakeHold) Tokens() map[string]lockguard.Token {
	return map[string]lockguard.Token{h.info.Requirement.Scope: h.info.Token, "cluster/users": 7}
}
func (h *fakeHold) Lost() <-chan struct{}   { return h.lost }
func (h *fakeHold) AtRisk() <-chan struct{} { return h.atRisk }
func (h *fakeHold) Trace() string           { return "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" }
