package virtualtime

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func TestPreemptedHolderCleansUpUnderTheLockAndGivesItToThePreemptor(t *testing.T) {
	run(t, func(w *world) {
		// given a holder whose cleanup takes 20 of its 30 minutes, and an equal that waits
		var book ledger
		holder, equal, urgent := w.Program("holder", long), w.Program("equal", long), w.Program("urgent", long)
		var grace error
		var deadline time.Time
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{CleanupTimeout: 30 * time.Minute}}, untilCancelled, func(ctx context.Context) error {
			<-time.After(20 * time.Minute)
			hold, _ := lockguard.FromContext(ctx)
			grace = errors.Join(ctx.Err(), hold.Check(), book.write(hold.Token()))
			deadline, _ = ctx.Deadline()
			return nil
		})
		later := equal.Do(lockguard.Requirement{}, untilCancelled)

		// when somebody more important asks
		w.Until(time.Hour)
		first := urgent.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5}}, lasting(10*time.Minute))

		// then the work is cancelled in that instant, and says for whom
		var preempted *lockguard.PreemptedError
		require.ErrorAs(w, context.Cause(held.Hold().Context()), &preempted)
		require.Equal(w, "urgent", preempted.By)
		require.Equal(w, 30*time.Minute, preempted.Grace)
		require.Equal(w, 90*time.Minute, w.Since(preempted.Deadline))

		// and once, although it reads its node again after a reconnect
		w.Until(61 * time.Minute)
		require.True(w, w.Disconnect(holder.Session().ID))

		// and its hook runs while it still holds, with the end of the grace as its deadline
		require.ErrorIs(w, held.Returned(), preempted)
		require.NoError(w, grace)
		require.Equal(w, preempted.Deadline, deadline)
		require.Equal(w, []string{
			"0s Acquired", "1h0m0s PreemptRequested", "1h0m0s CleanupStarted", "1h20m0s CleanupDone", "1h20m0s Released",
		}, holder.Told())

		// and the lock goes on in the instant in which the hook has returned: to the more important one, then to the equal
		require.NoError(w, first.Returned())
		require.Equal(w, []string{"1h0m0s PreemptSent", "1h20m0s Acquired", "1h30m0s Released"}, urgent.Told())
		require.Equal(w, 90*time.Minute, later.Began())
		require.NoError(w, book.write(first.Hold().Token()))
		require.Greater(w, later.Hold().Token(), first.Hold().Token())
	})
}

func TestPolitePreemptorWaitsThreeHoursAndLeavesWhole(t *testing.T) {
	run(t, func(w *world) {
		// given a holder that may clean up for five hours, and takes four
		holder, polite, equal := w.Program("holder", long), w.Program("polite", long), w.Program("equal", long)
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{CleanupTimeout: 5 * time.Hour}}, untilCancelled, lasting(4*time.Hour))

		// when a polite preemptor asks that waits for three
		w.Until(time.Hour)
		patience := 3 * time.Hour
		refused := polite.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5, WaitingTimeout: &patience}}, untilCancelled)

		// then it gives up when they are over
		var pending *lock.CleanupPendingError
		require.ErrorAs(w, refused.Returned(), &pending)
		require.Equal(w, patience, pending.Waited)
		require.Equal(w, 4*time.Hour, refused.Ended())
		require.Equal(w, []string{"1h0m0s PreemptSent", "4h0m0s NotAcquired"}, polite.Told())

		// and nothing of its request is left: no node, no word to the holder
		nodes := contenders(w)
		require.Len(w, nodes, 1)
		require.Contains(w, string(nodes[0].Data), `"owner":"holder"`)
		require.NotContains(w, string(nodes[0].Data), "polite")

		// but the holder releases all the same, to the next waiter
		next := equal.Do(lockguard.Requirement{}, untilCancelled)
		var preempted *lockguard.PreemptedError
		require.ErrorAs(w, held.Returned(), &preempted)
		require.Equal(w, 6*time.Hour, w.Since(preempted.Deadline))
		require.Equal(w, []string{
			"0s Acquired", "1h0m0s PreemptRequested", "1h0m0s CleanupStarted",
			"4h0m0s PreemptionWithdrawn", "5h0m0s CleanupDone", "5h0m0s Released",
		}, holder.Told())
		require.Equal(w, 5*time.Hour, next.Began())
		for _, watch := range w.Watches() {
			require.NotEqual(w, "polite", watch.Name, "a watch outlives its request: %v", watch)
		}
	})
}

func TestLeaseOfHoursEndsWhenItIsOverAndSomebodyWaits(t *testing.T) {
	run(t, func(w *world) {
		// given a holder with a lease of six hours, and an equal that comes after two
		holder, equal := w.Program("holder", long), w.Program("equal", long)
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{LeaseTimeout: 6 * time.Hour, CleanupTimeout: time.Hour}}, untilCancelled, lasting(20*time.Minute))
		w.Until(2 * time.Hour)
		next := equal.Do(lockguard.Requirement{}, untilCancelled)

		// then the holder is preempted when the lease is over
		var expired *lockguard.LeaseExpiredError
		require.ErrorAs(w, held.Returned(), &expired)
		require.Equal(w, 6*time.Hour, expired.Lease)
		require.Equal(w, time.Hour, expired.Grace)
		require.Equal(w, 7*time.Hour, w.Since(expired.Deadline))
		require.Equal(w, []string{
			"0s Acquired", "6h0m0s PreemptRequested", "6h0m0s CleanupStarted", "6h20m0s CleanupDone", "6h20m0s Released",
		}, holder.Told())
		require.Equal(w, 6*time.Hour+20*time.Minute, next.Began())
	})
}

func TestLeaseThatRunsOutDoesNothingUntilSomebodyAsks(t *testing.T) {
	run(t, func(w *world) {
		// given a holder whose lease of an hour was extended, and ran out
		holder, late := w.Program("holder", long), w.Program("late", long)
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{LeaseTimeout: time.Hour}}, untilCancelled)
		w.Until(50 * time.Minute)
		require.NoError(w, held.Hold().Extend(w.Context(), 2*time.Hour))
		w.Until(2*time.Hour + 49*time.Minute)
		patience := time.Duration(0)
		require.Error(w, late.Do(lockguard.Requirement{Terms: priority.Terms{AcquireTimeout: &patience}}, untilCancelled).Returned())
		w.Until(5 * time.Hour)
		require.True(w, held.Holds())

		// when somebody asks
		next := late.Do(lockguard.Requirement{}, untilCancelled)

		// then it goes as soon as that one has looked at it closely, since it has nothing to clean up
		const rest = 25 * time.Millisecond // before that: most locks are handed over sooner
		require.Error(w, held.Returned())
		require.Equal(w, 5*time.Hour+rest, next.Began())
		require.Equal(w, []string{"0s Acquired", "50m0s Extended"}, holder.Told()[:2])
	})
}
