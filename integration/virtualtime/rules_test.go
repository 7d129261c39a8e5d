package virtualtime

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestHolderIsAskedInTheInstantInWhichItsMinimumRuntimeIsOver(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder that is to run for two hours at least
		holder, urgent := w.program("holder", long), w.program("urgent", long)
		held := holder.do(lockguard.Requirement{MinRuntime: 2 * time.Hour, CleanupTimeout: 10 * time.Minute}, untilCancelled, lasting(5*time.Minute))

		// when somebody more important comes before that
		w.until(30 * time.Minute)
		next := urgent.do(lockguard.Requirement{Priority: 5, Forceful: true}, untilCancelled)

		// then the holder works on, and the lock says why
		w.until(2*time.Hour - 1)
		require.True(t, held.holds())
		state, err := urgent.client.Lock(t.Context(), scope)
		require.NoError(t, err)
		require.Equal(t, 2*time.Hour, state.Holders[0].MinRuntime)
		require.InDelta(t, time.Millisecond, state.Holders[0].MinRuntimeLeft, float64(time.Millisecond))
		plan, ok := state.PlanOf(state.Waiters[0].ID)
		require.True(t, ok)
		require.Equal(t, priority.BarMinRuntime, plan.Obstacles[0].Bar)

		// and is asked when it is over, with its whole grace
		var preempted *lockguard.PreemptedError
		require.ErrorAs(t, held.returned(), &preempted)
		require.Equal(t, 10*time.Minute, preempted.Grace)
		require.Equal(t, []string{
			"0s Acquired", "2h0m0s PreemptRequested", "2h0m0s CleanupStarted", "2h5m0s CleanupDone", "2h5m0s Released",
		}, holder.told())
		require.Equal(t, 2*time.Hour+5*time.Minute, next.began())
	})
}

func TestHolderThatHasRunLongEnoughIsAskedAtOnce(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		holder, urgent := w.program("holder", long), w.program("urgent", long)
		held := holder.do(lockguard.Requirement{MinRuntime: 2 * time.Hour}, untilCancelled)
		w.until(2 * time.Hour)
		urgent.do(lockguard.Requirement{Priority: 5}, untilCancelled)
		require.Error(t, held.returned())
		require.Equal(t, []string{"2h0m0s PreemptSent", "2h0m0s Acquired"}, urgent.told())
	})
}

// A new lease does not begin the minimum runtime anew: who holds has run as long.
func TestExtensionDoesNotBeginTheMinimumRuntimeAnew(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		holder, urgent := w.program("holder", long), w.program("urgent", long)
		held := holder.do(lockguard.Requirement{MinRuntime: 2 * time.Hour}, untilCancelled)
		w.until(time.Hour)
		require.NoError(t, held.hold().Extend(t.Context(), day))
		urgent.do(lockguard.Requirement{Priority: 5}, untilCancelled)
		require.Error(t, held.returned())
		require.Equal(t, []string{"2h0m0s PreemptSent", "2h0m0s Acquired"}, urgent.told())
	})
}

func TestReleaseBeforeTheEndOfTheMinimumRuntimeReachesTheWaiterAtOnce(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		holder, urgent := w.program("holder", long), w.program("urgent", long)
		held := holder.do(lockguard.Requirement{MinRuntime: 2 * time.Hour}, lasting(time.Hour+7*time.Second))
		next := urgent.do(lockguard.Requirement{Priority: 5}, untilCancelled)
		require.NoError(t, held.returned())
		require.Equal(t, time.Hour+7*time.Second, next.began())
		require.Equal(t, []string{"0s Acquired", "1h0m7s Released"}, holder.told())
	})
}

func TestHolderWhoseMinimumRuntimeIsItsLeaseIsAskedAtTheEndOfTheLeaseAlone(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder that runs as long as its lease, which it extends
		holder, urgent := w.program("holder", long), w.program("urgent", long)
		held := holder.do(lockguard.Requirement{LeaseTimeout: 6 * time.Hour, MinRuntime: 6 * time.Hour, CleanupTimeout: time.Hour}, untilCancelled, lasting(time.Minute))
		next := urgent.do(lockguard.Requirement{Priority: 5, Forceful: true}, untilCancelled)
		w.until(5 * time.Hour)
		require.NoError(t, held.hold().Extend(t.Context(), 4*time.Hour))

		// then it is asked when the new lease is over, for that reason
		var expired *lockguard.LeaseExpiredError
		require.ErrorAs(t, held.returned(), &expired)
		require.Equal(t, []string{
			"0s Acquired", "5h0m0s Extended", "9h0m0s PreemptRequested", "9h0m0s CleanupStarted", "9h1m0s CleanupDone", "9h1m0s Released",
		}, holder.told())
		require.Equal(t, 9*time.Hour+time.Minute, next.began())
	})
}

func TestEmergencyDoesNotWaitForTheMinimumRuntime(t *testing.T) {
	for name, least := range map[string]time.Duration{"a while": 2 * time.Hour, "the whole lease": day} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				// given a holder that is left alone by somebody important
				holder, urgent, operator := w.program("holder", long), w.program("urgent", long), w.program("operator", long)
				held := holder.do(lockguard.Requirement{MinRuntime: least}, untilCancelled)
				urgent.do(lockguard.Requirement{Priority: 5}, untilCancelled)
				w.until(time.Hour)
				require.True(t, held.holds())

				// when an operator asks, by the way that no job has, with a delta that counts for nothing
				lock, err := operator.client.PriorityLock(scope)
				require.NoError(t, err)
				g, err := lock.Acquire(t.Context(), recipes.Request{
					Priority: priority.Emergency, PreemptDelta: 1 << 31,
					Override: &recipes.Mark{ID: "INC-1"}, Vouch: func(context.Context, recipes.Mark) error { return nil },
				})
				require.NoError(t, err)

				// then the holder goes at once
				require.Error(t, held.returned())
				require.Equal(t, time.Hour, held.ended)
				require.NoError(t, g.Release(t.Context()))
			})
		})
	}
}

func TestPatienceOfAPolitePreemptorCountsFromItsRequestToGo(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder that runs for two hours at least, and cleans up for four
		holder, polite := w.program("holder", long), w.program("polite", long)
		held := holder.do(lockguard.Requirement{MinRuntime: 2 * time.Hour, CleanupTimeout: 5 * time.Hour}, untilCancelled, lasting(4*time.Hour))

		// when one comes that waits an hour for its cleanup
		patience := time.Hour
		refused := polite.do(lockguard.Requirement{Priority: 5, WaitingTimeout: &patience}, untilCancelled)

		// then the hour begins when it asks
		var pending *recipes.CleanupPendingError
		require.ErrorAs(t, refused.returned(), &pending)
		require.Equal(t, patience, pending.Waited)
		require.Equal(t, []string{"2h0m0s PreemptSent", "3h0m0s NotAcquired"}, polite.told())
		require.Error(t, held.returned())
	})
}

func TestAcquireTimeoutRunsDuringTheMinimumRuntime(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		holder, urgent := w.program("holder", long), w.program("urgent", long)
		held := holder.do(lockguard.Requirement{MinRuntime: 2 * time.Hour}, lasting(5*time.Hour))

		// when one tries, and one waits for an hour
		none, hour := time.Duration(0), time.Hour
		var busy *recipes.NotAcquiredError
		require.ErrorAs(t, urgent.do(lockguard.Requirement{Priority: 5, Forceful: true, AcquireTimeout: &none}, untilCancelled).returned(), &busy)
		refused := urgent.do(lockguard.Requirement{Priority: 5, Forceful: true, AcquireTimeout: &hour}, untilCancelled)
		require.ErrorAs(t, refused.returned(), &busy)
		require.Equal(t, time.Hour, refused.ended)

		// then the holder has not heard of either
		require.NoError(t, held.returned())
		require.Equal(t, []string{"0s Acquired", "5h0m0s Released"}, holder.told())
		require.Empty(t, w.contenders())
	})
}

func TestWaiterThatWasDisplacedAsksWhenTheMinimumRuntimeIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		leaves time.Duration // when the more important one gives up
		asked  string
	}{
		"before the end": {time.Hour, "2h0m0s PreemptSent"},
		"after the end":  {3 * time.Hour, "3h0m0s PreemptSent"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				// given a holder that runs for two hours at least, and one that waits for that
				holder, first, boss := w.program("holder", long), w.program("first", long), w.program("boss", long)
				held := holder.do(lockguard.Requirement{MinRuntime: 2 * time.Hour}, untilCancelled)
				next := first.do(lockguard.Requirement{Priority: 5}, untilCancelled)

				// when a more important one, which preempts nobody, comes and gives up
				w.until(30 * time.Minute)
				patience := c.leaves - 30*time.Minute
				boss.do(lockguard.Requirement{Priority: 9, NeverPreempts: true, AcquireTimeout: &patience}, untilCancelled)

				// then the first one asks as if that one had not been there, or as soon as it has left
				require.Error(t, held.returned())
				require.Equal(t, "boss", only[lockguard.Displaced](first).By.Owner) // it learns of that when it looks again
				require.Equal(t, c.asked, first.told()[1])
				require.True(t, next.holds())
			})
		})
	}
}

func TestWaiterThatQueuesAgainAsksWhenTheMinimumRuntimeIsOver(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		holder, urgent := w.program("holder", long), w.program("urgent", long)
		held := holder.do(lockguard.Requirement{MinRuntime: 2 * time.Hour}, untilCancelled)
		next := urgent.do(lockguard.Requirement{Priority: 5}, untilCancelled)
		w.until(time.Hour)
		require.True(t, w.zk.Expire(urgent.session().ID))

		require.Error(t, held.returned())
		require.Equal(t, []string{"1h0m0s Requeued", "2h0m0s PreemptSent", "2h0m0s Acquired"}, urgent.told())
		require.True(t, next.holds())
	})
}

func TestMinimumRuntimeThatEndsDuringAnOutageIsNoticedAfterIt(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder that runs for two hours at least, and one that waits
		holder, urgent := w.program("holder", long), w.program("urgent", 40*time.Second)
		held := holder.do(lockguard.Requirement{MinRuntime: 2 * time.Hour}, untilCancelled)
		next := urgent.do(lockguard.Requirement{Priority: 5}, untilCancelled)
		id := urgent.session().ID

		// when that one is cut off as the two hours end
		w.until(2*time.Hour - 5*time.Second)
		w.zk.Partition("urgent")
		w.until(2*time.Hour + 25*time.Second)
		require.True(t, held.holds())
		w.zk.Heal()

		// then it asks when it is back, in the same place
		require.Error(t, held.returned())
		require.Equal(t, id, urgent.session().ID)
		require.GreaterOrEqual(t, held.ended, 2*time.Hour+25*time.Second)
		require.Less(t, held.ended, 2*time.Hour+30*time.Second)
		require.True(t, next.holds())
	})
}

func TestHolderThatBecomesSharedKeepsItsMinimumRuntime(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		holder, reader, urgent := w.program("holder", long), w.program("reader", long), w.program("urgent", long)
		held := holder.do(lockguard.Requirement{MinRuntime: 2 * time.Hour}, untilCancelled)
		beside := reader.do(lockguard.Requirement{Mode: priority.Shared}, untilCancelled)
		w.until(time.Hour)
		require.NoError(t, held.hold().Downgrade(t.Context()))
		synctest.Wait()
		require.True(t, beside.holds())

		next := urgent.do(lockguard.Requirement{Priority: 5}, untilCancelled)

		require.Error(t, held.returned())
		require.Error(t, beside.returned())
		require.Equal(t, 2*time.Hour, held.ended)
		require.Equal(t, 2*time.Hour, beside.ended)
		require.Equal(t, 2*time.Hour, next.began())
	})
}

func TestReadersAreAskedTogetherWhenTheLastOfThemMayBe(t *testing.T) {
	sharing := lockguard.Requirement{Mode: priority.Shared, CleanupTimeout: 10 * time.Minute}
	protected := sharing
	protected.MinRuntime = 2 * time.Hour

	t.Run("all run on", func(t *testing.T) {
		story(t, func(t *testing.T, w *world) {
			// given two readers that clean up for too long, one with a minimum runtime
			one, other, urgent := w.program("one", long), w.program("other", long), w.program("urgent", long)
			first := one.do(protected, untilCancelled, lasting(time.Hour))
			second := other.do(sharing, untilCancelled, lasting(time.Hour))

			// when a forceful writer comes
			w.until(30 * time.Minute)
			writer := urgent.do(lockguard.Requirement{Priority: 5, Forceful: true}, untilCancelled)

			// then neither is asked before both may be, and both are taken over at once
			w.until(2*time.Hour - 1)
			require.True(t, first.holds())
			require.True(t, second.holds())
			require.Equal(t, recipes.LossTaken, lostBy(t, first.returned()).Reason)
			require.Equal(t, recipes.LossTaken, lostBy(t, second.returned()).Reason)
			require.Equal(t, []string{"2h0m0s PreemptSent", "2h0m0s PreemptSent", "2h10m0s TakenOver", "2h10m0s Acquired"}, urgent.told())
			require.True(t, writer.holds())
		})
	})
	t.Run("the one that is left alone leaves", func(t *testing.T) {
		story(t, func(t *testing.T, w *world) {
			one, other, urgent := w.program("one", long), w.program("other", long), w.program("urgent", long)
			first := one.do(protected, lasting(time.Hour))
			second := other.do(sharing, untilCancelled, lasting(time.Minute))
			writer := urgent.do(lockguard.Requirement{Priority: 5}, untilCancelled)

			require.NoError(t, first.returned())
			require.Error(t, second.returned())
			require.Equal(t, []string{"1h0m0s PreemptSent", "1h1m0s Acquired"}, urgent.told())
			require.True(t, writer.holds())
		})
	})
	t.Run("another that is left alone comes in", func(t *testing.T) {
		story(t, func(t *testing.T, w *world) {
			// given a writer that waits for a reader's minimum runtime
			one, other, urgent := w.program("one", long), w.program("other", long), w.program("urgent", long)
			first := one.do(protected, untilCancelled)
			writer := urgent.do(lockguard.Requirement{Priority: 5}, untilCancelled)

			// when a reader that is more important than the writer comes in beside it, and leaves later
			w.until(time.Hour)
			important := protected
			important.Priority = 9
			second := other.do(important, lasting(4*time.Hour))
			require.True(t, second.holds())

			// then the first is not asked in vain, but when that one leaves
			w.until(5*time.Hour - 1)
			require.True(t, first.holds())
			require.Error(t, first.returned())
			require.Equal(t, 5*time.Hour, first.ended)
			require.Equal(t, 5*time.Hour, writer.began())
			require.Equal(t, []string{"1h0m0s Acquired", "5h0m0s Released"}, other.told())
		})
	})
}

func TestDeltaSparesHoldersThatAreNearlyAsImportant(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder at 3 with a lease of six hours
		holder, near, far, low := w.program("holder", long), w.program("near", long), w.program("far", long), w.program("low", long)
		held := holder.do(lockguard.Requirement{Priority: 3, LeaseTimeout: 6 * time.Hour, CleanupTimeout: time.Minute}, untilCancelled)

		// when one at 5 comes that asks from 10 above on, behind one at 4 that asks nobody
		w.until(time.Minute)
		last := low.do(lockguard.Requirement{Priority: 4, NeverPreempts: true}, lasting(time.Minute))
		first := near.do(lockguard.Requirement{Priority: 5, PreemptDelta: 10, Forceful: true}, lasting(time.Minute))

		// then it goes first, when the lease is over
		require.Error(t, held.returned())
		require.NoError(t, first.returned())
		require.NoError(t, last.returned())
		require.Equal(t, 6*time.Hour, first.began())
		require.Equal(t, 6*time.Hour+time.Minute, last.began())
		require.Equal(t, []string{"0s Acquired", "6h0m0s PreemptRequested", "6h0m0s Released"}, holder.told())

		// and one at 13 asks at once
		again := holder.do(lockguard.Requirement{Priority: 3}, untilCancelled)
		w.until(7 * time.Hour)
		next := far.do(lockguard.Requirement{Priority: 13, PreemptDelta: 10}, untilCancelled)
		require.Error(t, again.returned())
		require.Equal(t, 7*time.Hour, next.began())
	})
}

func TestOneThatNeverPreemptsGoesAheadAndAsksForTheLeaseAlone(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder with a lease of six hours, and an equal that waits
		holder, equal, never := w.program("holder", long), w.program("equal", long), w.program("never", long)
		held := holder.do(lockguard.Requirement{LeaseTimeout: 6 * time.Hour, CleanupTimeout: time.Hour}, untilCancelled, lasting(2*time.Hour))
		behind := equal.do(lockguard.Requirement{}, untilCancelled)

		// when one comes that is far more important, and never preempts
		w.until(time.Hour)
		first := never.do(lockguard.Requirement{Priority: 1000, NeverPreempts: true, Forceful: true}, lasting(time.Minute))

		// then it asks when the lease is over, takes over at the end of the grace, and goes before the equal
		require.Equal(t, recipes.LossTaken, lostBy(t, held.returned()).Reason)
		require.NoError(t, first.returned())
		require.Equal(t, []string{"6h0m0s PreemptSent", "7h0m0s TakenOver", "7h0m0s Acquired", "7h1m0s Released"}, never.told())
		require.Equal(t, priority.LeaseExpired, only[lockguard.PreemptSent](never).Reason)
		require.Equal(t, 7*time.Hour+time.Minute, behind.began())
	})
}

// The minimum runtime of several locks is that of the work: whoever waits for
// one of them does not wait for work that cannot begin.
func TestMinimumRuntimeUnderSeveralLocksBeginsWithTheLast(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder of the second lock, and a guard that has the first and waits for the second
		holder, several, urgent := w.program("holder", long), w.program("several", long), w.program("urgent", long)
		second := scope + "/second"
		lock, err := holder.client.PriorityLock(second)
		require.NoError(t, err)
		held, err := lock.Acquire(t.Context(), recipes.Request{LeaseTimeout: day})
		require.NoError(t, err)
		var both *lockguard.Hold
		var took time.Duration
		done := make(chan struct{})
		go func() {
			defer close(done)
			both, err = several.guard.AcquireAll(t.Context(), []lockguard.Requirement{
				{Scope: scope, LeaseTimeout: day, MinRuntime: 2 * time.Hour}, {Scope: second, LeaseTimeout: day, MinRuntime: 2 * time.Hour},
			})
			took = w.now()
		}()
		w.until(time.Hour)

		// when a more important request needs the first
		first := urgent.do(lockguard.Requirement{Priority: 5}, lasting(time.Minute))

		// then it has it at once
		require.Equal(t, time.Hour, first.began())
		require.NoError(t, first.returned())

		// but when both are held, it waits for the minimum runtime
		w.until(2 * time.Hour)
		require.NoError(t, held.Release(t.Context()))
		<-done
		require.NoError(t, err)
		require.Equal(t, 2*time.Hour, took)
		w.until(3 * time.Hour)
		again := urgent.do(lockguard.Requirement{Priority: 5}, untilCancelled)
		w.until(4*time.Hour - 1)
		state, err := holder.client.Lock(t.Context(), scope)
		require.NoError(t, err)
		require.Empty(t, state.Holders[0].PreemptedBy)
		w.until(4 * time.Hour)
		state, err = holder.client.Lock(t.Context(), scope)
		require.NoError(t, err)
		require.Len(t, state.Holders[0].PreemptedBy, 1)
		require.NoError(t, both.Release(t.Context()))
		synctest.Wait()
		require.Equal(t, 4*time.Hour, again.began())
	})
}
