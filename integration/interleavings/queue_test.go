package interleavings

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// 1: W listed before holder H released by T5, and H's node goes before W arms
// its watch on H; W notices at arming and grants itself.
func TestWaiterThatArmsItsWatchOnAHolderThatIsGoneGrantsItself(t *testing.T) {
	each(t, map[string]priority.Level{"less important": 1, "more important": 9}, func(w *world, level priority.Level) {
		// given a holder that saw no waiter and leaves, and a waiter that has listed
		// it
		h := w.hold("H", at(5))
		leaves, released := h.releasesUpTo(T5(users).From("H"))
		arms, waiter := w.stops(Arms(users, h.Granted().ID()).From("W"), "W", at(level))

		// when the holder's node goes before the waiter watches it
		w.must(T3(users).From("W"))
		leaves.Release()
		require.NoError(w, released())
		since := w.Now()
		arms.Release()

		// then the waiter holds, at once
		waiter.Granted()
		require.Equal(w, since, w.Now())
		require.Greater(w, waiter.Token(), h.Token())
	})
}

// 2: first waiter B joined, second waiter A lists B as its predecessor, and B
// grants itself (T3) before A arms its watch; A finds B granted at arming and
// becomes first.
func TestWaiterThatArmsItsWatchOnOneThatWasGrantedMeanwhileIsNext(t *testing.T) {
	scenario(t, func(w *world) {
		// given a second waiter that has listed the first one
		w.hold("H", at(5))
		b := w.wait("B", at(3), lease(30*time.Second))
		arms, a := w.stops(Arms(users, b.id()).From("A"), "A", at(1))

		// when the first one grants itself before the second one watches it
		w.must(T3(users).From("B"))
		w.expire("H")
		b.Granted()
		arms.Release()

		// then the second one knows that it is next
		q := a.Queued()
		require.Equal(w, 1, q.Position)
		require.Equal(w, []string{"B"}, owners(q.Holders))
		b.release()
		a.Granted()
	})
}

// 2, with a first waiter that leaves instead.
func TestWaiterThatArmsItsWatchOnOneThatHasLeftIsNext(t *testing.T) {
	scenario(t, func(w *world) {
		// given a second waiter that has listed the first one
		h := w.hold("H", at(5))
		b := w.wait("B", at(3))
		arms, a := w.stops(Arms(users, b.id()).From("A"), "A", at(1))

		// when the first one leaves before the second one watches it
		b.Cancel()
		require.ErrorIs(w, b.Refused(), context.Canceled)
		arms.Release()

		// then the second one knows that it is next
		require.Equal(w, 1, a.Queued().Position)
		h.release()
		a.Granted()
	})
}

// 21: B watches its predecessor A, A is granted and works on and on; B enforces
// A's lease although no other request moves.
func TestSecondWaiterEnforcesTheLeaseOfTheOneThatWasInFront(t *testing.T) {
	scenario(t, func(w *world) {
		// given two waiters
		const (
			length = 30 * time.Second // shorter than the poll that would hide a watch that is missing
			grace  = 3 * time.Second
			late   = 10 * time.Millisecond
		)
		w.hold("H", at(5))
		a := w.wait("A", at(3), lease(length), cleanup(grace))
		b := w.ask("B", at(1))
		require.Equal(w, 2, b.Queued().Position)

		// when the first one grants itself and works longer than it said
		w.must(T3(users).From("A"))
		w.expire("H")
		a.Granted()
		since := w.Now()

		// then the second one preempts it when its lease ends
		asked, when := awaitAt[lock.PreemptRequested](a)
		require.Equal(w, priority.LeaseExpired, asked.Reason)
		require.Equal(w, "B", asked.By.Owner)
		require.GreaterOrEqual(w, when-since, length)
		require.Less(w, when-since, length+late)

		// and takes the lock when its grace ends
		b.Granted()
		lost, gone := awaitAt[lock.Lost](a)
		require.Equal(w, lock.LossTaken, lost.Err.Reason)
		require.Equal(w, priority.LeaseExpired, lost.Err.For)
		require.GreaterOrEqual(w, gone-when, grace)
		require.Less(w, gone-when, grace+late)
		require.Equal(w, 1, times[lock.TakenOver](b))
	})
}

// 23: T4 grants B after B joined and before B armed its own watch; when B arms
// and reads, B holds.
func TestWaiterThatIsGrantedBeforeItWatchesItselfHolds(t *testing.T) {
	scenario(t, func(w *world) {
		// given a waiter that has joined and done nothing else, and another behind it
		h := w.hold("H", at(5))
		arms, b := w.stops(ArmsAny(users).From("B").Nth(1), "B", at(3))
		c := w.wait("C", at(1))

		// when the lock is handed over to it before it watches its own node
		w.never(T3(users).From("B"))
		w.must(T4(users).From("H"))
		h.release()
		b.waits()
		arms.Release()

		// then it holds, by that hand-over
		b.Granted()
		require.Equal(w, b.Token(), w.state().Holders[0].Token)
		b.handsOverTo(c)
	})
}

// A more important request may come, and preempt the holder, between the look at the queue and the look at the holder
// that sets the watch.
func TestFirstWaiterLearnsOfAMoreImportantOneThatCameBetweenItsLooks(t *testing.T) {
	scenario(t, func(w *world) {
		// given a first waiter that has preempted the holder, and has listed the queue again
		h := w.hold("H", cleanup(time.Hour))
		asks, first := w.stops(T6(users).From("F").Nth(1), "F", at(1))
		lists := w.On(Lists(users).From("F").Nth(1)).Hold()
		asks.Release()
		w.reached(lists)
		reads := w.On(Reads(users, h.id()).From("F").Nth(1)).Hold()
		lists.Release()
		w.reached(reads)

		// when a more important one comes, and asks the holder too
		more := w.ask("M", at(2))
		await[lock.PreemptSent](more)
		reads.Release()

		// then the first one learns that it is not the first any more
		await[lock.Displaced](first)
		h.release()
		more.Granted()
	})
}
