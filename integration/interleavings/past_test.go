package interleavings

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A holder at which others were seen just now looks twice before it leaves, and not at the
// same past.
func TestHolderWhoseFollowerLagsHandsOverToTheOneWhoHasComeBack(t *testing.T) {
	scenario(t, func(w *world) {
		// given a holder behind a follower, whose lock another one has handed over to it
		follower, err := w.Listen("follower")
		require.NoError(w, err)
		first := w.hold("A", at(1))
		h := w.client("H", func(cfg *lock.Config) { cfg.Servers = []string{follower.Addr()} }).ask(users, "H", at(1))
		h.Queued()
		first.release()
		h.Granted()
		follower.Lag(-1)

		// when that one comes back, which the follower does not know yet, and the holder leaves
		again := w.wait("A", at(1))
		w.must(T4(users).From("H"))
		w.never(T5(users).From("H"))
		h.release()

		// then it is handed over to
		again.Granted()
	})
}

// 20: a decision is old when it comes, as one that was made behind a follower that lags: safety never depends on
// fresh reads. One that is made late reads G before it lists who is there: the other way round it would take one that
// came in between for dead.
func TestGrantThatWasDecidedBeforeAnotherCameIsRefused(t *testing.T) {
	each(t, map[string]func(*world) zktest.Match{
		"sent late": func(*world) zktest.Match { return T3(users) },
		"decided late": func(w *world) zktest.Match {
			w.wait("B", at(1)) // a waiter that is alone needs no G
			return ReadsG(users)
		},
	}, func(w *world, late func(*world) zktest.Match) {
		// given a waiter that is about to grant itself a lock that became free
		w.hold("H", at(5))
		waiter := w.wait("W", at(3))
		stopped := w.On(late(w).From("W").Nth(1)).Hold()
		w.expire("H")
		w.reached(stopped)

		// when a more important one joins and grants itself before that
		w.must(T3(users).From("X"))
		x := w.ask("X", at(9))
		x.Granted()
		stopped.Release()

		// then that one holds, and the waiter waits for it
		waiter.waits()
		require.Equal(w, []string{"X"}, w.holders())
		x.handsOverTo(waiter)
	})
}

// 8, with a second member of the ensemble that is behind: without the sync, the
// client would not find itself there.
func TestGrantWhoseReplyIsLostIsFoundBehindAFollowerThatLags(t *testing.T) {
	scenario(t, func(w *world) {
		// given a client that comes back to a follower when its connection breaks
		follower, err := w.Listen("follower")
		require.NoError(w, err)
		var dials atomic.Int32
		c := w.client("A", func(cfg *lock.Config) {
			dial := cfg.Dialer
			cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
				if dials.Add(1) > 1 {
					address = follower.Addr()
				}
				return dial(ctx, network, address)
			}
		})
		w.hold("first", at(1)).release() // else the client has more to read
		follower.Lag(-1)

		// when the reply to its T1 is lost
		w.On(T1(users).From("A").Nth(1)).DropReply()
		w.never(T2(users).From("A"))
		a := c.ask(users, "A", at(5))

		// then it holds, by the one node that it has made
		a.Granted()
		require.Equal(w, int32(2), dials.Load())
		require.Equal(w, a.Granted().ID(), a.id())
	})
}
