package virtualtime

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// overrunning is cleanup that takes thrice as long as it may, does not care
// what it is told, and writes to what the lock protects at the end.
func overrunning(book *ledger, refused *error) lockguard.Hook {
	return func(ctx context.Context) error {
		<-time.After(30 * time.Minute)
		hold, _ := lockguard.FromContext(ctx)
		*refused = book.write(hold.Token())
		return nil
	}
}

func TestForcefulPreemptorTakesTheLockInTheInstantInWhichTheGraceIsOver(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder whose cleanup takes 30 minutes instead of 10
		var book ledger
		var refused error
		holder, urgent := w.program("holder", long), w.program("urgent", long)
		held := holder.do(lockguard.Requirement{CleanupTimeout: 10 * time.Minute}, untilCancelled, overrunning(&book, &refused))
		require.NoError(t, book.write(held.hold().Token()))

		// when a forceful preemptor asks
		w.until(time.Minute)
		taker := urgent.do(lockguard.Requirement{Priority: 5, Forceful: true}, func(ctx context.Context) error {
			hold, _ := lockguard.FromContext(ctx)
			return errors.Join(book.write(hold.Token()), untilCancelled(ctx))
		})

		// then it has to wait for the grace, and not an instant longer
		w.until(11*time.Minute - 1)
		require.Nil(t, taker.hold())
		require.NoError(t, held.hold().Check(), "it holds during its grace")
		w.until(11 * time.Minute)
		require.Equal(t, []string{"1m0s PreemptSent", "11m0s TakenOver", "11m0s Acquired"}, urgent.told())

		// and the holder is told in the same instant, but its hook does not listen: what it writes is refused
		lost := lostBy(t, held.returned())
		require.Equal(t, recipes.LossTaken, lost.Reason)
		require.Equal(t, "urgent", lost.By)
		require.Equal(t, 11*time.Minute, only[lockguard.Lost](holder).At.Sub(w.start))
		var stale *staleError
		require.ErrorAs(t, refused, &stale)
		require.Equal(t, 31*time.Minute, held.ended)
		require.True(t, taker.holds())
	})
}

// The grace counts from the moment in which the preemptor knows that the holder
// was asked: on a slow network it never takes over early.
func TestOverrunIsToldAtTheEndOfTheGraceAndTheTakeoverNeverComesEarly(t *testing.T) {
	const slow = 70 * time.Millisecond // the preemptor's way there and back
	story(t, func(t *testing.T, w *world) {
		// given a holder that overruns, and a preemptor on a slow network
		var book ledger
		var refused error
		holder, urgent := w.program("holder", long), w.program("urgent", long)
		held := holder.do(lockguard.Requirement{CleanupTimeout: 10 * time.Minute}, untilCancelled, overrunning(&book, &refused))
		w.zk.On(zktest.Op(zktest.Multi).From("urgent").Containing(zktest.Check)).DelayReply(slow) // the preempt request

		// when that one asks
		w.until(time.Minute)
		taker := urgent.do(lockguard.Requirement{Priority: 5, Forceful: true}, untilCancelled)

		// then the holder is told at the end of the grace that it has overrun it, and only then that it has lost
		require.Equal(t, recipes.LossTaken, lostBy(t, held.returned()).Reason)
		overrun := only[lockguard.CleanupOverrun](holder)
		require.Equal(t, 10*time.Minute, overrun.Grace)
		require.False(t, overrun.WorkRunning)
		require.Equal(t, []string{
			"0s Acquired", "1m0s PreemptRequested", "1m0s CleanupStarted",
			"11m0s CleanupOverrun", "11m0.07s Lost", "31m0s CleanupDone",
		}, holder.told())
		require.Equal(t, 11*time.Minute+slow, taker.began())
	})
}

func TestImpatientForcefulPreemptorShortensTheGrace(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder with five hours of cleanup, and what its hook is told
		holder, urgent := w.program("holder", long), w.program("urgent", long)
		var told error
		var at time.Duration
		held := holder.do(lockguard.Requirement{CleanupTimeout: 5 * time.Hour}, untilCancelled, func(ctx context.Context) error {
			<-ctx.Done()
			told, at = context.Cause(ctx), w.now()
			<-time.After(time.Minute)
			return nil
		})

		// when a forceful preemptor waits for three at most
		w.until(time.Hour)
		patience := 3 * time.Hour
		taker := urgent.do(lockguard.Requirement{Priority: 5, Forceful: true, WaitingTimeout: &patience}, untilCancelled)

		// then the grace is three hours
		require.Equal(t, recipes.LossTaken, lostBy(t, held.returned()).Reason)
		require.Equal(t, 4*time.Hour, at)
		require.Error(t, told)
		require.Equal(t, 4*time.Hour, taker.began())
		require.Equal(t, patience, only[lockguard.PreemptRequested](holder).Grace)
	})
}

// Nobody can tell a holder that is cut off. Until it hears of the takeover, at
// most until its deadline, the token alone protects.
func TestHolderThatIsCutOffIsTakenOverAndToldWhenTheNetworkIsBack(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder that is cut off
		var book ledger
		holder, urgent := w.program("holder", long), w.program("urgent", long)
		held := holder.do(lockguard.Requirement{CleanupTimeout: 10 * time.Second}, untilCancelled,
			func(context.Context) error { return nil })
		require.NoError(t, book.write(held.hold().Token()))
		w.until(time.Minute)
		w.zk.Partition("holder")

		// when a forceful preemptor asks, and its grace is over
		w.until(2 * time.Minute)
		taker := urgent.do(lockguard.Requirement{Priority: 5, Forceful: true}, untilCancelled)
		w.until(2*time.Minute + 10*time.Second)

		// then that one holds, and has a greater token
		require.Equal(t, []string{"2m0s PreemptSent", "2m10s TakenOver", "2m10s Acquired"}, urgent.told())
		require.Greater(t, taker.hold().Token(), held.hold().Token())
		require.NoError(t, book.write(taker.hold().Token()))

		// and the old holder, which believes that it still holds, is refused by what it writes to
		w.until(5 * time.Minute)
		require.True(t, held.holds(), "it cannot know")
		var stale *staleError
		require.ErrorAs(t, book.write(held.hold().Token()), &stale)

		// and it is told in the instant in which the network is back
		w.zk.Heal()
		synctest.Wait()
		lost := lostBy(t, held.returned())
		require.Equal(t, recipes.LossTaken, lost.Reason)
		require.Equal(t, "urgent", lost.By)
		require.Equal(t, 5*time.Minute, held.ended)
		require.Equal(t, []string{"0s Acquired", "5m0s Lost", "5m0s CleanupStarted", "5m0s CleanupDone"}, holder.told())
		require.True(t, taker.holds())
	})
}
