package virtualtime

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A process that is stopped has no timers: in a bubble, one whose connections
// stand still, and with them whatever waits for these. Its first step
// afterwards has to find out by itself.
func TestHolderThatStandsStillFindsItsLossAtItsNextStep(t *testing.T) {
	const session = 16 * time.Second
	run(t, func(w *world) {
		// given a holder and a waiter
		var book ledger
		freezer := virtual.NewFreezer()
		holder, waiter := w.Program("holder", session, freezer.Through), w.Program("waiter", long)
		held := holder.Do(lockguard.Requirement{}, untilCancelled)
		next := waiter.Do(lockguard.Requirement{}, untilCancelled)
		require.NoError(w, book.write(held.Hold().Token()))

		// when the holder stands still for longer than its session
		w.Until(time.Second)
		freezer.Freeze()
		w.Until(time.Minute)
		require.Equal(w, session+tick, next.Began())
		require.NoError(w, book.write(next.Hold().Token()))
		require.NoError(w, held.Hold().Context().Err(), "nothing of it has run")

		// then its next guarded step finds the loss, and with it its context has ended
		lost := virtual.LostBy(w.T, held.Hold().Check())
		require.Equal(w, lock.LossSession, lost.Reason)
		require.Equal(w, error(lost), context.Cause(held.Hold().Context()))

		// and a step that is not guarded is refused by what it writes to
		var stale *staleError
		require.ErrorAs(w, book.write(held.Hold().Token()), &stale)

		// and when it goes on, it was told once, and changes nothing
		freezer.Thaw()
		w.Until(2 * time.Minute)
		require.ErrorIs(w, held.Returned(), lost)
		require.Equal(w, lost, virtual.Only[lockguard.Lost](holder).Err)
		require.True(w, next.Holds())
		require.Len(w, contenders(w), 1)
	})
}

// What a holder sent before, and what was sent to it, comes through after its
// session: late requests change nothing, and late answers revive nothing.
func TestFramesThatAreHeldUpBeyondTheSessionReviveNothing(t *testing.T) {
	const session = 16 * time.Second
	run(t, func(w *world) {
		// given a holder and a waiter
		var book ledger
		holder, waiter := w.Program("holder", session), w.Program("waiter", long)
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{CleanupTimeout: time.Second}}, untilCancelled)
		next := waiter.Do(lockguard.Requirement{}, untilCancelled)
		require.NoError(w, book.write(held.Hold().Token()))
		w.Until(time.Second)

		// when an answer of the server, and then all that the holder sends, is held up: an extension of its lease, too
		answers := w.On(zktest.Op(zktest.Ping, zktest.Sync).From("holder").Nth(1)).HoldReply()
		requests := w.On(zktest.Any().From("holder").Nth(2).Times(1000)).Hold()
		extended := make(chan error, 1)
		go func() {
			<-answers.Reached()
			extended <- held.Hold().Extend(w.Context(), time.Hour)
		}()

		// then its context ends at its deadline, and its extension with it
		deadline := w.Since(held.Hold().Deadline())
		lost := virtual.LostBy(w.T, held.Returned())
		require.Equal(w, lock.LossSession, lost.Reason)
		require.Equal(w, deadline, held.Ended())
		require.Nil(w, next.Hold())

		// and the waiter holds when the session has expired
		w.Until(time.Minute)
		require.Greater(w, next.Hold().Token(), held.Hold().Token())
		require.NoError(w, book.write(next.Hold().Token()))

		// and when everything comes through, it changes nothing
		answers.Release()
		requests.Release()
		w.Until(2 * time.Minute)
		require.ErrorAs(w, <-extended, &lost)
		require.ErrorIs(w, context.Cause(held.Hold().Context()), lost)
		require.True(w, next.Holds())
		require.Len(w, contenders(w), 1)
		var stale *staleError
		require.ErrorAs(w, book.write(held.Hold().Token()), &stale)
	})
}

// The server answers all that the holder sends, and yet lets its session die:
// so does one whose reports to its leader get lost. No clock of the holder can
// know, so the server notifies it, and the token protects.
func TestHolderWhoseSessionDiesWhileItIsAnsweredIsNotifiedInTheInstantOfTheExpiry(t *testing.T) {
	const session = 16 * time.Second
	run(t, func(w *world) {
		// given a holder and a waiter
		var book ledger
		holder, waiter := w.Program("holder", session), w.Program("waiter", long)
		held := holder.Do(lockguard.Requirement{}, untilCancelled)
		next := waiter.Do(lockguard.Requirement{}, untilCancelled)
		require.NoError(w, book.write(held.Hold().Token()))

		// when nothing that it sends keeps its session alive any more
		w.Until(time.Minute)
		require.True(w, w.StallPings(holder.Session().ID))
		expiry := w.Now() + holder.Session().Expires
		w.Until(expiry - 1)
		require.True(w, held.Holds(), "it is answered all the time")
		require.Nil(w, next.Hold())

		// then the lock changes hands at the expiry, the old holder learns of its loss, and its token
		// is refused
		w.Until(expiry)
		require.Equal(w, expiry, next.Began())
		require.NoError(w, book.write(next.Hold().Token()))
		require.Equal(w, lock.LossSession, virtual.LostBy(w.T, held.Returned()).Reason)
		require.Equal(w, expiry, held.Ended())
		var stale *staleError
		require.ErrorAs(w, book.write(held.Hold().Token()), &stale)
	})
}

// A waiter is granted the lock and evicted again while it is cut off. It hears of
// the grant, and for a moment the servers answer; then it is cut off again. What
// was answered in that moment says nothing of the hold.
func TestAnswersToOthersDoNotKeepAnUncheckedHold(t *testing.T) {
	const session = 16 * time.Second
	run(t, func(w *world) {
		// given a holder and a waiter
		freezer := virtual.NewFreezer()
		freezer.Network = true
		first, mine := w.Program("first", long), w.Program("mine", session, freezer.Through)
		forceful := w.Program("forceful", long)
		over := make(chan struct{})
		held := first.Do(lockguard.Requirement{}, func(context.Context) error {
			<-over
			return nil
		})
		require.True(w, held.Holds())
		var heard, lost time.Duration
		acquired := make(chan error, 1)
		go func() {
			_, err := mine.Acquire(scope, lock.Request{Notify: func(n lock.Notice) {
				if _, ok := n.(lock.Lost); ok {
					lost = w.Now()
				}
			}})
			acquired <- err
		}()

		// when it is granted and evicted while it is cut off
		w.Until(time.Second)
		freezer.Freeze()
		w.Until(2 * time.Second)
		close(over)
		require.NoError(w, held.Returned())
		w.Until(3 * time.Second)
		taken := forceful.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 9, Forceful: true}}, untilCancelled)
		require.True(w, taken.Holds())

		// and hears of the former alone before it is cut off again
		w.Until(3500 * time.Millisecond)
		freezer.Thaw()
		require.NoError(w, <-acquired)
		heard = w.Now()
		mine.Take("other", lock.Request{})
		require.Equal(w, heard, w.Now(), "that was answered at once")
		freezer.Freeze()

		// then it gives up when its session would have ended without that moment
		w.Until(time.Minute)
		require.Positive(w, lost)
		require.Less(w, lost, heard+session*11/12-2*time.Second)
		freezer.Thaw()
		w.Until(2 * time.Minute)
	})
}
