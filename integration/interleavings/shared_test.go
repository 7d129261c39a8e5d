package interleavings

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// 12: first waiter C outranks reader A and preempts it; reader B is added to G
// before A leaves; C preempts B as well, at once.
func TestReaderThatComesInBesideAPreemptedOneIsPreemptedAtOnce(t *testing.T) {
	t.Run("in one step", func(t *testing.T) {
		scenario(t, func(w *world) {
			// given a reader that holds, and one that is about to come in beside it
			a := w.hold("A", at(1), sharing, cleanup(time.Hour))
			comes := w.On(T1(users).From("B")).Hold()
			b := w.ask("B", at(1), sharing, cleanup(time.Hour))
			w.reached(comes)

			// when a more important writer asks the first one to go, and the other comes in
			c := w.ask("C", at(5))
			require.Equal(w, "C", await[recipes.PreemptAsked](a).By.Owner)
			comes.Release()
			b.granted()

			// then the writer asks that one, too, and holds when both have gone
			require.Equal(w, "C", await[recipes.PreemptAsked](b).By.Owner)
			require.Equal(w, []string{"A", "B"}, w.holders())
			a.release()
			c.waits()
			b.release()
			c.granted()
			require.Equal(w, []string{"C"}, w.holders())
		})
	})
	t.Run("from the queue", func(t *testing.T) {
		scenario(t, func(w *world) {
			// given two readers that wait for a writer, which dies
			h := w.hold("H", at(9))
			a := w.ask("A", at(1), sharing, cleanup(time.Hour))
			a.queued()
			b := w.ask("B", at(1), sharing, cleanup(time.Hour))
			b.queued()
			comes := w.On(T3(users).From("B")).Hold()
			w.must(T3(users).From("A"))
			w.expire("H")
			a.granted()
			w.reached(comes)
			await[recipes.Lost](h)

			// when a more important writer asks the first one to go, and the other comes in
			c := w.ask("C", at(5))
			require.Equal(w, "C", await[recipes.PreemptAsked](a).By.Owner)
			comes.Release()
			b.granted()

			// then the writer asks that one, too, and holds when both have gone
			require.Equal(w, "C", await[recipes.PreemptAsked](b).By.Owner)
			b.release()
			c.waits()
			a.release()
			c.granted()
		})
	})
}

// 13, with readers that decide: A and B release at the same moment, each
// believing the other alive.
func TestReadersThatLeaveAtOnceEachTakeTheOtherForAlive(t *testing.T) {
	scenario(t, func(w *world) {
		// given two readers and a writer that waits
		a, b := w.hold("A", at(1), sharing), w.hold("B", at(1), sharing)
		writer := w.ask("W", at(1))
		require.Len(w, writer.queued().Holders, 2)

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
		writer.granted()
		require.Equal(w, []string{"W"}, w.holders())
	})
}

// 14: last reader A has read L and decides to hand over to reader B, which
// grants itself in between; A's T4 fails and A just leaves.
func TestLastReaderWhoseSuccessorHasGrantedItselfOnlyLeaves(t *testing.T) {
	scenario(t, func(w *world) {
		// given a reader that holds, one that is in the queue, and a hand-over to it under way
		a := w.hold("A", at(1), sharing)
		refused := w.On(T1(users).From("B")).Fail(zktest.BadVersion) // so it has to queue
		joins := w.On(T2(users).From("B")).HoldReply()
		b := w.ask("B", at(1), sharing)
		w.reached(joins)
		handsOver := w.On(T4(users).From("A")).Hold()
		released := a.releases()
		w.reached(handsOver)

		// when that one grants itself the lock
		w.must(T3(users).From("B"))
		leaves := w.must(T5(users).From("A"))
		joins.Release()
		b.granted()
		handsOver.Release()

		// then the first one just leaves
		require.NoError(w, released())
		w.reached(leaves)
		require.NotZero(w, refused.Fired())
		require.Equal(w, []string{"B"}, w.holders())
	})
}

// 14, with a reader that comes in without queueing: only the version of L tells.
func TestLastReaderBesideWhomAnotherComesInOnlyLeaves(t *testing.T) {
	scenario(t, func(w *world) {
		// given a reader that holds, one that is about to come in beside it, and a
		// writer for whom the first one leaves
		a := w.hold("A", at(1), sharing)
		comes := w.On(T1(users).From("B")).Hold()
		b := w.ask("B", at(1), sharing)
		w.reached(comes)
		writer := w.ask("W", at(1))
		writer.queued()
		handsOver := w.On(T4(users).From("A")).Hold()
		released := a.releases()
		w.reached(handsOver)

		// when the other comes in
		w.must(T5(users).From("A"))
		comes.Release()
		b.granted()
		handsOver.Release()

		// then the first one just leaves, and the writer waits for the other
		require.NoError(w, released())
		writer.waits()
		require.Equal(w, []string{"B"}, w.holders())
		w.pass(short)
		b.release()
		writer.granted()
	})
}

// 24: last reader A lists only exclusive waiter X; a more important reader
// grants itself before A's T4; T4 fails on v and A only leaves.
func TestHandOverPastAReaderThatGrantsItselfIsRefused(t *testing.T) {
	scenario(t, func(w *world) {
		// given a reader that is about to hand over to a writer
		a := w.hold("A", at(1), sharing)
		x := w.ask("X", at(0))
		x.queued()
		handsOver := w.On(T4(users).From("A")).Hold()
		released := a.releases()
		w.reached(handsOver)

		// when a more important reader comes, and grants itself the lock
		w.On(T1(users).From("B")).Fail(zktest.BadVersion) // so it has to queue
		w.must(T3(users).From("B"))
		b := w.ask("B", at(3), sharing)
		b.granted()
		w.must(T5(users).From("A"))
		handsOver.Release()

		// then the first one only leaves, and the writer waits
		require.NoError(w, released())
		require.Equal(w, []string{"B"}, w.holders())
		x.waits()
		b.release()
		x.granted()
	})
}

// T7 is decided on a G that grows before it is sent: the reader that came in
// would be forgotten.
func TestTakeoverThatWasDecidedBeforeAReaderCameInIsRefused(t *testing.T) {
	scenario(t, func(w *world) {
		// given a reader whose grace is over, one that is about to come in beside it,
		// and a takeover under way
		a := w.hold("A", at(1), sharing)
		comes := w.On(T1(users).From("B")).Hold()
		b := w.ask("B", at(1), sharing, cleanup(time.Hour))
		w.reached(comes)
		takes := w.On(T7(users).From("C")).Hold()
		c := w.ask("C", at(5), forceful)
		w.reached(takes)

		// when the other comes in
		comes.Release()
		b.granted()
		takes.Release()

		// then it is asked to go before anything is taken: all at once or nobody
		require.Equal(w, "C", await[recipes.PreemptAsked](b).By.Owner)
		c.waits()
		require.Equal(w, []string{"A", "B"}, w.holders())
		require.Zero(w, times[recipes.Lost](a))
		b.release()
		c.granted()
		require.Equal(w, recipes.LossTaken, await[recipes.Lost](a).Err.Reason)
		require.Equal(w, 1, times[recipes.TookOver](c))
	})
}

// Two readers come in at the same version of L: the second would forget the
// first.
func TestOfTwoReadersThatComeInAtOnceNoneIsForgotten(t *testing.T) {
	scenario(t, func(w *world) {
		// given a reader that holds, and one that is about to come in beside it
		w.hold("A", at(1), sharing)
		comes := w.On(T1(users).From("B").Nth(1)).Hold()
		b := w.ask("B", at(1), sharing)
		w.reached(comes)

		// when another one comes in first
		w.ask("C", at(1), sharing).granted()
		comes.Release()

		// then all three hold
		b.granted()
		require.Equal(w, []string{"A", "B", "C"}, sorted(w.holders()))
	})
}

// A reader reads the lock as idle or as shared, and a writer takes it before the
// reader does.
func TestReaderThatComesInAfterAWriterTookTheLockQueues(t *testing.T) {
	scenario(t, func(w *world) {
		// given a reader that is about to come in beside another
		a := w.hold("A", at(1), sharing)
		comes := w.On(T1(users).From("B").Nth(1)).Hold()
		b := w.ask("B", at(1), sharing)
		w.reached(comes)

		// when that one leaves, and a writer holds
		a.release()
		writer := w.hold("W", at(3))
		comes.Release()

		// then the reader waits for the writer
		b.queued()
		b.waits()
		require.Equal(w, []string{"W"}, w.holders())
		writer.release()
		b.granted()
	})
}

// A reader comes in while another has joined the queue and not granted itself
// yet: that one is no holder.
func TestReaderThatComesInNamesNobodyThatWaits(t *testing.T) {
	scenario(t, func(w *world) {
		// given a reader that holds, and one that has just joined the queue
		w.hold("A", at(1), sharing)
		w.On(T1(users).From("B")).Fail(zktest.BadVersion) // so it has to queue
		joins := w.On(T2(users).From("B")).HoldReply()
		b := w.ask("B", at(1), sharing)
		w.reached(joins)

		// when another comes, then it holds beside the first, and that one waits
		w.ask("C", at(1), sharing).granted()
		require.Equal(w, []string{"A", "C"}, sorted(w.holders()))
		b.waits()
		joins.Release()
		b.granted()
		require.Equal(w, []string{"A", "B", "C"}, sorted(w.holders()))
	})
}

// A reader that has to queue does not rest there as one does that can only wait
// for a hand-over.
func TestReaderInTheQueueHoldsBesideReadersAtOnce(t *testing.T) {
	embeddedOnly(t, "it is about milliseconds", func(w *world) {
		// beside a reader
		h := w.hold("A", at(1), sharing)
		w.client("B")
		w.client("W")
		w.On(T1(users).From("B").Nth(1)).Fail(zktest.BadVersion)
		w.On(T1(users).From("B").Nth(2)).Fail(zktest.BadVersion)
		w.On(T1(users).From("B").Nth(3)).Fail(zktest.BadVersion)
		asked := w.elapsed()
		b := w.ask("B", at(1), sharing)
		b.granted()
		require.Less(w, w.elapsed()-asked, time.Millisecond)
		h.release()
		b.release()

		// beside a writer that shares
		h = w.hold("W", at(1))
		b = w.ask("B", at(1), sharing)
		b.joined()
		asked = w.elapsed()
		h.downgrades()
		b.granted()
		require.Less(w, w.elapsed()-asked, 5*time.Millisecond)
	})
}

// A reader's reply is lost while it comes in beside others: it finds itself in G.
func TestReaderWhoseGrantIsNotAnsweredFindsItself(t *testing.T) {
	scenario(t, func(w *world) {
		a := w.hold("A", at(1), sharing)
		lost := w.On(T1(users).From("B").Nth(1)).DropReply()
		b := w.ask("B", at(1), sharing)
		w.reached(lost)
		b.granted()
		require.Len(w, w.admin.contenders(w.root), 2)
		require.Equal(w, []string{"A", "B"}, sorted(w.holders()))
		w.pass(short)
		a.release()
		require.Equal(w, []string{"B"}, w.holders())
	})
}

// A reader comes in between the first waiter's look at G and its watch on G: its
// lease is enforced all the same.
func TestReaderThatComesInBeforeTheWatchOnGIsSeen(t *testing.T) {
	embeddedOnly(t, "the lease is half a minute, less than the poll that would hide it", func(w *world) {
		// given a reader that holds, one that is about to come in, and a writer that
		// has read G and not watched it
		const length = 30 * time.Second
		w.hold("A", at(1), sharing)
		comes := w.On(T1(users).From("B")).Hold()
		b := w.ask("B", at(1), sharing, lease(length))
		w.reached(comes)
		watches := w.On(ReadsG(users).From("W").Where(func(q zktest.Request) bool { return q.Watch }).Nth(1)).Hold()
		writer := w.ask("W", at(1))
		w.reached(watches)

		// when the other comes in
		comes.Release()
		b.granted()
		since := w.elapsed()
		watches.Release()

		// then its lease ends in time
		asked, when := awaitWithin[recipes.PreemptAsked](b, 2*length)
		require.Equal(w, "W", asked.By.Owner)
		require.InDelta(w, length, when-since, float64(10*time.Millisecond))
		writer.waits()
	})
}

// T4 names the readers in front, all in one step: none has to come in by itself.
func TestHandOverNamesAllReadersInFront(t *testing.T) {
	scenario(t, func(w *world) {
		h := w.hold("H", at(5))
		readers := []*user{w.ask("A", at(3), sharing), w.ask("B", at(1), sharing), w.ask("C", at(1), sharing)}
		for _, r := range readers {
			r.queued()
			w.never(T3(users).From(r.owner))
		}
		h.release()
		for _, r := range readers {
			r.granted()
		}
	})
}

// 13, with a writer that has only just joined: it does not rest as behind one
// holder, which would hand over.
func TestWriterThatHasJustJoinedBehindReadersHoldsAtOnce(t *testing.T) {
	embeddedOnly(t, "it is about milliseconds", func(w *world) {
		a, b := w.hold("A", at(1), sharing), w.hold("B", at(1), sharing)
		w.client("W")
		aLeaves, bLeaves := w.On(T5(users).From("A")).Hold(), w.On(T5(users).From("B")).Hold()
		aGone, bGone := a.releases(), b.releases()
		w.reached(aLeaves)
		w.reached(bLeaves)
		writer := w.ask("W", at(1))
		writer.joined()
		asked := w.elapsed()
		aLeaves.Release()
		bLeaves.Release()
		require.NoError(w, aGone())
		require.NoError(w, bGone())
		writer.granted()
		require.Less(w, w.elapsed()-asked, 5*time.Millisecond)
	})
}

// T10 ends what a holder knew as one that was alone: whom it would have handed
// over to.
func TestHolderThatSharesLooksAgainWhomItHandsOverTo(t *testing.T) {
	embeddedOnly(t, "what it knew is good for milliseconds", func(w *world) {
		// given a holder that has looked who is next: a writer
		z := w.hold("Z", at(5))
		h := w.ask("H", at(3))
		h.queued()
		writer := w.ask("W", at(0))
		writer.queued()
		w.client("R")
		z.release()
		h.granted()
		w.pass(time.Millisecond)

		// when it shares, a reader comes in, and it leaves
		h.downgrades()
		r := w.ask("R", at(4), sharing)
		r.granted()
		h.release()

		// then the reader holds
		require.Equal(w, []string{"R"}, w.holders())
		writer.waits()
		r.release()
		writer.granted()
	})
}

// T10: the readers that wait come in, the writer among them goes on waiting, and
// the token stays.
func TestDowngradeLetsReadersInAndKeepsTheHold(t *testing.T) {
	scenario(t, func(w *world) {
		// given a writer that holds, a reader that waits, and another writer behind it
		h := w.hold("H", at(1))
		token := h.token()
		reader := w.ask("R", at(1), sharing)
		reader.queued()
		writer := w.ask("W", at(1))
		writer.queued()

		// when the holder shares
		h.downgrades()

		// then the reader holds beside it, the same token stands, and the writer waits
		reader.granted()
		require.Equal(w, []string{"H", "R"}, sorted(w.holders()))
		require.Equal(w, token, h.token())
		require.Greater(w, reader.token(), token)
		writer.waits()
		w.pass(short)

		// and it comes when both have gone
		h.release()
		writer.waits()
		reader.release()
		writer.granted()
	})
}

// T10 whose reply is lost is done once.
func TestDowngradeWhoseReplyIsLostIsDone(t *testing.T) {
	scenario(t, func(w *world) {
		h := w.hold("H", at(1))
		token := h.token()
		lost := w.On(T3(users).From("H").Nth(1)).DropReply() // two writes, as T3
		h.downgrades()
		w.reached(lost)
		w.hold("R", at(1), sharing)
		require.Equal(w, []string{"H", "R"}, sorted(w.holders()))
		require.Equal(w, token, h.token())
	})
}

// T10 is decided on a mailbox that grows before it is sent: the note survives.
func TestDowngradeErasesNoPreemption(t *testing.T) {
	scenario(t, func(w *world) {
		// given a writer that is about to share
		h := w.hold("H", at(1), cleanup(time.Hour))
		shares := w.On(T3(users).From("H").Nth(1)).Hold()
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.downgrades()
		}()
		w.reached(shares)

		// when a more important writer asks it to go
		asks := w.must(T6(users).From("C"))
		c := w.ask("C", at(5))
		await[recipes.PreemptSent](c)
		shares.Release()
		<-done

		// then it is asked still, by the same note, and shares
		require.Equal(w, "C", await[recipes.PreemptAsked](h).By.Owner)
		c.waits()
		require.Len(w, w.state().Holders[0].PreemptedBy, 1)
		require.Equal(w, 1, asks.Fired())
		require.Zero(w, times[recipes.PreemptWithdrawn](h))
		c.waits()
		h.release()
		c.granted()
	})
}

// A more important reader has asked a writer to go. The writer shares instead:
// the reader holds, and takes its note back.
func TestPreemptedWriterThatSharesIsAskedNoLonger(t *testing.T) {
	scenario(t, func(w *world) {
		h := w.hold("H", at(1), cleanup(time.Hour))
		reader := w.ask("R", at(5), sharing)
		await[recipes.PreemptAsked](h)
		h.downgrades()
		reader.granted()
		await[recipes.PreemptWithdrawn](h)
		require.Equal(w, []string{"H", "R"}, sorted(w.holders()))
	})
}

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}
