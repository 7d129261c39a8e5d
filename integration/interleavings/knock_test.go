package interleavings

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// knocks plays a waiter V that another client's hold X has passed, until it is about to knock.
func (w *world) knocks() (x, v *user, release func()) {
	w.Helper()
	// a client that remembers the lock as idle, and a waiter that has seen it there
	first := w.ask("X", at(3))
	first.Granted()
	joins, v := w.stops(T2(users).From("V"), "V", at(3))
	first.release()
	passes, x := w.stops(T1(users).From("X").Nth(1), "X", at(3))

	// of which the waiter joins first, and the other one takes the lock first
	grants := w.On(T3(users).From("V").Nth(1)).Hold()
	joins.Release()
	w.reached(grants)
	passes.Release()
	x.Granted()
	knock := w.On(Knocks(users).From("V").Nth(1)).Hold()
	grants.Release()
	w.reached(knock)
	return x, v, knock.Release
}

// 68: a knock raises the version of the lock node, and changes nothing else.
func TestWaiterThatIsPassedKnocks(t *testing.T) {
	scenario(t, func(w *world) {
		x, v, release := w.knocks()
		before := w.lock()
		release()
		w.eventually("the version is higher", func() bool {
			now := w.lock()
			return now.Stat.Version == before.Stat.Version+1 && string(now.Data) == string(before.Data)
		})
		v.waits()
		require.Equal(w, []string{"X"}, w.holders())
		x.release()
		v.Granted()
	})
}

// 68: a knock contains the node of its request. When that is gone as the knock comes, nothing happens. Without that
// node the lock that was read may be gone as well, and there anew.
func TestKnockOfARequestThatIsGoneChangesNothing(t *testing.T) {
	scenario(t, func(w *world) {
		// given a waiter that is about to knock, and is deleted
		x, v, release := w.knocks()
		w.evict(v)
		before := w.lock()

		// when the lock is removed, and at the same version held by another before the knock comes
		x.release()
		require.Equal(w, []string{users}, removed(w.collects("gc")()))
		w.uses("Y", users)
		y := w.hold("Y", at(3))
		between := w.lock()
		require.Equal(w, before.Stat.Version, between.Stat.Version)
		release()

		// then that one holds, and the next request waits
		require.ErrorAs(w, v.Refused(), new(*lock.EvictedError))
		now := w.lock()
		require.Equal(w, between, now)
		z := w.wait("Z", at(5))
		z.waits()
		y.release()
		z.Granted()
	})
}

// 68: a knock contains the version of the lock that it has read. When somebody was granted since, it is made anew.
func TestKnockThatComesAfterAGrantLosesNoRequest(t *testing.T) {
	scenario(t, func(w *world) {
		// given a waiter that is about to knock, and has read the lock
		x, v, release := w.knocks()

		// when another one is granted before its knock comes
		w.evict(x)
		y := w.ask("Y", at(5))
		y.Granted()
		before := w.lock()
		release()

		// then the lock still names that one
		w.eventually("the version is higher", func() bool {
			now := w.lock()
			return now.Stat.Version > before.Stat.Version
		})
		now := w.lock()
		require.Equal(w, string(before.Data), string(now.Data))
		require.Equal(w, []string{"Y"}, w.holders())
		v.waits()
		y.release()
		v.Granted()
	})
}
