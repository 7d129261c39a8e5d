package temporal

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdk "go.temporal.io/sdk/temporal"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

// fakeService is a Temporal server as keepers see it.
type fakeService struct {
	mu          sync.Mutex
	beats       []holderDetails
	signals     []holdSignal
	completions []error

	beat   func() error // what heartbeats are answered with
	signal func() error
	status enums.WorkflowExecutionStatus
}

// read reads something of the service.
func read[T any](s *fakeService, what func() T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return what()
}

func newFakeService() *fakeService {
	return &fakeService{status: enums.WORKFLOW_EXECUTION_STATUS_RUNNING}
}

// answer is what heartbeats are answered with from here on.
func (s *fakeService) answer(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beat = func() error { return err }
}

func (s *fakeService) RecordActivityHeartbeat(_ context.Context, _ []byte, details ...any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beats = append(s.beats, details[0].(holderDetails))
	if s.beat == nil {
		return nil
	}
	return s.beat()
}

func (s *fakeService) SignalWorkflow(_ context.Context, _, _, name string, arg any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.signal != nil {
		if err := s.signal(); err != nil {
			return err
		}
	}
	s.signals = append(s.signals, arg.(holdSignal))
	if name != "lockkeeper/1" {
		return errors.New("no receiver of the signal " + name)
	}
	return nil
}

func (s *fakeService) CompleteActivity(_ context.Context, _ []byte, _ any, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return serviceerror.NewNotFound("workflow execution already completed")
	}
	s.completions = append(s.completions, err)
	return nil
}

func (s *fakeService) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{Status: s.status}}, nil
}

// beaten is how many heartbeats there have been.
func (s *fakeService) beaten() int { return read(s, func() int { return len(s.beats) }) }

// closes ends the workflow.
func (s *fakeService) closes(status enums.WorkflowExecutionStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
	s.beat = func() error { return serviceerror.NewNotFound("workflow execution already completed") }
}

// signalled is what signals are answered with from here on.
func (s *fakeService) signalled(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signal = func() error { return err }
}

// states are what the workflow was told, in order.
func (s *fakeService) states() []holdState {
	s.mu.Lock()
	defer s.mu.Unlock()
	states := []holdState{}
	for _, signal := range s.signals {
		states = append(states, signal.State)
	}
	return states
}

// told is the last signal.
func (s *fakeService) told(t *testing.T) holdSignal {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.NotEmpty(t, s.signals)
	return s.signals[len(s.signals)-1]
}

// details are those of the last heartbeat.
func (s *fakeService) details() holderDetails {
	return read(s, func() holderDetails { return s.beats[len(s.beats)-1] })
}

// ended is how the activity was completed.
func (s *fakeService) ended(t *testing.T) error {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Len(t, s.completions, 1)
	return s.completions[0]
}

func (s *fakeService) isOpen() bool { return read(s, func() bool { return len(s.completions) == 0 }) }

// A stage is a process that keeps locks, and a Temporal server.
type stage struct {
	*agent
	t       *testing.T
	locks   *fakeLocks
	service *fakeService
	log     *strings.Builder
}

func newStage(t *testing.T, locks *fakeLocks) *stage {
	t.Helper()
	log := &strings.Builder{}
	s := &stage{agent: newAgent(locks, slog.New(slog.NewTextHandler(log, nil))), t: t, locks: locks, service: newFakeService(), log: log}
	t.Cleanup(func() { // nothing outlives the test
		s.service.closes(enums.WORKFLOW_EXECUTION_STATUS_TERMINATED)
		pass(2 * keepTime)
	})
	return s
}

// keeps begins an attempt of a holder activity that inherits from another one.
func (s *stage) keeps(inherited holderDetails, change ...func(k *keeper)) *keeper {
	s.t.Helper()
	k := &keeper{
		agent: s.agent, worker: "worker", activity: s.t.Context(), service: s.service, workflow: "migrate", run: "run",
		input:       holderInput{Name: "1", MaxHold: 24 * time.Hour},
		requirement: lockguard.Requirement{Scope: "cluster/orders", Terms: priority.Terms{CleanupTimeout: time.Minute}},
		heartbeat:   6 * time.Second, inherited: inherited, id: "hold",
	}
	for _, f := range change {
		f(k)
	}
	require.True(s.t, s.take(k))
	synctest.Wait()
	return k
}

// idle reports whether the agent has nothing to do.
func (a *agent) idle() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.keepers)+len(a.kept) == 0
}

// holds is the holder of the lock; nil: none.
func (l *fakeLocks) holds() *fakeMember {
	l.mu.Lock()
	defer l.mu.Unlock()
	if members := l.members["hold"]; len(members) > 0 {
		return members[len(members)-1]
	}
	return nil
}

// preempt preempts the holder.
func (l *fakeLocks) preempt(grace time.Duration) {
	m := l.holds()
	m.end(&lockguard.PreemptedError{Scope: m.reference.Scope, By: "hotfix", Priority: 9, Grace: grace, Deadline: time.Now().Add(grace), Forceful: true})
	synctest.Wait()
}

// finish ends the activity as Temporal does when the workflow has cancelled it.
func (s *stage) finish() {
	s.service.answer(sdk.NewCanceledError())
	pass(2 * time.Second)
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// play runs a test in virtual time.
func play(t *testing.T, f func(t *testing.T, s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newStage(t, newFakeLocks())) })
}
