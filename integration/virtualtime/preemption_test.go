package virtualtime

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestPreemptedHolderCleansUpUnderTheLockAndGivesItToThePreemptor(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder whose cleanup takes 20 of its 30 minutes, and an equal that waits
		var book ledger
		holder, equal, urgent := w.program("holder", long), w.program("equal", long), w.program("urgent", long)
		var grace error
		var deadline time.Time
		held := holder.do(lockguard.Requirement{CleanupTimeout: 30 * time.Minute}, untilCancelled, func(ctx context.Context) error {
			<-time.After(20 * time.Minute)
			hold, _ := lockguard.FromContext(ctx)
			grace = errors.Join(ctx.Err(), hold.Check(), book.write(hold.Token()))
			deadline, _ = ctx.Deadline()
			return nil
		})
		later := equal.do(lockguard.Requirement{}, untilCancelled)

		// when somebody more important asks
		w.until(time.Hour)
		first := urgent.do(lockguard.Requirement{Priority: 5}, lasting(10*time.Minute))

		// then the work is cancelled in that instant, and says for whom
		var preempted *lockguard.PreemptedError
		require.ErrorAs(t, context.Cause(held.hold().Context()), &preempted)
		require.Equal(t, "urgent", preempted.By)
		require.Equal(t, 30*time.Minute, preempted.Grace)
		require.Equal(t, 90*time.Minute, preempted.Deadline.Sub(w.start))

		// and its hook runs while it still holds, with the end of the grace as its deadline
		require.ErrorIs(t, held.returned(), preempted)
		require.NoError(t, grace)
		require.Equal(t, preempted.Deadline, deadline)
		require.Equal(t, []string{
			"0s Acquired", "1h0m0s PreemptRequested", "1h0m0s CleanupStarted", "1h20m0s CleanupDone", "1h20m0s Released",
		}, holder.told())

		// and the lock goes on in the instant in which the hook has returned: to the more important one, then to the equal
		require.NoError(t, first.returned())
		require.Equal(t, []string{"1h0m0s PreemptSent", "1h20m0s Acquired", "1h30m0s Released"}, urgent.told())
		require.Equal(t, 90*time.Minute, later.began())
		require.NoError(t, book.write(first.hold().Token()))
		require.Greater(t, later.hold().Token(), first.hold().Token())
	})
}

func TestPolitePreemptorWaitsThreeHoursAndLeavesWhole(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder that may clean up for five hours, and takes four
		holder, polite, equal := w.program("holder", long), w.program("polite", long), w.program("equal", long)
		held := holder.do(lockguard.Requirement{CleanupTimeout: 5 * time.Hour}, untilCancelled, lasting(4*time.Hour))

		// when a polite preemptor asks that waits for three
		w.until(time.Hour)
		patience := 3 * time.Hour
		refused := polite.do(lockguard.Requirement{Priority: 5, WaitingTimeout: &patience}, untilCancelled)

		// then it gives up when they are over
		var pending *recipes.CleanupPendingError
		require.ErrorAs(t, refused.returned(), &pending)
		require.Equal(t, patience, pending.Waited)
		require.Equal(t, 4*time.Hour, refused.ended)
		require.Equal(t, []string{"1h0m0s PreemptSent", "4h0m0s NotAcquired"}, polite.told())

		// and nothing of its request is left: no node, no word to the holder
		nodes := w.contenders()
		require.Len(t, nodes, 1)
		require.Contains(t, string(nodes[0].Data), `"owner":"holder"`)
		require.NotContains(t, string(nodes[0].Data), "polite")

		// but the holder goes all the same, to whoever is next
		next := equal.do(lockguard.Requirement{}, untilCancelled)
		var preempted *lockguard.PreemptedError
		require.ErrorAs(t, held.returned(), &preempted)
		require.Equal(t, 6*time.Hour, preempted.Deadline.Sub(w.start))
		require.Equal(t, []string{
			"0s Acquired", "1h0m0s PreemptRequested", "1h0m0s CleanupStarted",
			"4h0m0s PreemptionWithdrawn", "5h0m0s CleanupDone", "5h0m0s Released",
		}, holder.told())
		require.Equal(t, 5*time.Hour, next.began())
		for _, watch := range w.zk.Watches() {
			require.NotEqual(t, "polite", watch.Name, "a watch outlives its request: %v", watch)
		}
	})
}

func TestAcquireTimeoutOfHoursEndsToTheInstantAndTheHolderDoesNotNotice(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder for ten hours
		holder, patient := w.program("holder", long), w.program("patient", long)
		held := holder.do(lockguard.Requirement{}, lasting(10*time.Hour))

		// when an equal is ready to wait for seven
		w.until(30 * time.Minute)
		patience := 7 * time.Hour
		refused := patient.do(lockguard.Requirement{AcquireTimeout: &patience}, untilCancelled)

		// then it leaves when they are over, and knows who was in its way
		var busy *recipes.NotAcquiredError
		require.ErrorAs(t, refused.returned(), &busy)
		require.Equal(t, patience, busy.Waited)
		require.Equal(t, 7*time.Hour+30*time.Minute, refused.ended)
		require.Equal(t, "holder", busy.Holders[0].Owner)
		require.Len(t, w.contenders(), 1)

		// and the holder was not told a word
		require.NoError(t, held.returned())
		require.Equal(t, []string{"0s Acquired", "10h0m0s Released"}, holder.told())
	})
}

func TestLeaseOfHoursEndsWhenItIsOverAndSomebodyWaits(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder with a lease of six hours, and an equal that comes after two
		holder, equal := w.program("holder", long), w.program("equal", long)
		held := holder.do(lockguard.Requirement{LeaseTimeout: 6 * time.Hour, CleanupTimeout: time.Hour}, untilCancelled, lasting(20*time.Minute))
		w.until(2 * time.Hour)
		next := equal.do(lockguard.Requirement{}, untilCancelled)

		// then the holder is asked to go when the lease is over
		var expired *lockguard.LeaseExpiredError
		require.ErrorAs(t, held.returned(), &expired)
		require.Equal(t, 6*time.Hour, expired.Lease)
		require.Equal(t, time.Hour, expired.Grace)
		require.Equal(t, 7*time.Hour, expired.Deadline.Sub(w.start))
		require.Equal(t, []string{
			"0s Acquired", "6h0m0s PreemptRequested", "6h0m0s CleanupStarted", "6h20m0s CleanupDone", "6h20m0s Released",
		}, holder.told())
		require.Equal(t, 6*time.Hour+20*time.Minute, next.began())
	})
}

func TestLeaseThatRunsOutDoesNothingUntilSomebodyAsks(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder whose lease of an hour was extended, and ran out
		holder, late := w.program("holder", long), w.program("late", long)
		held := holder.do(lockguard.Requirement{LeaseTimeout: time.Hour}, untilCancelled)
		w.until(50 * time.Minute)
		require.NoError(t, held.hold().Extend(t.Context(), 2*time.Hour))
		w.until(2*time.Hour + 49*time.Minute)
		patience := time.Duration(0)
		require.Error(t, late.do(lockguard.Requirement{AcquireTimeout: &patience}, untilCancelled).returned())
		w.until(5 * time.Hour)
		require.True(t, held.holds())

		// when somebody asks
		next := late.do(lockguard.Requirement{}, untilCancelled)

		// then it goes as soon as that one has looked at it closely, since it has nothing to clean up
		const rest = 25 * time.Millisecond // before that: most locks are handed over sooner
		require.Error(t, held.returned())
		require.Equal(t, 5*time.Hour+rest, next.began())
		require.Equal(t, []string{"0s Acquired", "50m0s Extended"}, holder.told()[:2])
	})
}

func TestLeaseOfAHolderThatOverrunsItsGraceIsTakenByAnEqual(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder with a lease of six hours and a cleanup of one, which takes two
		holder, equal := w.program("holder", long), w.program("equal", long)
		held := holder.do(lockguard.Requirement{LeaseTimeout: 6 * time.Hour, CleanupTimeout: time.Hour}, untilCancelled, lasting(2*time.Hour))
		next := equal.do(lockguard.Requirement{}, untilCancelled)

		// then a polite equal holds in the instant in which the grace is over
		lost := lostBy(t, held.returned())
		require.Equal(t, recipes.LossTaken, lost.Reason)
		require.Equal(t, "equal", lost.By)
		require.Equal(t, []string{"6h0m0s PreemptSent", "7h0m0s TakenOver", "7h0m0s Acquired"}, equal.told())
		require.Equal(t, 7*time.Hour, only[lockguard.Lost](holder).At.Sub(w.start))
		require.True(t, next.holds())
	})
}
