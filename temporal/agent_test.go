package temporal

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	sdkworkflow "go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

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
