package interleavings

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A reader gives up after it was granted and before it knows: it leaves as a
// reader does.
func TestReaderThatGivesUpAsItIsGrantedLeavesTheOthersAlone(t *testing.T) {
	scenario(t, func(w *world) {
		h := w.hold("H", at(9))
		a := w.ask("A", at(1), sharing)
		a.queued()
		reads := w.On(ReadsG(users).From("B").Nth(2)).Hold() // first in accompany, second in weigh
		b := w.ask("B", at(1), sharing)
		w.reached(reads)
		h.release()
		a.granted()
		w.settle()
		w.pass(50 * time.Millisecond)
		x := w.ask("X", at(3))
		x.queued()
		b.cancel()
		reads.Release()
		b.refused()
		w.pass(50 * time.Millisecond)
		require.Equal(w, []string{"A"}, w.holders())
		x.waits()
		a.release()
		x.granted()
	})
}

// A reader has asked a writer to go, and that one shares instead; the answer to
// the reader's T3 is lost.
func TestNoteToAWriterThatSharesIsTakenBackThoughTheGrantIsNotAnswered(t *testing.T) {
	scenario(t, func(w *world) {
		h := w.hold("H", at(1), cleanup(time.Hour))
		lost := w.On(T3(users).From("R").Nth(1)).DropReply()
		reader := w.ask("R", at(5), sharing)
		await[recipes.PreemptAsked](h)
		h.downgrades()
		w.reached(lost)
		reader.granted()
		await[recipes.PreemptWithdrawn](h)
		for _, holder := range w.state().Holders {
			require.Empty(w, holder.PreemptedBy, holder.Owner)
		}
		require.NoError(w, h.grant.Extend(w.Context(), time.Minute))
	})
}

// The same, and the withdrawal is lost.
func TestNoteToAWriterThatSharesIsTakenBackThoughTheFirstTryIsLost(t *testing.T) {
	scenario(t, func(w *world) {
		h := w.hold("H", at(1), cleanup(time.Hour))
		lost := w.On(Withdraws(users).From("R").Nth(1)).DropRequest()
		reader := w.ask("R", at(5), sharing)
		await[recipes.PreemptAsked](h)
		h.downgrades()
		w.reached(lost)
		reader.granted()
		await[recipes.PreemptWithdrawn](h)
		for _, holder := range w.state().Holders {
			require.Empty(w, holder.PreemptedBy, holder.Owner)
		}
		require.NoError(w, h.grant.Extend(w.Context(), time.Minute))
	})
}

// A more important shared request comes before a writer that waits, also as a
// try.
func TestTryOfAReaderPassesAWriterThatItOutranks(t *testing.T) {
	scenario(t, func(w *world) {
		w.hold("A", at(1), sharing)
		x := w.ask("W", at(1))
		x.queued()
		w.ask("R", at(5), sharing, within(0)).granted()
		r2 := w.ask("R2", at(5), sharing, within(soon))
		r2.granted()
	})
}

// L is removed between a newcomer's list and its read of G.
func TestReaderThatComesInAsTheLockNodeIsRemovedMakesItAnew(t *testing.T) {
	embeddedOnly(t, "removes the lock node", func(w *world) {
		a := w.hold("A", at(1), sharing)
		reads := w.On(ReadsG(users).From("B").Nth(1)).Hold()
		b := w.ask("B", at(1), sharing)
		w.reached(reads)
		node := a.node()
		a.release()
		require.NoError(w, w.admin.remove(node[:len(node)-len("/2147483646-s-")-24-11]))
		reads.Release()
		b.granted()
	})
}

// A writer is granted while it arms its watch on L.
func TestWatchOnGThatComesAfterTheGrantDoesNotStay(t *testing.T) {
	scenario(t, func(w *world) {
		a := w.hold("A", at(1), sharing)
		arms := w.On(zktest.Op(zktest.GetData).Path(lockNode(users)).Where(func(q zktest.Request) bool { return q.Watch }).From("W")).Hold()
		x := w.ask("W", at(1))
		w.reached(arms)
		a.release()
		x.joined()
		w.pass(short)
		arms.Release()
		x.granted()
		w.pass(short)
		x.release()
		w.eventually("no watch is left", func() bool { return len(w.admin.watches(w.root)) == 0 })
	})
}

// An onlooker reads G, then a reader comes in.
func TestOnlookerSeesAReaderThatComesInMeanwhileHold(t *testing.T) {
	scenario(t, func(w *world) {
		w.hold("A", at(1), sharing)
		w.client("onlooker")
		lists := w.On(Lists(users).From("onlooker")).Hold()
		states := make(chan recipes.LockState, 1)
		go func() { states <- w.state() }()
		w.reached(lists)
		b := w.ask("B", at(1), sharing)
		b.granted()
		lists.Release()
		s := <-states
		require.Empty(w, owners(s.Waiters), "B holds: %+v", s.Waiters)
	})
}

// T7 from two readers.
func TestTakeoverFromReadersWhoseAnswerIsLost(t *testing.T) {
	for _, drop := range []string{"reply", "request"} {
		t.Run(drop, func(t *testing.T) {
			scenario(t, func(w *world) {
				a := w.hold("A", at(1), sharing)
				b := w.hold("B", at(1), sharing)
				w.referee.forgive(a.grant.ID(), b.grant.ID())
				f := w.On(T7(users).From("C").Nth(1))
				if drop == "reply" {
					f.DropReply()
				} else {
					f.DropRequest()
				}
				c := w.ask("C", at(5), forceful)
				c.granted()
				for _, u := range []*user{a, b} {
					require.Equal(w, recipes.LossTaken, await[recipes.Lost](u).Err.Reason)
				}
				require.Len(w, await[recipes.TookOver](c).From, 2)
				require.Equal(w, []string{"C"}, w.holders())
			})
		})
	}
}

// T4 to three readers, and that of the last one.
func TestHandOverToReadersWhoseAnswerIsLost(t *testing.T) {
	for _, drop := range []string{"reply", "request"} {
		t.Run(drop, func(t *testing.T) {
			scenario(t, func(w *world) {
				h := w.hold("H", at(9))
				var rs []*user
				for _, n := range []string{"R1", "R2", "R3"} {
					r := w.ask(n, at(1), sharing)
					r.queued()
					rs = append(rs, r)
				}
				f := w.On(T4(users).From("H").Nth(1))
				if drop == "reply" {
					f.DropReply()
				} else {
					f.DropRequest()
				}
				h.release()
				for _, r := range rs {
					r.granted()
				}
				x := w.ask("X", at(1))
				x.queued()
				w.pass(short)
				// the last reader's T4 is lost as well
				f = w.On(T4(users).From("R3").Nth(1))
				if drop == "reply" {
					f.DropReply()
				} else {
					f.DropRequest()
				}
				for _, r := range rs {
					r.release()
				}
				x.granted()
			})
		})
	}
}

// T6 to one of two readers.
func TestAskOfTwoReadersWhoseAnswerIsLost(t *testing.T) {
	for _, drop := range []string{"reply", "request"} {
		t.Run(drop, func(t *testing.T) {
			scenario(t, func(w *world) {
				a := w.hold("A", at(1), sharing, cleanup(time.Second))
				b := w.hold("B", at(1), sharing, cleanup(time.Second))
				f := w.On(T6(users).From("C").Nth(2))
				if drop == "reply" {
					f.DropReply()
				} else {
					f.DropRequest()
				}
				c := w.ask("C", at(5), forceful)
				await[recipes.PreemptAsked](a)
				await[recipes.PreemptAsked](b)
				a.release()
				w.referee.forgive(b.grant.ID())
				c.granted()
				require.Equal(w, recipes.LossTaken, await[recipes.Lost](b).Err.Reason)
				require.Equal(w, 2, times[recipes.PreemptSent](c))
			})
		})
	}
}

// T10 is on its way when the holder is taken over, is released or dies.
func TestDowngradeThatIsOvertaken(t *testing.T) {
	T10 := func() zktest.Match { return T3(users).From("H") }
	t.Run("taken over meanwhile", func(t *testing.T) {
		scenario(t, func(w *world) {
			h := w.hold("H", at(1))
			w.referee.forgive(h.grant.ID())
			held := w.On(T10().Nth(1)).Hold()
			errs := make(chan error, 1)
			w.referee.shares(h)
			go func() { errs <- h.grant.Downgrade(context.Background()) }()
			w.reached(held)
			c := w.ask("C", at(5), forceful)
			c.granted()
			held.Release()
			err := <-errs
			var lost *recipes.LostError
			require.ErrorAs(w, err, &lost)
			require.Equal(w, []string{"C"}, w.holders())
		})
	})
	t.Run("released meanwhile", func(t *testing.T) {
		scenario(t, func(w *world) {
			h := w.hold("H", at(1))
			x := w.ask("X", at(1))
			x.queued()
			held := w.On(T10().Nth(1)).Hold()
			errs := make(chan error, 1)
			w.referee.shares(h)
			go func() { errs <- h.grant.Downgrade(context.Background()) }()
			w.reached(held)
			out := h.releases()
			w.settle()
			held.Release()
			if err := <-errs; err != nil {
				require.ErrorIs(w, err, recipes.ErrReleased)
			}
			require.NoError(w, out())
			x.granted()
			require.Equal(w, []string{"X"}, w.holders())
		})
	})
	t.Run("session expires meanwhile", func(t *testing.T) {
		scenario(t, func(w *world) {
			h := w.hold("H", at(1))
			r := w.ask("R", at(1), sharing)
			r.queued()
			held := w.On(T10().Nth(1)).Hold()
			errs := make(chan error, 1)
			w.referee.shares(h)
			go func() { errs <- h.grant.Downgrade(context.Background()) }()
			w.reached(held)
			w.expire("H")
			held.Release()
			var lost *recipes.LostError
			require.ErrorAs(w, <-errs, &lost)
			r.granted()
		})
	})
}
