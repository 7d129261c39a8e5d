package virtualtime

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// overrunning is cleanup that takes thrice as long as it may, ignores its
// context, and writes to what the lock protects at the end.
func overrunning(book *ledger, refused *error) lockguard.Hook {
	return func(ctx context.Context) error {
		<-time.After(30 * time.Minute)
		hold, _ := lockguard.FromContext(ctx)
		*refused = book.write(hold.Token())
		return nil
	}
}

func TestForcefulPreemptorTakesTheLockInTheInstantInWhichTheGraceIsOver(t *testing.T) {
	run(t, func(w *world) {
		// given a holder whose cleanup takes 30 minutes instead of 10
		var book ledger
		var refused error
		holder, urgent := w.Program("holder", long), w.Program("urgent", long)
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{CleanupTimeout: 10 * time.Minute}}, untilCancelled, overrunning(&book, &refused))
		require.NoError(w, book.write(held.Hold().Token()))

		// when a forceful preemptor asks
		w.Until(time.Minute)
		taker := urgent.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5, Forceful: true}}, func(ctx context.Context) error {
			hold, _ := lockguard.FromContext(ctx)
			return errors.Join(book.write(hold.Token()), untilCancelled(ctx))
		})

		// then it has to wait for the grace, and not an instant longer
		w.Until(11*time.Minute - 1)
		require.Nil(w, taker.Hold())
		require.NoError(w, held.Hold().Check(), "it holds during its grace")
		w.Until(11 * time.Minute)
		require.Equal(w, []string{"1m0s PreemptSent", "11m0s TakenOver", "11m0s Acquired"}, urgent.Told())

		// and the holder learns of its loss in the same instant, but its hook does not listen: what it writes
		// is refused
		lost := virtual.LostBy(w.T, held.Returned())
		require.Equal(w, lock.LossTaken, lost.Reason)
		require.Equal(w, "urgent", lost.By)
		require.Equal(w, 11*time.Minute, w.Since(virtual.About[lockguard.Lost](holder).At))
		var stale *staleError
		require.ErrorAs(w, refused, &stale)
		require.Equal(w, 31*time.Minute, held.Ended())
		require.True(w, taker.Holds())
	})
}

// The grace counts from the moment in which the preemptor knows that the holder
// was asked: on a slow network it never takes over early.
func TestOverrunIsReportedAtTheEndOfTheGraceAndTheTakeoverNeverComesEarly(t *testing.T) {
	const slow = 70 * time.Millisecond // the preemptor's way there and back
	run(t, func(w *world) {
		// given a holder that overruns, and a preemptor on a slow network
		var book ledger
		var refused error
		holder, urgent := w.Program("holder", long), w.Program("urgent", long)
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{CleanupTimeout: 10 * time.Minute}}, untilCancelled, overrunning(&book, &refused))
		w.On(zktest.Op(zktest.Multi).From("urgent").Containing(zktest.Check)).DelayReply(slow) // the preempt request

		// when that one asks
		w.Until(time.Minute)
		taker := urgent.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5, Forceful: true}}, untilCancelled)

		// then the holder learns at the end of the grace period that it has overrun it, and only then that it
		// has lost
		require.Equal(w, lock.LossTaken, virtual.LostBy(w.T, held.Returned()).Reason)
		overrun := virtual.Only[lockguard.CleanupOverrun](holder)
		require.Equal(w, 10*time.Minute, overrun.Grace)
		require.False(w, overrun.WorkRunning)
		require.Equal(w, []string{
			"0s Acquired", "1m0s PreemptRequested", "1m0s CleanupStarted",
			"11m0s CleanupOverrun", "11m0.07s Lost", "31m0s CleanupDone",
		}, holder.Told())
		require.Equal(w, 11*time.Minute+slow, taker.Began())
	})
}

// A holder that is cut off cannot be notified. Until it hears of the takeover,
// at most until its deadline, only the token protects.
func TestHolderThatIsCutOffIsTakenOverAndToldWhenTheNetworkIsBack(t *testing.T) {
	run(t, func(w *world) {
		// given a holder that is cut off
		var book ledger
		holder, urgent := w.Program("holder", long), w.Program("urgent", long)
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{CleanupTimeout: 10 * time.Second}}, untilCancelled,
			func(context.Context) error { return nil })
		require.NoError(w, book.write(held.Hold().Token()))
		w.Until(time.Minute)
		w.Partition("holder")

		// when a forceful preemptor asks, and its grace is over
		w.Until(2 * time.Minute)
		taker := urgent.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5, Forceful: true}}, untilCancelled)
		w.Until(2*time.Minute + 10*time.Second)

		// then that one holds, and has a greater token
		require.Equal(w, []string{"2m0s PreemptSent", "2m10s TakenOver", "2m10s Acquired"}, urgent.Told())
		require.Greater(w, taker.Hold().Token(), held.Hold().Token())
		require.NoError(w, book.write(taker.Hold().Token()))

		// and the old holder, which believes that it still holds, is refused by what it writes to
		w.Until(5 * time.Minute)
		require.True(w, held.Holds(), "it cannot know")
		var stale *staleError
		require.ErrorAs(w, book.write(held.Hold().Token()), &stale)

		// and it learns of its loss in the instant in which the network is back
		w.Heal()
		synctest.Wait()
		lost := virtual.LostBy(w.T, held.Returned())
		require.Equal(w, lock.LossTaken, lost.Reason)
		require.Equal(w, "urgent", lost.By)
		require.Equal(w, 5*time.Minute, held.Ended())
		require.Equal(w, []string{"0s Acquired", "5m0s Lost", "5m0s CleanupStarted", "5m0s CleanupDone"}, holder.Told())
		require.True(w, taker.Holds())
	})
}
