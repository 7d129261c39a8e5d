package interleavings

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A reader gives up after it was granted and before it knows: it leaves as a
// reader does.
func TestReaderThatGivesUpAsItIsGrantedLeavesTheOthersAlone(t *testing.T) {
	scenario(t, func(w *world) {
		h := w.hold("H", at(9))
		a := w.wait("A", at(1), sharing)
		reads := w.On(ReadsG(users).From("B").Nth(2)).Hold() // first in accompany, second in weigh
		b := w.ask("B", at(1), sharing)
		w.reached(reads)
		h.release()
		a.Granted()
		synctest.Wait()
		w.Pass(50 * time.Millisecond)
		x := w.wait("X", at(3))
		b.Cancel()
		reads.Release()
		b.Refused()
		w.Pass(50 * time.Millisecond)
		require.Equal(w, []string{"A"}, w.holders())
		x.waits()
		a.release()
		x.Granted()
	})
}

// A reader has preempted a writer, and that one shares instead; the answer to the reader's T3 is lost, or its withdrawal.
func TestNoteToAWriterThatSharesIsTakenBack(t *testing.T) {
	each(t, map[string]func(w *world) *zktest.Rule{
		"nothing is lost": nil,
		"the grant":       func(w *world) *zktest.Rule { return w.On(T3(users).From("R").Nth(1)).DropReply() },
		"the withdrawal":  func(w *world) *zktest.Rule { return w.On(Withdraws(users).From("R").Nth(1)).DropRequest() },
	}, func(w *world, lose func(w *world) *zktest.Rule) {
		h := w.hold("H", at(1), cleanup(time.Hour))
		if lose != nil {
			lose(w)
		}
		reader := w.ask("R", at(5), sharing)
		await[lock.PreemptRequested](h)
		h.downgrade()
		reader.Granted()
		await[lock.PreemptionWithdrawn](h)
		for _, holder := range w.state().Holders {
			require.Empty(w, holder.PreemptedBy, holder.Owner)
		}
		require.NoError(w, h.Granted().Extend(w.Context(), time.Minute))
	})
}

// A more important shared request comes before a writer that waits, also as a
// try.
func TestTryOfAReaderPassesAWriterThatItOutranks(t *testing.T) {
	scenario(t, func(w *world) {
		w.hold("A", at(1), sharing)
		w.wait("W", at(1))
		w.ask("R", at(5), sharing, within(0)).Granted()
		r2 := w.ask("R2", at(5), sharing, within(time.Minute))
		r2.Granted()
	})
}

// L is removed between a newcomer's list and its read of G.
func TestReaderThatComesInAsTheLockNodeIsRemovedMakesItAnew(t *testing.T) {
	scenario(t, func(w *world) {
		a := w.hold("A", at(1), sharing)
		reads, b := w.stops(ReadsG(users).From("B").Nth(1), "B", at(1), sharing)
		node := a.node()
		a.release()
		require.NoError(w, w.Delete(node[:len(node)-len("/2147483646-s-")-24-11]))
		reads.Release()
		b.Granted()
	})
}

// A writer is granted while it arms its watch on L.
func TestWatchOnGThatComesAfterTheGrantDoesNotStay(t *testing.T) {
	scenario(t, func(w *world) {
		a := w.hold("A", at(1), sharing)
		arms, x := w.stops(zktest.Op(zktest.GetData).Path(lockNode(users)).Where(func(q zktest.Request) bool { return q.Watch }).From("W"), "W", at(1))
		a.release()
		x.joined()
		w.Pass(short)
		arms.Release()
		x.Granted()
		w.Pass(short)
		x.release()
		w.eventually("no watch is left", func() bool { return len(w.watched()) == 0 })
	})
}

// An onlooker reads G, then a reader comes in.
func TestOnlookerSeesAReaderThatComesInMeanwhileHold(t *testing.T) {
	scenario(t, func(w *world) {
		w.hold("A", at(1), sharing)
		lists := w.On(Lists(users).From("onlooker")).Hold()
		onlooker := w.client("onlooker")
		look := later(w, "the look", func() (lock.State, error) { return onlooker.Lock(context.Background(), users) })
		w.reached(lists)
		b := w.ask("B", at(1), sharing)
		b.Granted()
		lists.Release()
		s, err := look()
		require.NoError(w, err)
		require.Empty(w, owners(s.Waiters), "B holds: %+v", s.Waiters)
	})
}

// T10 is on its way when the holder is taken over, is released or dies.
func TestDowngradeThatIsOvertaken(t *testing.T) {
	T10 := func() zktest.Match { return T3(users).From("H") }
	scenarios(t, map[string]func(w *world){
		"taken over meanwhile": func(w *world) {
			h := w.hold("H", at(1))
			w.forgive(h.Granted().ID())
			held := w.On(T10().Nth(1)).Hold()
			shared := h.downgrades()
			w.reached(held)
			c := w.ask("C", at(5), forceful)
			c.Granted()
			held.Release()
			err := shared()
			require.ErrorAs(w, err, new(*lock.LostError))
			require.Equal(w, []string{"C"}, w.holders())
		},
		"released meanwhile": func(w *world) {
			h := w.hold("H", at(1))
			x := w.wait("X", at(1))
			held := w.On(T10().Nth(1)).Hold()
			shared := h.downgrades()
			w.reached(held)
			out := h.releases()
			synctest.Wait()
			held.Release()
			if err := shared(); err != nil {
				require.ErrorIs(w, err, lock.ErrReleased)
			}
			require.NoError(w, out())
			x.Granted()
			require.Equal(w, []string{"X"}, w.holders())
		},
		"session expires meanwhile": func(w *world) {
			h := w.hold("H", at(1))
			r := w.wait("R", at(1), sharing)
			held := w.On(T10().Nth(1)).Hold()
			shared := h.downgrades()
			w.reached(held)
			w.expire("H")
			held.Release()
			require.ErrorAs(w, shared(), new(*lock.LostError))
			r.Granted()
		},
	})
}

// A shared holder whose clean end is written into the lock node contains the version that it has read: it loses no
// reader that came meanwhile.
func TestReaderThatLeavesCleanlyKeepsReadersThatCameMeanwhile(t *testing.T) {
	scenario(t, func(w *world) {
		// given two readers, and one of them about to leave
		a, b := w.hold("A", at(1), sharing, delaying(priority.MaxLockDelay)), w.hold("B", at(1), sharing)
		leaves := w.On(zktest.Op(zktest.Multi).Containing(zktest.Delete).From("A").Nth(1)).Hold()
		released := a.releases()
		w.reached(leaves)

		// when another one comes in before that
		c := w.hold("C", at(1), sharing)
		leaves.Release()
		require.NoError(w, released())

		// then the lock names it
		require.ElementsMatch(w, []string{"B", "C"}, w.holders())
		writer := w.ask("W", at(1))
		writer.Queued()
		b.release()
		writer.waits()
		c.release()
		writer.Granted()
		require.Zero(w, times[lock.Delayed](writer), "no lock-delay of the one that left")
	})
}
