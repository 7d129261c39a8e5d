package virtualtime

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/inspect"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func TestHolderIsAskedInTheInstantInWhichItsMinimumRuntimeIsOver(t *testing.T) {
	run(t, func(w *world) {
		// given a holder that is to run for two hours at least
		holder, urgent := w.Program("holder", long), w.Program("urgent", long)
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{MinRuntime: 2 * time.Hour, CleanupTimeout: 10 * time.Minute}}, untilCancelled, lasting(5*time.Minute))

		// when somebody more important comes before that
		w.Until(30 * time.Minute)
		next := urgent.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5, Forceful: true}}, untilCancelled)

		// then the holder works on, and the lock says why
		w.Until(2*time.Hour - 1)
		require.True(w, held.Holds())
		state := urgent.Lock(scope)
		require.Equal(w, 2*time.Hour, state.Holders[0].MinRuntime)
		require.InDelta(w, time.Millisecond, state.Holders[0].MinRuntimeLeft, float64(time.Millisecond))
		plan, ok := inspect.PlanOf(state, state.Waiters[0].ID)
		require.True(w, ok)
		require.Equal(w, priority.BarMinRuntime, plan.Obstacles[0].Bar)

		// and is asked when it is over, with its whole grace
		var preempted *lockguard.PreemptedError
		require.ErrorAs(w, held.Returned(), &preempted)
		require.Equal(w, 10*time.Minute, preempted.Grace)
		require.Equal(w, []string{
			"0s Acquired", "2h0m0s PreemptRequested", "2h0m0s CleanupStarted", "2h5m0s CleanupDone", "2h5m0s Released",
		}, holder.Told())
		require.Equal(w, 2*time.Hour+5*time.Minute, next.Began())
	})
}

// A new lease does not begin the minimum runtime anew: who holds has run as long.
func TestExtensionDoesNotBeginTheMinimumRuntimeAnew(t *testing.T) {
	run(t, func(w *world) {
		holder, urgent := w.Program("holder", long), w.Program("urgent", long)
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{MinRuntime: 2 * time.Hour}}, untilCancelled)
		since := urgent.Lock(scope).Holders[0].Since
		w.Until(time.Hour)
		require.NoError(w, held.Hold().Extend(w.Context(), day))
		require.Equal(w, since, urgent.Lock(scope).Holders[0].Since, "the hold is as old as it was")
		urgent.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5}}, untilCancelled)
		require.Error(w, held.Returned())
		require.Equal(w, []string{"2h0m0s PreemptSent", "2h0m0s Acquired"}, urgent.Told())
	})
}

func TestHolderWhoseMinimumRuntimeIsItsLeaseIsAskedAtTheEndOfTheLeaseAlone(t *testing.T) {
	run(t, func(w *world) {
		// given a holder that runs as long as its lease, which it extends
		holder, urgent := w.Program("holder", long), w.Program("urgent", long)
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{LeaseTimeout: 6 * time.Hour, MinRuntime: 6 * time.Hour, CleanupTimeout: time.Hour}}, untilCancelled, lasting(time.Minute))
		next := urgent.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5, Forceful: true}}, untilCancelled)
		w.Until(5 * time.Hour)
		require.NoError(w, held.Hold().Extend(w.Context(), 4*time.Hour))

		// then it is asked when the new lease is over, for that reason
		var expired *lockguard.LeaseExpiredError
		require.ErrorAs(w, held.Returned(), &expired)
		require.Equal(w, []string{
			"0s Acquired", "5h0m0s Extended", "9h0m0s PreemptRequested", "9h0m0s CleanupStarted", "9h1m0s CleanupDone", "9h1m0s Released",
		}, holder.Told())
		require.Equal(w, 9*time.Hour+time.Minute, next.Began())
	})
}

func TestEmergencyDoesNotWaitForTheMinimumRuntime(t *testing.T) {
	each(t, map[string]time.Duration{"a while": 2 * time.Hour, "the whole lease": day}, func(w *world, least time.Duration) {
		// given a holder that is left alone by somebody important
		holder, urgent, operator := w.Program("holder", long), w.Program("urgent", long), w.Program("operator", long)
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{MinRuntime: least}}, untilCancelled)
		urgent.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5}}, untilCancelled)
		w.Until(time.Hour)
		require.True(w, held.Holds())

		// when an operator asks, by the way that no job has, with a delta that counts for nothing
		g := operator.Take(scope, lock.Request{
			Terms:    priority.Terms{Priority: priority.Emergency, PreemptDelta: 1 << 31},
			Override: &lock.Mark{ID: "INC-1"}, Vouch: func(context.Context, lock.Mark) error { return nil },
		})

		// then the holder goes at once
		require.Error(w, held.Returned())
		require.Equal(w, time.Hour, held.Ended())
		require.NoError(w, g.Release(w.Context()))
	})
}

func TestPatienceOfAPolitePreemptorCountsFromItsRequestToGo(t *testing.T) {
	run(t, func(w *world) {
		// given a holder that runs for two hours at least, and cleans up for four
		holder, polite := w.Program("holder", long), w.Program("polite", long)
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{MinRuntime: 2 * time.Hour, CleanupTimeout: 5 * time.Hour}}, untilCancelled, lasting(4*time.Hour))

		// when one comes that waits an hour for its cleanup
		patience := time.Hour
		refused := polite.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5, WaitingTimeout: &patience}}, untilCancelled)

		// then the hour begins when it asks
		var pending *lock.CleanupPendingError
		require.ErrorAs(w, refused.Returned(), &pending)
		require.Equal(w, patience, pending.Waited)
		require.Equal(w, []string{"2h0m0s PreemptSent", "3h0m0s NotAcquired"}, polite.Told())
		require.Error(w, held.Returned())
	})
}

func TestAcquireTimeoutRunsDuringTheMinimumRuntime(t *testing.T) {
	run(t, func(w *world) {
		holder, urgent := w.Program("holder", long), w.Program("urgent", long)
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{MinRuntime: 2 * time.Hour}}, lasting(5*time.Hour))

		// when one tries, and one waits for an hour
		none, hour := time.Duration(0), time.Hour
		var busy *lock.NotAcquiredError
		require.ErrorAs(w, urgent.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5, Forceful: true, AcquireTimeout: &none}}, untilCancelled).Returned(), &busy)
		refused := urgent.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5, Forceful: true, AcquireTimeout: &hour}}, untilCancelled)
		require.ErrorAs(w, refused.Returned(), &busy)
		require.Equal(w, hour, busy.Waited)
		require.Equal(w, "holder", busy.Holders[0].Owner)
		require.Equal(w, time.Hour, refused.Ended())

		// then the holder has not heard of either
		require.NoError(w, held.Returned())
		require.Equal(w, []string{"0s Acquired", "5h0m0s Released"}, holder.Told())
		require.Empty(w, contenders(w))
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
			run(t, func(w *world) {
				// given a holder that runs for two hours at least, and one that waits for that
				holder, first, boss := w.Program("holder", long), w.Program("first", long), w.Program("boss", long)
				held := holder.Do(lockguard.Requirement{Terms: priority.Terms{MinRuntime: 2 * time.Hour}}, untilCancelled)
				next := first.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5}}, untilCancelled)

				// when a more important one, which does not preempt, comes and gives
				// up
				w.Until(30 * time.Minute)
				patience := c.leaves - 30*time.Minute
				boss.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 9, NeverPreempts: true, AcquireTimeout: &patience}}, untilCancelled)

				// then the first one asks as if that one had not been there, or as soon as it has left
				require.Error(w, held.Returned())
				require.Equal(w, "boss", virtual.Only[lock.Displaced](first).By.Owner) // it learns of that at its next read
				require.Equal(w, c.asked, first.Told()[1])
				require.True(w, next.Holds())
			})
		})
	}
}

func TestWaiterThatQueuesAgainAsksWhenTheMinimumRuntimeIsOver(t *testing.T) {
	run(t, func(w *world) {
		holder, urgent := w.Program("holder", long), w.Program("urgent", long)
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{MinRuntime: 2 * time.Hour}}, untilCancelled)
		next := urgent.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5}}, untilCancelled)
		w.Until(time.Hour)
		require.True(w, w.Expire(urgent.Session().ID))

		require.Error(w, held.Returned())
		require.Equal(w, []string{"1h0m0s Requeued", "2h0m0s PreemptSent", "2h0m0s Acquired"}, urgent.Told())
		require.True(w, next.Holds())
	})
}

func TestMinimumRuntimeThatEndsDuringAnOutageIsNoticedAfterIt(t *testing.T) {
	run(t, func(w *world) {
		// given a holder that runs for two hours at least, and one that waits
		holder, urgent := w.Program("holder", long), w.Program("urgent", 40*time.Second)
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{MinRuntime: 2 * time.Hour}}, untilCancelled)
		next := urgent.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5}}, untilCancelled)
		id := urgent.Session().ID

		// when that one is cut off as the two hours end
		w.Until(2*time.Hour - 5*time.Second)
		w.Partition("urgent")
		w.Until(2*time.Hour + 25*time.Second)
		require.True(w, held.Holds())
		w.Heal()

		// then it asks when it is back, in the same place
		require.Error(w, held.Returned())
		require.Equal(w, id, urgent.Session().ID)
		require.GreaterOrEqual(w, held.Ended(), 2*time.Hour+25*time.Second)
		require.Less(w, held.Ended(), 2*time.Hour+30*time.Second)
		require.True(w, next.Holds())
	})
}

func TestHolderThatBecomesSharedKeepsItsMinimumRuntime(t *testing.T) {
	run(t, func(w *world) {
		holder, reader, urgent := w.Program("holder", long), w.Program("reader", long), w.Program("urgent", long)
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{MinRuntime: 2 * time.Hour}}, untilCancelled)
		beside := reader.Do(lockguard.Requirement{Terms: priority.Terms{Mode: priority.Shared}}, untilCancelled)
		w.Until(time.Hour)
		require.NoError(w, held.Hold().Downgrade(w.Context()))
		synctest.Wait()
		require.True(w, beside.Holds())

		next := urgent.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5}}, untilCancelled)

		require.Error(w, held.Returned())
		require.Error(w, beside.Returned())
		require.Equal(w, 2*time.Hour, held.Ended())
		require.Equal(w, 2*time.Hour, beside.Ended())
		require.Equal(w, 2*time.Hour, next.Began())
	})
}

func TestReadersAreAskedTogetherWhenTheLastOfThemMayBe(t *testing.T) {
	sharing := lockguard.Requirement{Terms: priority.Terms{Mode: priority.Shared, CleanupTimeout: 10 * time.Minute}}
	protected := sharing
	protected.MinRuntime = 2 * time.Hour

	t.Run("all run on", func(t *testing.T) {
		run(t, func(w *world) {
			// given two readers that clean up for too long, one with a minimum runtime
			one, other, urgent := w.Program("one", long), w.Program("other", long), w.Program("urgent", long)
			first := one.Do(protected, untilCancelled, lasting(time.Hour))
			second := other.Do(sharing, untilCancelled, lasting(time.Hour))

			// when a forceful writer comes
			w.Until(30 * time.Minute)
			writer := urgent.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5, Forceful: true}}, untilCancelled)

			// then neither is asked before both may be, and both are taken over at once
			w.Until(2*time.Hour - 1)
			require.True(w, first.Holds())
			require.True(w, second.Holds())
			require.Equal(w, lock.LossTaken, virtual.LostBy(w.T, first.Returned()).Reason)
			require.Equal(w, lock.LossTaken, virtual.LostBy(w.T, second.Returned()).Reason)
			require.Equal(w, []string{"2h0m0s PreemptSent", "2h0m0s PreemptSent", "2h10m0s TakenOver", "2h10m0s Acquired"}, urgent.Told())
			require.True(w, writer.Holds())
		})
	})
	t.Run("the one that is left alone leaves", func(t *testing.T) {
		run(t, func(w *world) {
			one, other, urgent := w.Program("one", long), w.Program("other", long), w.Program("urgent", long)
			first := one.Do(protected, lasting(time.Hour))
			second := other.Do(sharing, untilCancelled, lasting(time.Minute))
			writer := urgent.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5}}, untilCancelled)

			require.NoError(w, first.Returned())
			require.Error(w, second.Returned())
			require.Equal(w, []string{"1h0m0s PreemptSent", "1h1m0s Acquired"}, urgent.Told())
			require.True(w, writer.Holds())
		})
	})
	t.Run("another that is left alone comes in", func(t *testing.T) {
		run(t, func(w *world) {
			// given a writer that waits for a reader's minimum runtime
			one, other, urgent := w.Program("one", long), w.Program("other", long), w.Program("urgent", long)
			first := one.Do(protected, untilCancelled)
			writer := urgent.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5}}, untilCancelled)

			// when a reader that is more important than the writer comes in beside it, and leaves later
			w.Until(time.Hour)
			important := protected
			important.Priority = 9
			second := other.Do(important, lasting(4*time.Hour))
			require.True(w, second.Holds())

			// then the first is not asked in vain, but when that one leaves
			w.Until(5*time.Hour - 1)
			require.True(w, first.Holds())
			require.Error(w, first.Returned())
			require.Equal(w, 5*time.Hour, first.Ended())
			require.Equal(w, 5*time.Hour, writer.Began())
			require.Equal(w, []string{"1h0m0s Acquired", "5h0m0s Released"}, other.Told())
		})
	})
}

func TestDeltaSparesHoldersThatAreNearlyAsImportant(t *testing.T) {
	run(t, func(w *world) {
		// given a holder at 3 with a lease of six hours
		holder, near, far, low := w.Program("holder", long), w.Program("near", long), w.Program("far", long), w.Program("low", long)
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 3, LeaseTimeout: 6 * time.Hour, CleanupTimeout: time.Minute}}, untilCancelled)

		// when one at 5 comes that asks from 10 above on, behind one at 4 that does not
		// preempt
		w.Until(time.Minute)
		last := low.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 4, NeverPreempts: true}}, lasting(time.Minute))
		first := near.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5, PreemptDelta: 10, Forceful: true}}, lasting(time.Minute))

		// then it goes first, when the lease is over
		require.Error(w, held.Returned())
		require.NoError(w, first.Returned())
		require.NoError(w, last.Returned())
		require.Equal(w, 6*time.Hour, first.Began())
		require.Equal(w, 6*time.Hour+time.Minute, last.Began())
		require.Equal(w, []string{"0s Acquired", "6h0m0s PreemptRequested", "6h0m0s Released"}, holder.Told())

		// and one at 13 asks at once
		again := holder.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 3}}, untilCancelled)
		w.Until(7 * time.Hour)
		next := far.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 13, PreemptDelta: 10}}, untilCancelled)
		require.Error(w, again.Returned())
		require.Equal(w, 7*time.Hour, next.Began())
	})
}

func TestOneThatNeverPreemptsGoesAheadAndAsksForTheLeaseAlone(t *testing.T) {
	run(t, func(w *world) {
		// given a holder with a lease of six hours, and an equal that waits
		holder, equal, never := w.Program("holder", long), w.Program("equal", long), w.Program("never", long)
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{LeaseTimeout: 6 * time.Hour, CleanupTimeout: time.Hour}}, untilCancelled, lasting(2*time.Hour))
		behind := equal.Do(lockguard.Requirement{}, untilCancelled)

		// when one comes that is far more important, and never preempts
		w.Until(time.Hour)
		first := never.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 1000, NeverPreempts: true, Forceful: true}}, lasting(time.Minute))

		// then it asks when the lease is over, takes over at the end of the grace, and goes before the equal
		require.Equal(w, lock.LossTaken, virtual.LostBy(w.T, held.Returned()).Reason)
		require.NoError(w, first.Returned())
		require.Equal(w, []string{"6h0m0s PreemptSent", "7h0m0s TakenOver", "7h0m0s Acquired", "7h1m0s Released"}, never.Told())
		require.Equal(w, priority.LeaseExpired, virtual.Only[lock.PreemptSent](never).Reason)
		require.Equal(w, 7*time.Hour+time.Minute, behind.Began())
	})
}
