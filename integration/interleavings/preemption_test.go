package interleavings

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// 15: H was granted by hand-over and is taken over by T7; when H reads for its
// token after that, it learns that it lost, and never gets the new holder's.
func TestTokenThatIsReadAroundATakeoverIsNeverThatOfTheNewHolder(t *testing.T) {
	// given a holder by hand-over, which asks for its token
	given := func(w *world, reads func(id string) *zktest.Rule) (h *user, own lock.Token, asked *zktest.Rule, outcome func() (lock.Token, error)) {
		first := w.hold("F", at(5))
		h = w.wait("H", at(1))
		asked = reads(h.id())
		first.release()
		h.Granted()
		nodes := w.lock().Contenders
		require.Len(w, nodes, 1)
		outcome = later(w, "the token", func() (lock.Token, error) { return h.Granted().Token(context.Background()) })
		w.reached(asked)
		return h, nodes[0].Token, asked, outcome
	}

	scenarios(t, map[string]func(w *world){
		"taken over before it reads": func(w *world) {
			h, _, asked, outcome := given(w, func(id string) *zktest.Rule { return w.On(Reads(users, id).From("H")).Hold() })

			// when it is taken over
			p := w.hold("P", at(9), forceful)
			asked.Release()

			// then it learns that it has lost
			token, err := outcome()
			lost := lostBy(w, err)
			require.Equal(w, lock.LossTaken, lost.Reason)
			require.Equal(w, "P", lost.By)
			require.Zero(w, token)
			require.Zero(w, lost.Token)
			require.Equal(w, lost, await[lock.Lost](h).Err)
			require.Equal(w, p.Token(), w.state().Holders[0].Token)
		},
		"taken over before it is answered": func(w *world) {
			h, own, asked, outcome := given(w, func(id string) *zktest.Rule { return w.On(Reads(users, id).From("H")).HoldReply() })

			// when it is taken over
			p := w.hold("P", at(9), forceful)
			asked.Release()

			// then it has its own token, unless it has heard before that it has lost
			token, err := outcome()
			lost := await[lock.Lost](h).Err
			if err != nil {
				require.ErrorIs(w, err, lost)
				token = own
			}
			require.Equal(w, own, token)
			require.Equal(w, lock.LossTaken, lost.Reason)
			require.Contains(w, []lock.Token{0, own}, lost.Token)
			require.Greater(w, p.Token(), own)
		},
	})
}

// 16: x's lease runs out on the server's clock while the first waiter's wall clock
// is an hour off; T7 comes neither early nor late.
func TestLeaseIsMeasuredOnTheServersClock(t *testing.T) {
	scenario(t, func(w *world) {
		const length, grace, network = 10 * time.Second, 3 * time.Second, 300 * time.Millisecond

		// given a server whose clock is an hour ahead, a holder, and a waiter whose
		// join and its answer were long under way
		w.Advance(time.Hour)
		h := w.hold("H", at(9), lease(length), cleanup(grace))
		since := w.Now() - short
		sent := w.On(T2(users).From("W")).Delay(network)
		x := w.ask("W", at(1))
		w.reached(sent)

		// then it preempts the holder when the lease is over
		asked, when := awaitAt[lock.PreemptRequested](h)
		require.Equal(w, priority.LeaseExpired, asked.Reason)
		require.GreaterOrEqual(w, when-since, length)
		require.Less(w, when-since, length+10*time.Millisecond)

		// and takes the lock when the grace is over
		x.Granted()
		_, gone := awaitAt[lock.Lost](h)
		require.GreaterOrEqual(w, gone-when, grace)
		require.Less(w, gone-when, grace+10*time.Millisecond)
	})
}

// 17: a polite preemptor's grace ends; it withdraws its request and the holder
// finishes cleaning at the same moment. The preemptor gets an error and never
// becomes owner later; the lock goes to the next waiter.
func TestPolitePreemptorThatGivesUpNeverHolds(t *testing.T) {
	// given a holder that cleans up, a polite preemptor whose patience is at an
	// end, and another behind it
	given := func(w *world, held zktest.Match) (h, p, m *user, leaving *zktest.Rule) {
		leaving = w.On(held.From("P")).Hold()
		h = w.hold("H", at(5), cleanup(time.Hour))
		p = w.ask("P", at(9), waiting(100*time.Millisecond))
		m = w.ask("M", at(1))
		await[lock.PreemptRequested](h)
		require.Equal(w, 2, m.Queued().Position)
		w.reached(leaving)
		return h, p, m, leaving
	}
	// then the preemptor has an error, and the one behind it holds
	ends := func(w *world, p, m *user) {
		require.ErrorAs(w, p.Refused(), new(*lock.CleanupPendingError))
		m.Granted()
		require.Equal(w, []string{"M"}, w.holders())
		require.Empty(w, w.state().Holders[0].PreemptedBy)
	}

	scenarios(t, map[string]func(w *world){
		"the hand-over comes before the withdrawal": func(w *world) {
			h, p, m, withdraws := given(w, Withdraws(users))

			// when the holder hands over as the preemptor takes its request back
			w.must(T4(users).From("H"))
			h.release()
			withdraws.Release()

			ends(w, p, m)
		},
		"the hand-over comes before the leaving": func(w *world) {
			h, p, m, leaves := given(w, T8(users))

			// when the holder hands over as the preemptor leaves
			w.must(T4(users).From("H"))
			h.release()
			leaves.Release()

			ends(w, p, m)
		},
		"the leaving comes before the hand-over": func(w *world) {
			h, p, m, leaves := given(w, T8(users))

			// when the preemptor leaves as the holder hands over to it
			handsOver, released := h.releasesUpTo(T4(users).From("H").Nth(1))
			leaves.Release()
			p.Refused()
			w.must(T4(users).From("H"))
			handsOver.Release()
			require.NoError(w, released())

			ends(w, p, m)
		},
	})
}

// 18: a forceful preemptor's grace ends at the moment the holder releases by T4
// to it: exactly one grant, one token, no double start.
func TestTakeoverAndHandOverAtTheSameMomentGrantOnce(t *testing.T) {
	const grace = 200 * time.Millisecond
	scenarios(t, map[string]func(w *world){
		"the hand-over comes first": func(w *world) {
			// given a takeover under way
			h := w.hold("H", at(5), cleanup(grace))
			takes, p := w.stops(T7(users).From("P"), "P", at(9), forceful)

			// when the holder hands over before it
			w.must(T4(users).From("H"))
			h.release()
			takes.Release()

			// then the preemptor holds, by the hand-over
			p.Granted()
			require.Zero(w, times[lock.TakenOver](p))
			state := w.state()
			require.Equal(w, []string{"P"}, owners(state.Holders))
			require.Empty(w, state.Evicted)
			require.Equal(w, state.Holders[0].Token, p.Token())
			require.Greater(w, p.Token(), h.Token())
		},
		"the hand-over comes first, and the takeover is lost": func(w *world) {
			// given a takeover whose connection breaks before it is carried out
			h := w.hold("H", at(5))
			w.client("P")
			returns := w.On(zktest.Op(zktest.Connect).From("P")).Hold()
			lost := w.On(T7(users).From("P").Nth(1)).DropRequest()
			p := w.ask("P", at(9), forceful)
			w.reached(lost)
			w.reached(returns)

			// when the holder hands over before the preemptor is back
			h.release()
			returns.Release()

			// then the preemptor holds, and has evicted no holder
			p.Granted()
			require.Zero(w, times[lock.TakenOver](p))
			require.Zero(w, times[lock.Lost](h))
			require.Empty(w, w.state().Evicted)
		},
		"the takeover comes first": func(w *world) {
			// given a takeover and a hand-over under way
			h := w.hold("H", at(5), cleanup(grace))
			takes, p := w.stops(T7(users).From("P"), "P", at(9), forceful)
			handsOver, released := h.releasesUpTo(T4(users).From("H"))

			// when the preemptor takes over before it
			takes.Release()
			p.Granted()
			token := p.Token()
			handsOver.Release()

			// then the holder learns that it had lost, and nothing else happens
			lost := lostBy(w, released())
			require.Equal(w, lock.LossTaken, lost.Reason)
			require.Equal(w, "P", lost.By)
			require.Equal(w, 1, times[lock.TakenOver](p))
			state := w.state()
			require.Equal(w, []string{"P"}, owners(state.Holders))
			require.Equal(w, token, state.Holders[0].Token)
			require.Greater(w, token, h.Token())
		},
	})
}

// 25: a T6 is written to a holder before it has read its token; the holder, the
// preemptor and the listing still agree on the token of the grant.
func TestTokenIsTheOneOfTheGrantAfterLaterWrites(t *testing.T) {
	scenario(t, func(w *world) {
		// given a holder by hand-over, which has not read its token
		first := w.hold("F", at(5))
		h := w.wait("H", at(1))
		reads := w.On(Reads(users, h.id()).From("H")).Hold()
		first.release()
		h.Granted()
		nodes := w.lock().Contenders
		require.Len(w, nodes, 1)
		want := nodes[0].Token
		outcome := later(w, "the token", func() (lock.Token, error) { return h.Granted().Token(context.Background()) })
		w.reached(reads)

		// when it is preempted before that is answered
		p := w.ask("P", at(9))
		sent := await[lock.PreemptSent](p)
		reads.Release()

		// then all have the same token
		token, err := outcome()
		require.NoError(w, err)
		require.Equal(w, want, token)
		require.Equal(w, want, sent.Holder.Token)
		require.Equal(w, want, w.state().Holders[0].Token)

		// and it stays so when the request is taken back
		p.Cancel()
		require.ErrorIs(w, p.Refused(), context.Canceled)
		await[lock.PreemptionWithdrawn](h)
		require.Equal(w, want, w.state().Holders[0].Token)
		require.Greater(w, want, first.Token())
	})
}
