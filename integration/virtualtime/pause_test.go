package virtualtime

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A process that is stopped has no timers: in a bubble, one whose connections
// stand still, and with them whatever waits for these. Its first step
// afterwards has to find out by itself.
func TestHolderThatStandsStillFindsItsLossAtItsNextStep(t *testing.T) {
	const session = 16 * time.Second
	story(t, func(t *testing.T, w *world) {
		// given a holder and a waiter
		var book ledger
		freezer := newFreezer()
		holder, waiter := w.program("holder", session, through(freezer)), w.program("waiter", long)
		held := holder.do(lockguard.Requirement{}, untilCancelled)
		next := waiter.do(lockguard.Requirement{}, untilCancelled)
		require.NoError(t, book.write(held.hold().Token()))

		// when the holder stands still for longer than its session
		w.until(time.Second)
		freezer.freeze()
		w.until(time.Minute)
		require.Equal(t, session+tick, next.began())
		require.NoError(t, book.write(next.hold().Token()))
		require.NoError(t, held.hold().Context().Err(), "nothing of it has run")

		// then its next guarded step finds the loss, and with it its context has ended
		lost := lostBy(t, held.hold().Check())
		require.Equal(t, recipes.LossSession, lost.Reason)
		require.Equal(t, error(lost), context.Cause(held.hold().Context()))

		// and a step that is not guarded is refused by what it writes to
		var stale *staleError
		require.ErrorAs(t, book.write(held.hold().Token()), &stale)

		// and when it goes on, it was told once, and changes nothing
		freezer.thaw()
		w.until(2 * time.Minute)
		require.ErrorIs(t, held.returned(), lost)
		require.Equal(t, lost, only[lockguard.Lost](holder).Err)
		require.True(t, next.holds())
		require.Len(t, w.contenders(), 1)
	})
}

// What a holder sent before, and what was sent to it, comes through after its
// session: late requests change nothing, and late answers revive nothing.
func TestFramesThatAreHeldUpBeyondTheSessionReviveNothing(t *testing.T) {
	const session = 16 * time.Second
	story(t, func(t *testing.T, w *world) {
		// given a holder and a waiter
		var book ledger
		holder, waiter := w.program("holder", session), w.program("waiter", long)
		held := holder.do(lockguard.Requirement{CleanupTimeout: time.Second}, untilCancelled)
		next := waiter.do(lockguard.Requirement{}, untilCancelled)
		require.NoError(t, book.write(held.hold().Token()))
		w.until(time.Second)

		// when an answer of the server, and then all that the holder sends, is held up: an extension of its lease, too
		answers := w.zk.On(zktest.Op(zktest.Ping, zktest.Sync).From("holder").Nth(1)).HoldReply()
		requests := w.zk.On(zktest.Any().From("holder").Nth(2).Times(1000)).Hold()
		extended := make(chan error, 1)
		go func() {
			<-answers.Reached()
			extended <- held.hold().Extend(t.Context(), time.Hour)
		}()

		// then its context ends at its deadline, and its extension with it
		deadline := held.hold().Deadline().Sub(w.start)
		lost := lostBy(t, held.returned())
		require.Equal(t, recipes.LossSession, lost.Reason)
		require.Equal(t, deadline, held.ended)
		require.Nil(t, next.hold())

		// and the waiter holds when the session has expired
		w.until(time.Minute)
		require.Greater(t, next.hold().Token(), held.hold().Token())
		require.NoError(t, book.write(next.hold().Token()))

		// and when everything comes through, it changes nothing
		answers.Release()
		requests.Release()
		w.until(2 * time.Minute)
		require.ErrorAs(t, <-extended, &lost)
		require.ErrorIs(t, context.Cause(held.hold().Context()), lost)
		require.True(t, next.holds())
		require.Len(t, w.contenders(), 1)
		var stale *staleError
		require.ErrorAs(t, book.write(held.hold().Token()), &stale)
	})
}

// The server answers all that the holder sends, and yet lets its session die:
// so does one whose reports to its leader get lost. No clock of the holder can
// know, so it is told by the server, and the token protects.
func TestHolderWhoseSessionDiesWhileItIsAnsweredIsToldInTheInstantOfTheExpiry(t *testing.T) {
	const session = 16 * time.Second
	story(t, func(t *testing.T, w *world) {
		// given a holder and a waiter
		var book ledger
		holder, waiter := w.program("holder", session), w.program("waiter", long)
		held := holder.do(lockguard.Requirement{}, untilCancelled)
		next := waiter.do(lockguard.Requirement{}, untilCancelled)
		require.NoError(t, book.write(held.hold().Token()))

		// when nothing that it sends keeps its session alive any more
		w.until(time.Minute)
		require.True(t, w.zk.StallPings(holder.session().ID))
		expiry := w.now() + holder.session().Expires
		w.until(expiry - 1)
		require.True(t, held.holds(), "it is answered all the time")
		require.Nil(t, next.hold())

		// then the lock changes hands at the expiry, the old holder is told, and its token is refused
		w.until(expiry)
		require.Equal(t, expiry, next.began())
		require.NoError(t, book.write(next.hold().Token()))
		require.Equal(t, recipes.LossSession, lostBy(t, held.returned()).Reason)
		require.Equal(t, expiry, held.ended)
		var stale *staleError
		require.ErrorAs(t, book.write(held.hold().Token()), &stale)
	})
}

// A waiter is granted the lock and evicted again while it is cut off. It hears of
// the grant, and for a moment the servers answer; then it is cut off again. What
// was answered in that moment says nothing of the hold.
func TestAnswersToOthersDoNotKeepAHoldThatNobodyHasLookedAt(t *testing.T) {
	const session = 16 * time.Second
	story(t, func(t *testing.T, w *world) {
		// given a holder and a waiter
		freezer := newFreezer()
		freezer.network = true
		first, mine, forceful := w.program("first", long), w.program("mine", session, through(freezer)), w.program("forceful", long)
		over := make(chan struct{})
		held := first.do(lockguard.Requirement{}, func(context.Context) error {
			<-over
			return nil
		})
		require.True(t, held.holds())
		lock, err := mine.client.PriorityLock(scope)
		require.NoError(t, err)
		other, err := mine.client.PriorityLock("other")
		require.NoError(t, err)
		var heard, lost time.Duration
		acquired := make(chan error, 1)
		go func() {
			_, err := lock.Acquire(t.Context(), recipes.Request{LeaseTimeout: time.Hour, Notify: func(n recipes.Notice) {
				if _, ok := n.(recipes.Lost); ok {
					lost = w.now()
				}
			}})
			acquired <- err
		}()

		// when it is granted and evicted while it is cut off
		w.until(time.Second)
		freezer.freeze()
		w.until(2 * time.Second)
		close(over)
		require.NoError(t, held.returned())
		w.until(3 * time.Second)
		taken := forceful.do(lockguard.Requirement{Priority: 9, Forceful: true}, untilCancelled)
		require.True(t, taken.holds())

		// and hears of the former alone before it is cut off again
		w.until(3500 * time.Millisecond)
		freezer.thaw()
		require.NoError(t, <-acquired)
		heard = w.now()
		_, err = other.Acquire(t.Context(), recipes.Request{})
		require.NoError(t, err)
		require.Equal(t, heard, w.now(), "that was answered at once")
		freezer.freeze()

		// then it gives up when its session would have ended without that moment
		w.until(time.Minute)
		require.Positive(t, lost)
		require.Less(t, lost, heard+session*11/12-2*time.Second)
		freezer.thaw()
		w.until(2 * time.Minute)
	})
}
