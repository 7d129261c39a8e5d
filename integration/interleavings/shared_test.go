package interleavings

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// 12: first waiter C outranks reader A and preempts it; reader B is added to G
// before A leaves; C preempts B as well, at once.
func TestReaderThatComesInBesideAPreemptedOneIsPreemptedAtOnce(t *testing.T) {
	each(t, map[string]func(w *world) (a, b *user, comes *zktest.Rule){
		"in one step": func(w *world) (a, b *user, comes *zktest.Rule) {
			a = w.hold("A", at(1), sharing, cleanup(time.Hour))
			comes, b = w.stops(T1(users).From("B"), "B", at(1), sharing, cleanup(time.Hour))
			return a, b, comes
		},
		"from the queue": func(w *world) (a, b *user, comes *zktest.Rule) {
			h := w.hold("H", at(9))
			a, b = w.wait("A", at(1), sharing, cleanup(time.Hour)), w.wait("B", at(1), sharing, cleanup(time.Hour))
			comes = w.On(T3(users).From("B")).Hold()
			w.must(T3(users).From("A"))
			w.expire("H")
			a.Granted()
			w.reached(comes)
			await[lock.Lost](h)
			return a, b, comes
		},
	}, func(w *world, given func(w *world) (a, b *user, comes *zktest.Rule)) {
		// given a reader that holds, and one that is about to come in beside it
		a, b, comes := given(w)

		// when a more important writer preempts the first one, and the other comes in
		c := w.ask("C", at(5))
		require.Equal(w, "C", await[lock.PreemptRequested](a).By.Owner)
		comes.Release()
		b.Granted()

		// then the writer asks that one, too, and holds when both have gone
		require.Equal(w, "C", await[lock.PreemptRequested](b).By.Owner)
		require.Equal(w, []string{"A", "B"}, sorted(w.holders()))
		a.release()
		c.waits()
		b.release()
		c.Granted()
		require.Equal(w, []string{"C"}, w.holders())
	})
}

// 13, with readers that decide: A and B release at the same moment, each
// believing the other alive.
func TestReadersThatLeaveAtOnceEachTakeTheOtherForAlive(t *testing.T) {
	scenario(t, func(w *world) {
		// given two readers and a writer that waits
		a, b := w.hold("A", at(1), sharing), w.hold("B", at(1), sharing)
		writer := w.ask("W", at(1))
		require.Len(w, writer.Queued().Holders, 2)

		// when both leave, and neither has seen the other go
		w.never(T4(users).From("A"))
		w.never(T4(users).From("B"))
		aLeaves, bLeaves := w.On(T5(users).From("A")).Hold(), w.On(T5(users).From("B")).Hold()
		aGone, bGone := a.releases(), b.releases()
		w.reached(aLeaves)
		w.reached(bLeaves)
		w.must(T3(users).From("W"))
		aLeaves.Release()
		bLeaves.Release()
		require.NoError(w, aGone())
		require.NoError(w, bGone())

		// then the writer grants itself the lock
		writer.Granted()
		require.Equal(w, []string{"W"}, w.holders())
	})
}

// 14 and 24: the last reader has decided to hand over, and another one comes in: only the version of L tells.
func TestLastReaderBesideWhomAnotherComesInOnlyLeaves(t *testing.T) {
	scenario(t, func(w *world) {
		// given a reader that holds, one that is about to come in beside it, and a
		// writer for whom the first one leaves
		a := w.hold("A", at(1), sharing)
		comes, b := w.stops(T1(users).From("B"), "B", at(1), sharing)
		writer := w.wait("W", at(1))
		handsOver, released := a.releasesUpTo(T4(users).From("A"))

		// when the other comes in
		w.must(T5(users).From("A"))
		comes.Release()
		b.Granted()
		handsOver.Release()

		// then the first one just leaves, and the writer waits for the other
		require.NoError(w, released())
		writer.waits()
		require.Equal(w, []string{"B"}, w.holders())
		w.Pass(short)
		b.release()
		writer.Granted()
	})
}

// T7 is decided on a G that grows before it is sent: the reader that came in
// would be forgotten.
func TestTakeoverThatWasDecidedBeforeAReaderCameInIsRefused(t *testing.T) {
	scenario(t, func(w *world) {
		// given a reader whose grace is over, one that is about to come in beside it,
		// and a takeover under way
		a := w.hold("A", at(1), sharing)
		comes, b := w.stops(T1(users).From("B"), "B", at(1), sharing, cleanup(time.Hour))
		takes, c := w.stops(T7(users).From("C"), "C", at(5), forceful)

		// when the other comes in
		comes.Release()
		b.Granted()
		takes.Release()

		// then it is preempted before anything is taken: all at once or none
		require.Equal(w, "C", await[lock.PreemptRequested](b).By.Owner)
		c.waits()
		require.Equal(w, []string{"A", "B"}, w.holders())
		require.Zero(w, times[lock.Lost](a))
		b.release()
		c.Granted()
		require.Equal(w, lock.LossTaken, await[lock.Lost](a).Err.Reason)
		require.Equal(w, 1, times[lock.TakenOver](c))
	})
}

// A reader comes in while another has joined the queue and not granted itself
// yet: that one is no holder.
func TestReaderThatComesInNamesNoWaiter(t *testing.T) {
	scenario(t, func(w *world) {
		// given a reader that holds, and one that has just joined the queue
		w.hold("A", at(1), sharing)
		w.On(T1(users).From("B")).Fail(zktest.BadVersion) // so it has to queue
		joins := w.On(T2(users).From("B")).HoldReply()
		b := w.ask("B", at(1), sharing)
		w.reached(joins)

		// when another comes, then it holds beside the first, and that one waits
		w.ask("C", at(1), sharing).Granted()
		require.Equal(w, []string{"A", "C"}, sorted(w.holders()))
		b.waits()
		joins.Release()
		b.Granted()
		require.Equal(w, []string{"A", "B", "C"}, sorted(w.holders()))
	})
}

// A reader that has to queue does not rest there as one does that can only wait
// for a hand-over.
func TestReaderInTheQueueHoldsBesideReadersAtOnce(t *testing.T) {
	scenario(t, func(w *world) {
		// beside a reader
		h := w.hold("A", at(1), sharing)
		w.client("B")
		w.client("W")
		w.On(T1(users).From("B").Nth(1)).Fail(zktest.BadVersion)
		w.On(T1(users).From("B").Nth(2)).Fail(zktest.BadVersion)
		w.On(T1(users).From("B").Nth(3)).Fail(zktest.BadVersion)
		asked := w.Now()
		b := w.ask("B", at(1), sharing)
		b.Granted()
		require.Less(w, w.Now()-asked, time.Millisecond)
		h.release()
		b.release()

		// beside a writer that shares
		h = w.hold("W", at(1))
		b = w.ask("B", at(1), sharing)
		b.joined()
		asked = w.Now()
		h.downgrade()
		b.Granted()
		require.Less(w, w.Now()-asked, 5*time.Millisecond)
	})
}

// A reader comes in between the first waiter's look at G and its watch on G: its
// lease is enforced all the same.
func TestReaderThatComesInBeforeTheWatchOnGIsSeen(t *testing.T) {
	scenario(t, func(w *world) {
		// given a reader that holds, one that is about to come in, and a writer that
		// has read G and not watched it
		const length = 30 * time.Second
		w.hold("A", at(1), sharing)
		comes, b := w.stops(T1(users).From("B"), "B", at(1), sharing, lease(length))
		watches, writer := w.stops(ReadsG(users).From("W").Where(func(q zktest.Request) bool { return q.Watch }).Nth(1), "W", at(1))

		// when the other comes in
		comes.Release()
		b.Granted()
		since := w.Now()
		watches.Release()

		// then its lease ends in time
		asked, when := awaitAt[lock.PreemptRequested](b)
		require.Equal(w, "W", asked.By.Owner)
		require.InDelta(w, length, when-since, float64(10*time.Millisecond))
		writer.waits()
	})
}

// T4 names the readers in front, all in one step: none has to come in by itself.
func TestHandOverNamesAllReadersInFront(t *testing.T) {
	scenario(t, func(w *world) {
		for _, name := range []string{"A", "B", "C"} {
			w.client(name)
			w.never(T3(users).From(name))
		}
		for round := range 8 {
			// given a writer that knows of others from before, and readers behind it
			first := w.hold("F", at(9))
			h := w.wait("H", at(5))
			readers := []*user{w.wait("A", at(3), sharing), w.wait("B", at(1), sharing), w.wait("C", at(1), sharing)}
			first.release()
			h.Granted()

			// when it leaves before it has looked for its successor, or soon after
			w.Pass(time.Duration(round) * 100 * time.Microsecond)
			h.release()

			// then all have the lock by the same grant
			for _, r := range readers {
				require.Equal(w, readers[0].Token(), r.Token(), "round %d", round)
				r.release()
			}
		}
	})
}

// 13, with a writer that has only just joined: it does not rest as behind one
// holder, which would hand over.
func TestWriterThatHasJustJoinedBehindReadersHoldsAtOnce(t *testing.T) {
	scenario(t, func(w *world) {
		a, b := w.hold("A", at(1), sharing), w.hold("B", at(1), sharing)
		w.client("W")
		aLeaves, bLeaves := w.On(T5(users).From("A")).Hold(), w.On(T5(users).From("B")).Hold()
		aGone, bGone := a.releases(), b.releases()
		w.reached(aLeaves)
		w.reached(bLeaves)
		writer := w.ask("W", at(1))
		writer.joined()
		asked := w.Now()
		aLeaves.Release()
		bLeaves.Release()
		require.NoError(w, aGone())
		require.NoError(w, bGone())
		writer.Granted()
		require.Less(w, w.Now()-asked, 5*time.Millisecond)
	})
}

// T10 ends what a holder knew as one that was alone: whom it would have handed
// over to.
func TestHolderThatSharesLooksAgainWhomItHandsOverTo(t *testing.T) {
	scenario(t, func(w *world) {
		// given a holder that has looked who is next: a writer
		z := w.hold("Z", at(5))
		h := w.wait("H", at(3))
		writer := w.wait("W", at(0))
		w.client("R")
		z.release()
		h.Granted()
		w.Pass(time.Millisecond)

		// when it shares, a reader comes in, and it leaves
		h.downgrade()
		r := w.ask("R", at(4), sharing)
		r.Granted()
		h.release()

		// then the reader holds
		require.Equal(w, []string{"R"}, w.holders())
		writer.waits()
		r.release()
		writer.Granted()
	})
}

// T10: the readers that wait come in, the writer among them goes on waiting, and
// the token stays.
func TestDowngradeLetsReadersInAndKeepsTheHold(t *testing.T) {
	scenario(t, func(w *world) {
		// given a writer that holds, a reader that waits, and another writer behind it
		h := w.hold("H", at(1))
		token := h.Token()
		reader := w.wait("R", at(1), sharing)
		writer := w.wait("W", at(1))

		// when the holder shares
		h.downgrade()

		// then the reader holds beside it, the same token stands, and the writer waits
		reader.Granted()
		require.Equal(w, []string{"H", "R"}, sorted(w.holders()))
		require.Equal(w, token, h.Token())
		require.Greater(w, reader.Token(), token)
		writer.waits()
		w.Pass(short)

		// and it comes when both have gone
		h.release()
		writer.waits()
		reader.release()
		writer.Granted()
	})
}

// T10 is decided on a mailbox that grows before it is sent: the note survives.
func TestDowngradeErasesNoPreemption(t *testing.T) {
	scenario(t, func(w *world) {
		// given a writer that is about to share
		h := w.hold("H", at(1), cleanup(time.Hour))
		shares := w.On(T3(users).From("H").Nth(1)).Hold()
		shared := h.downgrades()
		w.reached(shares)

		// when a more important writer preempts it
		asks := w.must(T6(users).From("C"))
		c := w.ask("C", at(5))
		await[lock.PreemptSent](c)
		shares.Release()
		require.NoError(w, shared())

		// then it is asked still, by the same note, and shares
		require.Equal(w, "C", await[lock.PreemptRequested](h).By.Owner)
		c.waits()
		require.Len(w, w.state().Holders[0].PreemptedBy, 1)
		require.Equal(w, 1, asks.Fired())
		require.Zero(w, times[lock.PreemptionWithdrawn](h))
		c.waits()
		h.release()
		c.Granted()
	})
}

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}
