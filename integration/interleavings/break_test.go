package interleavings

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// operator returns a client that can be told from others.
func (w *world) operator() *client {
	if known := w.clients["ana"]; known != nil {
		return known
	}
	return w.client("ana", func(cfg *lock.Config) { cfg.Auth = &lock.Digest{User: "ana", Password: "s3cret"} })
}

// breaks begins to break the lock of the holder with a token. The function that
// it returns waits for the outcome.
func (w *world) breaks(token lock.Token, change ...func(*lock.BreakRequest)) (outcome func() (lock.Contender, error)) {
	w.Helper()
	r := lock.BreakRequest{Scope: users, Token: token, By: "ana", Reason: "it hangs"}
	for _, f := range change {
		f(&r)
	}
	for _, h := range w.state().Holders {
		if h.Token == token {
			w.forgive(h.ID)
		}
	}
	c := w.operator()
	return later(w, "the break", func() (lock.Contender, error) { return c.Break(context.Background(), r) })
}

// broke breaks the lock of the holder with a token.
func (w *world) broke(token lock.Token) {
	w.Helper()
	_, err := w.breaks(token)()
	require.NoError(w, err)
}

// broken waits until a user learns that its lock was broken.
func (u *user) broken() {
	u.w.Helper()
	loss := await[lock.Lost](u).Err
	require.Equal(u.w, lock.LossBroken, loss.Reason)
	require.Equal(u.w, "ana", loss.By)
	require.Equal(u.w, "it hangs", loss.Why)
	require.Empty(u.w, loss.For)
}

// 37: the lock of one holder is broken: it learns by whom and why, and the first
// in line holds.
func TestHolderWhoseLockIsBrokenIsNotifiedAndTheFirstWaiterHolds(t *testing.T) {
	scenario(t, func(w *world) {
		h := w.hold("H", at(9), cleanup(time.Hour))
		s := w.wait("S", at(3))

		// when its lock is broken, with its token
		token := h.Token()
		var shown []lock.Contender
		victim, err := w.breaks(token, func(r *lock.BreakRequest) {
			r.Authorize = func(_ context.Context, holders []lock.Contender) error {
				shown = holders
				return nil
			}
		})()

		// then it and the operator know, and the other one holds
		require.NoError(w, err)
		require.Equal(w, "H", victim.Owner)
		require.Equal(w, token, victim.Token)
		require.Len(w, shown, 1)
		require.Equal(w, h.Granted().ID(), shown[0].ID)
		h.broken()
		s.Granted()
		require.Greater(w, s.Token(), token)
		state := w.state()
		require.Equal(w, []string{"S"}, owners(state.Holders))
		require.False(w, state.Evicted[0].At.IsZero())
		state.Evicted[0].At = time.Time{}
		require.Equal(w, lock.Eviction{ID: victim.ID, Owner: "H", By: "ana", Why: "it hangs"}, state.Evicted[0])

		// and the same words break no other lock
		var stale *lock.StaleTokenError
		_, err = w.breaks(token)()
		require.ErrorAs(w, err, &stale)
		require.Equal(w, []string{"S"}, owners(stale.Holders))
		require.Equal(w, s.Token(), stale.Holders[0].Token)
		require.ErrorContains(w, err, "lockkeeper locks show users")
		s.holdsOn()
		require.Equal(w, []string{"S"}, w.holders())
	})
}

// 37: of several that share the lock it is the one with that token.
func TestReaderWhoseLockIsBrokenIsTheOnlyOne(t *testing.T) {
	scenario(t, func(w *world) {
		a := w.hold("A", at(1), sharing)
		b := w.hold("B", at(2), sharing)
		c := w.hold("C", at(1), sharing)
		s := w.ask("S", at(3))
		await[lock.PreemptSent](s)
		w.broke(b.Token())
		b.broken()
		require.ElementsMatch(w, []string{"A", "C"}, w.holders())
		a.holdsOn()
		c.holdsOn()
		s.waits()
		a.release()
		c.release()
		s.Granted()
	})
}

// 37: what needs a name and a reason is refused without.
func TestBreakThatCannotBeIsRefused(t *testing.T) {
	scenarios(t, map[string]func(w *world){
		"no holder": func(w *world) {
			_, err := w.breaks(7)()
			require.ErrorAs(w, err, new(*lock.NotHeldError), "it was never locked")
			h := w.hold("H")
			token := h.Token()
			h.release()
			_, err = w.breaks(token)()
			require.ErrorAs(w, err, new(*lock.NotHeldError))
			require.Equal(w, `lock "users" not broken: no client holds it; there is nothing to do`, err.Error())
		},
		"by a stranger": func(w *world) {
			h := w.hold("H")
			var who *lock.IdentityError
			w.never(zktest.Any().Path(contenders(users)).From("stranger"))
			_, err := w.client("stranger").Break(t.Context(), lock.BreakRequest{Scope: users, Token: h.Token(), By: "ana", Reason: "it hangs"})
			require.ErrorAs(w, err, &who)
			h.holdsOn()
		},
		"not authorized": func(w *world) {
			h := w.hold("H")
			w.never(Breaks(users))
			no := errors.New("the audit trail is full")
			_, err := w.breaks(h.Token(), func(r *lock.BreakRequest) {
				r.Authorize = func(context.Context, []lock.Contender) error { return no }
			})()
			require.ErrorIs(w, err, no)
			h.holdsOn()
		},
		"incomplete": func(w *world) {
			_, err := w.operator().Break(t.Context(), lock.BreakRequest{Scope: users})
			for _, field := range []string{"token", "by", "reason"} {
				require.ErrorContains(w, err, "lockkeeper: "+field+": ")
			}
		},
	})
}

// 38: a break under way races with anything else that ends the hold: it is
// done, or the holder that is meant is gone and no other holder is hit.
func TestBreakUnderWayHitsOnlyTheHolderThatIsMeant(t *testing.T) {
	// the break is held on its way
	given := func(w *world, h *user) (breaks *zktest.Rule, outcome func() (lock.Contender, error)) {
		breaks = w.On(Breaks(users).From("ana").Nth(1)).Hold()
		outcome = w.breaks(h.Token())
		w.reached(breaks)
		return breaks, outcome
	}
	scenarios(t, map[string]func(w *world){
		"released before": func(w *world) {
			h := w.hold("H", at(9))
			breaks, outcome := given(w, h)
			h.release()
			breaks.Release()
			_, err := outcome()
			require.ErrorAs(w, err, new(*lock.NotHeldError))
			require.Zero(w, times[lock.Lost](h))
			require.Empty(w, w.state().Evicted)
		},
		"handed over before": func(w *world) {
			h := w.hold("H", at(9))
			s := w.wait("S", at(3))
			breaks, outcome := given(w, h)
			h.release()
			s.Granted()
			breaks.Release()
			var stale *lock.StaleTokenError
			_, err := outcome()
			require.ErrorAs(w, err, &stale)
			require.Equal(w, []string{"S"}, owners(stale.Holders))
			s.holdsOn()
		},
		"taken over before": func(w *world) {
			h := w.hold("H", at(5))
			breaks, outcome := given(w, h)
			p := w.hold("P", at(9), forceful)
			breaks.Release()
			var stale *lock.StaleTokenError
			_, err := outcome()
			require.ErrorAs(w, err, &stale)
			require.Equal(w, lock.LossTaken, await[lock.Lost](h).Err.Reason)
			p.holdsOn()
		},
		"preempted before": func(w *world) {
			h := w.hold("H", at(5), cleanup(time.Hour))
			asked := 0
			breaks := w.On(Breaks(users).From("ana").Nth(1)).Hold()
			outcome := w.breaks(h.Token(), func(r *lock.BreakRequest) {
				r.Authorize = func(context.Context, []lock.Contender) error { asked++; return nil }
			})
			w.reached(breaks)
			p := w.ask("P", at(9))
			await[lock.PreemptSent](p)
			breaks.Release()
			victim, err := outcome()
			require.NoError(w, err)
			require.Equal(w, []string{"P"}, []string{victim.PreemptedBy[0].Owner})
			require.Equal(w, 1, asked)
			h.broken()
			p.Granted()
		},
		"another reader comes in before": func(w *world) {
			h := w.hold("H", at(1), sharing)
			breaks, outcome := given(w, h)
			r := w.hold("R", at(1), sharing)
			breaks.Release()
			_, err := outcome()
			require.NoError(w, err)
			h.broken()
			r.holdsOn()
			require.Equal(w, []string{"R"}, w.holders())
		},
		"a takeover comes after": func(w *world) {
			h := w.hold("H", at(5))
			takes, p := w.stops(T7(users).From("P").Nth(1), "P", at(9), forceful)
			w.broke(h.Token())
			takes.Release()
			p.Granted()
			require.Zero(w, times[lock.TakenOver](p))
			h.broken()
		},
	})
	for name, lose := range losses {
		t.Run(name+", and the session of the operator", func(t *testing.T) {
			scenario(t, func(w *world) {
				h := w.hold("H", at(9))
				s := w.wait("S", at(3))
				w.operator()
				returns := w.On(zktest.Op(zktest.Connect).From("ana").Nth(1)).Hold()
				lost := lose(w.On(Breaks(users).From("ana").Nth(1)))
				outcome := w.breaks(h.Token())
				w.reached(lost)
				w.reached(returns)
				w.expire("ana")
				returns.Release()
				victim, err := outcome()
				require.NoError(w, err)
				require.Equal(w, "H", victim.Owner)
				h.broken()
				s.Granted()
			})
		})
	}
}

// 38: an evicted holder learns by whom though others have held the lock since,
// each of which found it idle; after a while that record is no longer passed
// on.
func TestVictimThatWasAwayLearnsWhoHasBrokenItsLock(t *testing.T) {
	scenario(t, func(w *world) {
		// given a holder that is away while its lock is broken
		h := w.hold("H", at(5))
		gone := w.On(Gone(users, h.Granted().ID()).From("H").Nth(1)).DropEvent()
		returns := w.On(zktest.Op(zktest.Connect).From("H")).Hold()
		w.broke(h.Token())
		w.reached(gone)
		w.reached(returns)

		// when others take the idle lock one after the other, one of them twice
		w.hold("N").release()
		w.hold("N").release()
		n := w.hold("M")

		// then it still learns why
		returns.Release()
		h.broken()
		require.Len(w, w.state().Evicted, 1)
		w.Pass(3 * time.Minute)
		n.release()
		w.hold("N").release() // it cannot tell how old that is
		w.hold("M").release()
		require.Empty(w, w.state().Evicted)
	})
}

// 38: nor is that forgotten while those who wait hand the lock on to each other.
func TestVictimThatWasAwayLearnsWhoHasBrokenItsLockThoughItWasHandedOn(t *testing.T) {
	for _, held := range []time.Duration{0, time.Millisecond, short} { // they look for the next one at the end, before, both
		t.Run("by those who hold it for "+held.String(), func(t *testing.T) {
			scenario(t, func(w *world) {
				h := w.hold("H", at(5))
				line := make([]*user, 5)
				for i := range line {
					line[i] = w.client("S"+string(rune('0'+i%3))).ask(users, "S"+string(rune('0'+i)), at(3))
					line[i].Queued()
				}
				gone := w.On(Gone(users, h.Granted().ID()).From("H").Nth(1)).DropEvent()
				returns := w.On(zktest.Op(zktest.Connect).From("H")).Hold()
				w.broke(h.Token())
				w.reached(gone)
				w.reached(returns)
				for _, s := range line {
					s.Granted()
					w.Pass(held)
					s.release()
				}
				returns.Release()
				h.broken()
			})
		})
	}
}

// 38: one that was granted while its connection was away, and whose lock was
// broken before it heard, learns so.
func TestWaiterThatIsGrantedAndBrokenBeforeItHearsIsNotified(t *testing.T) {
	scenario(t, func(w *world) {
		h := w.hold("H", at(9))
		s := w.wait("S", at(3))
		granted := w.On(Changed(users, s.id()).From("S")).DropEvent()
		returns := w.On(zktest.Op(zktest.Connect).From("S")).Hold()
		h.release()
		w.reached(granted)
		w.reached(returns)
		w.broke(w.state().Holders[0].Token)
		returns.Release()
		require.Equal(w, lock.LossBroken, lostBy(w, s.Refused()).Reason)
	})
}
