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
	"go.temporal.io/sdk/activity"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	sdkworkflow "go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
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

func TestKeeperTellsTheGrantAndEndsWhenTheWorkflowHasReleasedTheLock(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		// given
		s.keeps(holderDetails{})
		r := s.locks.holds().Reference()
		require.Equal(t, holdSignal{State: stateGranted, Epoch: epochs + 1, Reference: r}, s.service.told(t))
		require.Equal(t, holderDetails{Reference: r, Epoch: epochs + 1, Told: true, Held: s.service.details().Held}, s.service.details())

		// when the workflow gives the lock away
		_, err := s.release(t.Context(), "hold", releaseInput{Reference: r})
		require.NoError(t, err)

		// then it is free at once, and the activity ends when Temporal says so
		require.Nil(t, s.locks.holds())
		pass(time.Minute)
		require.True(t, s.service.isOpen())
		s.finish()
		require.True(t, sdk.IsCanceledError(s.service.ended(t)))
		require.Equal(t, []holdState{stateGranted}, s.service.states())
		require.True(t, s.idle())
	})
}

func TestKeeperBeatsWhileItWaitsAndHolds(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.locks.busy = make(chan struct{})
		s.keeps(holderDetails{})
		before := s.service.beaten()
		pass(time.Minute)
		require.Equal(t, before+30, s.service.beaten(), "each third of the timeout")
		require.Empty(t, s.service.states())
		require.Equal(t, lockguard.Reference{Scope: "cluster/orders", Hold: "hold", ID: "guid"}, s.service.details().Reference, "what the next attempt can take over")

		close(s.locks.busy)
		synctest.Wait()
		before = s.service.beaten()
		pass(time.Minute)
		require.Equal(t, before+30, s.service.beaten())
		s.finish()
	})
}

func TestKeeperThatIsCancelledWhileItWaitsLeavesTheQueue(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.locks.busy = make(chan struct{})
		s.keeps(holderDetails{})
		s.finish()
		require.True(t, sdk.IsCanceledError(s.service.ended(t)))
		close(s.locks.busy)
		synctest.Wait()
		require.Nil(t, s.locks.holds())
	})
}

func TestKeeperTellsThePreemptionAndKeepsTheLockUntilTheWorkflowHasPutThingsRight(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.keeps(holderDetails{})
		s.locks.preempt(30 * time.Second)
		news := s.service.told(t)
		require.Equal(t, statePreempting, news.State)
		require.Equal(t, Preemption{
			Reason: PreemptionOutranked, Scope: "cluster/orders", Token: 101, By: "hotfix", Priority: 9, Forceful: true, Grace: 30 * time.Second,
			Message: news.Interruption.Message,
		}, news.Interruption.Preemption)
		require.Equal(t, "hold", news.Interruption.Hold)

		require.True(t, closed(s.locks.holds().cleaning), "it is visible that the workflow cleans up")

		pass(time.Minute)
		require.NotNil(t, s.locks.holds(), "only a takeover ends the hold after the grace period")
		_, err := s.release(t.Context(), "hold", releaseInput{})
		require.NoError(t, err)
		require.Nil(t, s.locks.holds())
		s.finish()
		require.Equal(t, []holdState{stateGranted, statePreempting}, s.service.states())
	})
}

func TestPreemptionThatCannotBeToldIsToldWithWhatIsLeftOfTheGrace(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.keeps(holderDetails{})
		s.service.signalled(serviceerror.NewUnavailable("away"))
		s.locks.preempt(30 * time.Second)
		pass(20 * time.Second)
		s.service.signalled(nil)
		pass(2 * time.Second)
		require.Equal(t, []holdState{stateGranted, statePreempting}, s.service.states())
		grace := s.service.told(t).Interruption.Grace
		require.Positive(t, grace)
		require.LessOrEqual(t, grace, 10*time.Second)
		s.finish()
	})
}

func TestLockIsHeldWhileTemporalIsAway(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.keeps(holderDetails{})
		for _, answer := range []error{serviceerror.NewUnavailable("away"), nil, activity.ErrActivityPaused, activity.ErrActivityReset} {
			s.service.answer(answer)
			pass(30 * time.Second)
			require.NotNil(t, s.locks.holds())
		}
		require.Equal(t, []holdState{stateGranted}, s.service.states())
		s.finish()
	})
}

func TestLockIsReleasedWhenTheWorkflowIsClosed(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.keeps(holderDetails{})
		s.service.closes(enums.WORKFLOW_EXECUTION_STATUS_TERMINATED)
		pass(2 * time.Second) // a third of the heartbeat timeout
		require.Nil(t, s.locks.holds())
		require.True(t, s.service.isOpen(), "there is nothing to complete")
		require.True(t, s.idle())
	})
}

func TestNextAttemptElsewhereTakesTheLockOverWithTheSameToken(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		// given a keeper that Temporal takes for dead
		s.keeps(holderDetails{})
		first := s.locks.holds()
		details := s.service.details()
		s.service.answer(serviceerror.NewNotFound("activity already timed out"))
		pass(2 * time.Second)
		require.Same(t, first, s.locks.holds(), "kept for the next attempt")

		// when the next attempt begins on another worker
		other := newStage(t, s.locks)
		other.keeps(details)

		// then it has the same token, and no signal is sent
		require.NotSame(t, first, s.locks.holds())
		require.Equal(t, first.reference.Token, s.locks.holds().reference.Token)
		require.Empty(t, other.service.states())
		require.Equal(t, int64(2*epochs), other.service.details().Epoch)
		pass(time.Minute)
		require.True(t, s.idle())
		require.NotNil(t, s.locks.holds())
		other.finish()
		require.Nil(t, s.locks.holds())
	})
}

func TestKeptLockThatIsNotTakenOverIsReleased(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.keeps(holderDetails{})
		s.service.answer(serviceerror.NewNotFound("activity already timed out"))
		pass(2 * time.Second)
		pass(keepTime - time.Second)
		require.NotNil(t, s.locks.holds())
		pass(2 * time.Second)
		require.Nil(t, s.locks.holds())
		require.True(t, s.idle())
	})
}

func TestNextAttemptInTheSameProcessGoesOnWithTheLock(t *testing.T) {
	for name, before := range map[string]func(s *stage){
		"ThatDoesNotKnowYet": func(*stage) {},
		"ThatIsKept": func(s *stage) {
			s.service.answer(serviceerror.NewNotFound("activity already timed out"))
			pass(2 * time.Second)
			s.service.answer(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				s.keeps(holderDetails{})
				first := s.locks.holds()
				before(s)
				s.keeps(s.service.details())
				pass(time.Hour)
				require.Same(t, first, s.locks.holds())
				require.Equal(t, []holdState{stateGranted}, s.service.states())
				s.finish()
			})
		})
	}
}

func TestNextAttemptTellsAgainWhatMayNotHaveBeenTold(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		// given a keeper that has died before it could tell
		dead := newStage(t, s.locks)
		dead.service.signalled(serviceerror.NewUnavailable("away"))
		dead.keeps(holderDetails{})
		details := dead.service.details()
		require.False(t, details.Told)

		// when the next attempt takes over
		s.keeps(details)
		require.Equal(t, []holdState{stateGranted}, s.service.states())

		// and the one after that does not tell again of a preemption that the workflow knows of
		s.locks.preempt(time.Minute)
		asked := s.service.details()
		require.True(t, asked.Asked)
		next := newStage(t, s.locks)
		next.keeps(asked)
		require.Empty(t, next.service.states())
		_, err := next.release(t.Context(), "hold", releaseInput{})
		require.NoError(t, err)
		require.Nil(t, s.locks.holds())
	})
}

func TestHoldThatIsGoneWhenTheNextAttemptComesIsLost(t *testing.T) {
	gone := holderDetails{Reference: lockguard.Reference{Scope: "cluster/orders", Hold: "hold", ID: "guid", Token: 7}, Epoch: epochs + 1, Told: true}
	t.Run("AndTheWorkflowIsTold", func(t *testing.T) {
		play(t, func(t *testing.T, s *stage) {
			s.keeps(gone)
			require.True(t, requireType(t, ErrTypeLockLost, s.service.ended(t)).NonRetryable())
			p, ok := PreemptionOf(s.service.ended(t))
			require.True(t, ok)
			require.Equal(t, lockguard.Token(7), p.Token)
			require.Nil(t, s.locks.holds())
		})
	})
	t.Run("AndAskedForAnewIfThatIsWanted", func(t *testing.T) {
		play(t, func(t *testing.T, s *stage) {
			s.locks.busy = make(chan struct{})
			s.keeps(gone, func(k *keeper) { k.input.Again = true })
			require.Equal(t, []holdState{stateLost}, s.service.states())
			require.Equal(t, lockguard.Token(7), s.service.told(t).Reference.Token)
			close(s.locks.busy)
			synctest.Wait()
			require.Equal(t, []holdState{stateLost, stateRegranted}, s.service.states())
			require.Equal(t, lockguard.Token(101), s.service.told(t).Reference.Token)
			s.finish()
		})
	})
	t.Run("ButNotIfItHadOnlyBeenWaitedFor", func(t *testing.T) {
		play(t, func(t *testing.T, s *stage) {
			waited := gone
			waited.Reference.Token, waited.Told = 0, false
			s.keeps(waited)
			require.Equal(t, []holdState{stateGranted}, s.service.states())
			s.finish()
		})
	})
}

func TestNextAttemptJoinsAHoldThatOnlyActivitiesHave(t *testing.T) {
	for _, asked := range []bool{false, true} {
		play(t, func(t *testing.T, s *stage) {
			// given a hold whose keeper has died, while an activity is in its scope, and that may have been preempted
			r := lockguard.Reference{Scope: "cluster/orders", Hold: "hold", ID: "of the activity", Token: 7}
			s.locks.admit(r)
			if asked {
				s.locks.preempt(time.Minute)
			}

			// when the next attempt comes, then it is a member as well
			r.ID = "of the dead"
			s.keeps(holderDetails{Reference: r, Told: true})
			require.Equal(t, []bool{asked}, s.locks.cleanups())
			if asked {
				require.Equal(t, []holdState{statePreempting}, s.service.states())
				require.Equal(t, "hotfix", s.service.told(t).Interruption.By)
			} else {
				require.Empty(t, s.service.states())
			}
			s.finish()
		})
	}
}

func TestLossOfTheLockIsFollowedByAnotherGrantIfThatIsWanted(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.keeps(holderDetails{}, func(k *keeper) { k.input.Again = true })
		s.locks.busy = make(chan struct{})
		s.locks.lose("hold")
		synctest.Wait()
		require.Equal(t, []holdState{stateGranted, stateLost}, s.service.states())
		close(s.locks.busy)
		synctest.Wait()
		require.Equal(t, []holdState{stateGranted, stateLost, stateRegranted}, s.service.states())
		require.Equal(t, lockguard.Token(102), s.service.details().Reference.Token)
		s.finish()
		require.Nil(t, s.locks.holds())
	})
}

func TestLockIsNotHeldForLongerThanItMayBe(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.keeps(holderDetails{}, func(k *keeper) { k.input.MaxHold = time.Hour })
		pass(30 * time.Minute)
		s.service.answer(serviceerror.NewUnavailable("away"))
		require.InDelta(t, 30*time.Minute, s.service.details().Held, float64(10*time.Second))

		// by all attempts together
		other := newStage(t, s.locks)
		other.keeps(s.service.details(), func(k *keeper) { k.input.MaxHold = time.Hour })
		pass(29 * time.Minute)
		require.NotNil(t, s.locks.holds())
		pass(2 * time.Minute)
		require.Nil(t, s.locks.holds())
		requireType(t, ErrTypeLockLost, other.service.ended(t))
		s.finish()
	})
}

func TestWorkerThatStopsHandsTheLockOver(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		// given a worker that stops
		s.keeps(holderDetails{})
		first := s.locks.holds()
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			s.drain(context.Background(), "worker")
		}()
		synctest.Wait()

		// then another attempt is asked for, and the lock stays
		requireType(t, ErrTypeLockHandover, s.service.ended(t))
		require.Same(t, first, s.locks.holds())
		require.False(t, closed(stopped))

		// until the attempt has come
		other := newStage(t, s.locks)
		other.keeps(s.service.details())
		require.True(t, closed(stopped))
		require.Equal(t, first.reference.Token, s.locks.holds().reference.Token)
		require.Empty(t, other.service.states())
		require.False(t, s.take(&keeper{agent: s.agent, worker: "worker", id: "another"}), "it takes no more")
		other.finish()
	})
}

func TestWorkerThatStopsDoesNotWaitForeverForAnother(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.keeps(holderDetails{})
		s.locks.leaving = time.Second
		start := time.Now()
		s.drain(context.Background(), "worker")
		require.Equal(t, DefaultHandover+time.Second, time.Since(start))
		require.Nil(t, s.locks.holds(), "the program closes the client after the worker has stopped")
	})
}

func TestWorkerThatStopsDoesNotWaitForWorkflowsThatAreClosed(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.keeps(holderDetails{})
		s.service.mu.Lock()
		s.service.status = enums.WORKFLOW_EXECUTION_STATUS_COMPLETED // which the keeper has not heard
		s.service.mu.Unlock()
		start := time.Now()
		s.drain(context.Background(), "worker")
		require.Zero(t, time.Since(start))
		require.Nil(t, s.locks.holds())
	})
}

func TestReleaseByAnotherProcess(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.keeps(holderDetails{})
		r := s.locks.holds().Reference()
		other := newStage(t, s.locks)
		_, err := other.release(t.Context(), "hold", releaseInput{Reference: r, Requirement: lockguard.Requirement{Scope: "cluster/orders"}})
		require.NoError(t, err)
		require.Nil(t, s.locks.holds())

		// and the keeper waits for what Temporal says
		pass(time.Minute)
		require.True(t, s.service.isOpen())
		s.finish()
		require.True(t, sdk.IsCanceledError(s.service.ended(t)))

		// a release of what is not there is none
		_, err = other.release(t.Context(), "hold", releaseInput{Reference: r})
		require.NoError(t, err)
		_, err = other.release(t.Context(), "hold", releaseInput{})
		require.ErrorIs(t, err, errNotHere)
	})
}

func TestLockIsKeptForTheNextRun(t *testing.T) {
	for _, c := range []struct {
		name            string
		keptBy, takenBy string
	}{{"OfTheKeeper", "a", "a"}, {"Elsewhere", "b", "b"}, {"AndTakenElsewhere", "a", "b"}, {"AndTakenBack", "b", "a"}} {
		t.Run(c.name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				// given a hold that a run has kept for the next one
				process := map[string]*stage{"a": s, "b": newStage(t, s.locks)}
				s.keeps(holderDetails{})
				first := s.locks.holds().Reference()
				in := releaseInput{Reference: first, Requirement: lockguard.Requirement{Scope: "cluster/orders"}, Keep: keepTime}
				kept, err := process[c.keptBy].release(t.Context(), "hold", in)
				require.NoError(t, err)
				again, err := process[c.keptBy].release(t.Context(), "hold", releaseInput{Reference: kept, Requirement: in.Requirement, Keep: keepTime})
				require.NoError(t, err)
				require.Equal(t, kept, again, "a workflow task may be done twice")
				s.service.closes(enums.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW)
				pass(keepTime - time.Second)
				require.NotNil(t, s.locks.holds())

				// when the next run comes
				taker := process[c.takenBy]
				taker.service = newFakeService()
				taker.keeps(holderDetails{}, func(k *keeper) { k.input.Adopt = &kept })

				// then it has the lock with the same token, for as long as it wants
				pass(time.Hour)
				require.Equal(t, first.Token, s.locks.holds().reference.Token)
				require.Equal(t, []holdState{stateGranted}, taker.service.states())
				require.True(t, taker.service.told(t).Continued)
				taker.finish()
				require.Nil(t, s.locks.holds())
			})
		})
	}
}

func TestLockThatIsKeptInVainIsReleased(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.keeps(holderDetails{})
		kept, err := s.release(t.Context(), "hold", releaseInput{Keep: keepTime})
		require.NoError(t, err)
		pass(keepTime)
		require.Nil(t, s.locks.holds())

		// and a run that comes too late asks for it anew
		s.keeps(holderDetails{}, func(k *keeper) { k.input.Adopt = &kept })
		require.False(t, s.service.told(t).Continued)
		require.Greater(t, s.service.told(t).Reference.Token, kept.Token)
		s.finish()
	})
}

func TestLockThatIsKeptCanBeReleased(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.keeps(holderDetails{})
		kept, err := s.release(t.Context(), "hold", releaseInput{Keep: keepTime})
		require.NoError(t, err)
		_, err = s.release(t.Context(), "hold", releaseInput{Reference: kept})
		require.NoError(t, err)
		require.Nil(t, s.locks.holds())
		require.True(t, s.idle())
	})
}

func TestLastWorkerOfAProcessReleasesWhatIsKept(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.admit("worker")
		s.admit("other")
		s.keeps(holderDetails{})
		_, err := s.release(t.Context(), "hold", releaseInput{Keep: keepTime})
		require.NoError(t, err)

		s.keeps(holderDetails{}, func(k *keeper) { k.worker, k.id = "worker", "another hold" })
		s.drain(t.Context(), "other")
		require.True(t, s.service.isOpen(), "workers of the process that go on")
		require.NotNil(t, s.locks.holds())
		s.finish()
		start := time.Now()
		s.drain(t.Context(), "worker")
		require.Equal(t, DefaultHandover, time.Since(start), "it might have been taken over")
		require.Nil(t, s.locks.holds())
		require.True(t, s.idle())
	})
}

func TestKeeperTriesUntilZooKeeperIsBack(t *testing.T) {
	adopted := lockguard.Reference{Scope: "cluster/orders", Hold: "hold", ID: "guid", Token: 7}
	for _, details := range []holderDetails{{}, {Reference: adopted, Told: true}} {
		play(t, func(t *testing.T, s *stage) {
			s.locks.admit(adopted)
			until := time.Now().Add(10 * time.Second)
			s.locks.refuse = func(string) error {
				if time.Now().Before(until) {
					return &lock.UnavailableError{}
				}
				return nil
			}
			s.keeps(details)
			pass(5 * time.Second)
			require.Empty(t, s.service.states())
			pass(10 * time.Second)
			require.True(t, s.service.isOpen())
			require.Equal(t, details.Told, s.locks.holds().reference.Token == 7)
			s.finish()
		})
	}
}

func TestKeeperThatDoesNotGetTheLockSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"WaitedInVain":   {&lock.NotAcquiredError{Scope: "cluster/orders", Waited: time.Second}, ErrTypeLockWaitTimeout},
		"Tried":          {&lock.NotAcquiredError{Scope: "cluster/orders"}, ErrTypeLockBusy},
		"CleanupPending": {&lock.CleanupPendingError{Scope: "cluster/orders"}, ErrTypeLockBusy},
		"AskedAtOnce":    {&lockguard.PreemptedError{Scope: "cluster/orders", By: "hotfix"}, ErrTypeLockPreempted},
		"LostAtOnce":     {&lockguard.LostError{Scope: "cluster/orders"}, ErrTypeLockLost},
		"CannotBe":       {&lockguard.RequestError{Field: "scope", Reason: "is missing"}, ErrTypeLockConfiguration},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				s.locks.refuse = func(string) error { return c.err }
				s.keeps(holderDetails{})
				application := requireType(t, c.want, s.service.ended(t))
				require.True(t, application.NonRetryable())
				require.ErrorContains(t, application, "cluster/orders")
				require.ErrorIs(t, application, c.err)
			})
		})
	}
}

func TestAcquireTimeoutIsThatOfAllAttempts(t *testing.T) {
	for _, c := range []struct{ limit, queued, want time.Duration }{
		{10 * time.Second, 4 * time.Second, 6 * time.Second},
		{10 * time.Second, 11 * time.Second, -1}, // it is over
		{0, 11 * time.Second, 0},                 // a try
	} {
		play(t, func(t *testing.T, s *stage) {
			got := time.Duration(-1)
			s.locks.asked = func(r lockguard.Requirement) { got = *r.AcquireTimeout }
			s.keeps(holderDetails{}, func(k *keeper) { k.queued, k.requirement.AcquireTimeout = c.queued, &c.limit })
			require.Equal(t, c.want, got)
			if c.want < 0 {
				requireType(t, ErrTypeLockWaitTimeout, s.service.ended(t))
				return
			}
			s.finish()
		})
	}
}

func TestSessionThatIsTooShortForACrashIsToldOf(t *testing.T) {
	for left, warned := range map[time.Duration]bool{7 * time.Second: true, 9 * time.Second: false} { // sessions of 12.3s and 15.8s, for 13.5s
		play(t, func(t *testing.T, s *stage) {
			s.locks.left = left
			s.keeps(holderDetails{})
			s.finish()
			require.Equal(t, warned, strings.Contains(s.log.String(), "session timeout of ZooKeeper is short"), "%s", s.log)
		})
	}
}

func TestKeeperNeedsAServer(t *testing.T) {
	env := new(testsuite.WorkflowTestSuite).NewTestActivityEnvironment()
	env.RegisterActivity((&holder{agent: newAgent(newFakeLocks(), slog.Default()), inTest: func() bool { return true }}).Hold)
	_, err := env.ExecuteActivity("Hold", holderInput{Name: "1"})
	requireType(t, ErrTypeLockConfiguration, err)
	require.ErrorContains(t, err, "temporaltesting")
}

func TestHoldOfAnAttempt(t *testing.T) {
	info := activity.Info{Namespace: "orders", WorkflowExecution: sdkworkflow.Execution{ID: "migrate", RunID: "run"}}
	kept := &lockguard.Reference{Hold: "of the run before"}
	inherited := holderDetails{Reference: lockguard.Reference{Hold: "of the attempt before"}}
	require.Equal(t, "orders/migrate/run/1", holderInput{Name: "1"}.holdID(holderDetails{}, info))
	require.Equal(t, "of the run before", holderInput{Name: "1", Adopt: kept}.holdID(holderDetails{}, info))
	require.Equal(t, "of the attempt before", holderInput{Name: "1", Adopt: kept}.holdID(inherited, info))
}

func TestHoldIDIsShortAndPrintable(t *testing.T) {
	require.Equal(t, "orders/migrate/run/name", holdID("orders", "migrate", "run", "name"))
	long := holdID("orders", strings.Repeat("x", 1000), "run", "name")
	require.LessOrEqual(t, len(long), priority.MaxHold)
	require.NotEqual(t, long, holdID("orders", strings.Repeat("x", 1001), "run", "name"))
	require.True(t, printable(holdID("orders", "Bestellung-ü", "run", "name")))
}
