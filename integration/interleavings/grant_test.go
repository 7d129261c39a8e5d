package interleavings

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// 6: two newcomers read the idle lock at the same v; both send T1; exactly one
// holds and the other joins behind it.
func TestOfTwoThatFoundTheLockIdleOneHoldsAndTheOtherJoinsBehindIt(t *testing.T) {
	scenario(t, func(w *world) {
		// given two newcomers that saw the lock idle, and are about to take it
		takesA := w.On(T1(users).From("A").Nth(1)).Hold()
		takesB := w.On(T1(users).From("B").Nth(1)).Hold()
		a, b := w.ask("A", at(9)), w.ask("B", at(1))
		w.reached(takesA)
		w.reached(takesB)

		// when both take it, the less important one first
		takesB.Release()
		b.Granted()
		takesA.Release()

		// then that one holds, and the other waits for it
		require.Equal(w, 1, a.Queued().Position)
		a.waits()
		require.Equal(w, []string{"B"}, w.holders())
		require.Equal(w, []string{"A"}, w.waiters())
		b.handsOverTo(a)
	})
}

// 9: T1 committed, its reply is lost, and the holder is taken over (T7) before
// it reconnects; it joins with a new guid and does not hold.
func TestGrantWhoseReplyIsLostAndThatIsTakenOverMeanwhileQueuesAnew(t *testing.T) {
	scenario(t, func(w *world) {
		// given a client that took the lock, lost the reply and is cut off
		w.client("A")
		takes := w.On(T1(users).From("A").Nth(1)).DropReply()
		returns := w.On(zktest.Op(zktest.Connect).From("A")).Hold()
		a := w.ask("A", at(1))
		w.reached(takes)
		w.reached(returns)
		first := a.id()

		// when it is taken over before it comes back
		p := w.hold("P", at(9), forceful)
		require.Equal(w, 1, times[lock.TakenOver](p))
		returns.Release()

		// then it stands in the queue under a new name
		require.Equal(w, 1, a.Queued().Position)
		a.waits()
		require.NotEqual(w, first, a.id())
		require.Equal(w, []string{"P"}, w.holders())
		p.handsOverTo(a)
	})
}

// 11: a request waits in the client library while the session expires. Nothing
// is sent under the new session: what is granted there was asked for there.
func TestRequestThatOutlivesItsSessionInsideTheLibraryDoesNothing(t *testing.T) {
	scenario(t, func(w *world) {
		// given a client that holds one lock, remembers another as idle, and a third as busy
		stuck := virtual.NewFreezer()
		c := w.client("A", stuck.Through)
		held := c.ask("held", "held", at(5))
		held.Granted()
		next := w.client("B").ask("held", "next", at(1))
		next.Queued()
		memory := c.ask("idle", "memory", at(5))
		memory.Granted()
		memory.release()
		busy := w.client("B").ask("busy", "busy", at(9))
		busy.Granted()
		before := c.ask("busy", "before", at(5))
		before.Queued()

		// and whose connection takes nothing any more
		old, _ := c.Session()
		w.never(zktest.Op(zktest.Multi, zktest.Create, zktest.Delete).Path("/**/locks/**").
			Where(func(q zktest.Request) bool { return len(q.From) > 0 && q.From[0] == "A" && q.Session == old }))
		w.never(T4("held").From("A"))
		stuck.Freeze()
		released := held.releases()               // T4, after a list
		idle := c.ask("idle", "idle", at(5))      // T1
		behind := c.ask("busy", "behind", at(3))  // T2
		another := c.ask("other", "other", at(3)) // its first read
		synctest.Wait()

		// when the session expires
		w.expire("A")
		stuck.Thaw()

		// then its lock is lost, and goes to the next
		require.Equal(w, lock.LossSession, lostBy(w, released()).Reason)
		next.Granted()

		// and the others have what they asked for in the new session
		idle.Granted()
		another.Granted()
		await[lock.Requeued](before)
		require.Equal(w, 1, await[lock.Queued](before).Position)
		behind.Queued()
		now, _ := c.Session()
		require.NotEqual(w, old, now)
		for _, u := range []*user{idle, another, before, behind} {
			state := w.look(u.scope)
			require.Len(w, u.nodes(), 1)
			for _, one := range append(state.Holders, state.Waiters...) {
				if one.Owner == u.Owner {
					require.Equal(w, now, one.Session)
				}
			}
		}
		before.waits()
		behind.waits()
		busy.release()
		before.Granted()
	})
}

// N1: T1 is executed in one session, whose client comes back in another.
func TestGrantOfASessionThatIsOverCountsForNothingInTheNext(t *testing.T) {
	scenario(t, func(w *world) {
		// given a client that took the lock and never heard of it
		w.client("A")
		takes := w.On(T1(users).From("A").Nth(1)).DropReply()
		returns := w.On(zktest.Op(zktest.Connect).From("A").Nth(1)).Hold()
		a := w.ask("A", at(9))
		w.reached(takes)
		w.reached(returns)
		first := a.id()

		// when its session expires before it is back, and another takes the lock
		w.expire("A")
		b := w.hold("B", at(1), cleanup(time.Hour))
		returns.Release()

		// then it does not hold, but queues under a new name, and holds when its turn has come
		require.Equal(w, 1, a.Queued().Position)
		a.waits()
		require.NotEqual(w, first, a.id())
		require.Equal(w, []string{"B"}, w.holders())
		b.release()
		require.NotEqual(w, first, a.Granted().ID())
		require.Greater(w, a.Token(), b.Token())
	})
}
