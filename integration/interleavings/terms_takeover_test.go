package interleavings

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// 33: a takeover is under way as the terms change. One that was carried out
// counts, under the terms that it was made with.
func TestTakeoverUnderWayAsTheTermsChange(t *testing.T) {
	for name, lose := range map[string]func(*zktest.Fault) *zktest.Rule{
		"carried out, its answer lost": (*zktest.Fault).DropReply, "lost": (*zktest.Fault).DropRequest,
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(w *world) {
				// given a takeover that is sent
				h := w.hold("H", at(5))
				returns := w.On(zktest.Op(zktest.Connect).From("P").Nth(2)).Hold()
				lost := lose(w.On(T7(users).From("P").Nth(1)))
				var s terms
				p := w.ask("P", at(9), forceful, s.under)
				w.reached(lost)
				w.reached(returns)

				// when its priority changes before the answer
				s.change(to(8))
				returns.Release()

				// then it holds, and both were told once
				p.Granted()
				require.Equal(w, 1, times[lock.TakenOver](p))
				require.Equal(w, "P", await[lock.Lost](h).Err.By)
				want, told := priority.Level(9), 0
				if name == "lost" {
					want, told = 8, 1
				}
				require.Equal(w, want, w.state().Holders[0].Priority)
				require.Equal(w, told, times[lock.Revised](p))
			})
		})
	}
	scenarios(t, map[string]func(w *world){
		"by another": func(w *world) {
			w.hold("H", at(5))
			var s terms
			u := w.wait("S", at(3), s.under)
			moves := w.On(T12(users).From("S")).Hold()
			s.change(to(4))
			w.reached(moves)

			// when another takes the lock over as a waiter moves
			p := w.hold("P", at(9), forceful)
			moves.Release()

			// then that one waits for it
			await[lock.Revised](u)
			u.waits()
			require.Equal(w, []string{"P"}, w.holders())
			p.handsOverTo(u)
		},
	})
}

// 33: a request that was polite becomes forceful in its place: the holder is
// asked again, by force and for the override, and evicted for it.
func TestRequestThatBecomesForcefulTakesOverAndTheVictimKnowsForWhat(t *testing.T) {
	scenario(t, func(w *world) {
		// given a polite request that waits for a long cleanup
		h := w.hold("H", at(5), cleanup(time.Hour))
		var s terms
		p := w.ask("P", at(9), s.under)
		asked := await[lock.PreemptRequested](h)
		require.False(w, asked.Forceful)
		require.Nil(w, asked.Override)
		id := p.id()

		// when an operator lets it take the lock
		w.never(T12(users).From("P"))
		takes := w.On(T7(users).From("P")).Hold() // the holder hears of it first
		s.change(byForce(incident))
		w.reached(takes)
		asked = await[lock.PreemptRequested](h)
		takes.Release()

		// then it does, at once and under its old name, and the holder knows for what
		require.Equal(w, id, p.Granted().ID())
		require.True(w, asked.Forceful)
		require.Zero(w, asked.Grace)
		require.Equal(w, incident, asked.Override)
		loss := await[lock.Lost](h).Err
		require.Equal(w, lock.LossOverridden, loss.Reason)
		require.Equal(w, "P", loss.By)
		require.Equal(w, priority.Outranked, loss.For)
		require.Equal(w, incident, loss.Override)
		state := w.state()
		require.Equal(w, incident, state.Holders[0].Override)
		require.Equal(w, incident, state.Evicted[0].Override)
	})
}

// 33: the mark does not keep a takeover from being recognized when its answer is
// lost.
func TestTakeoverForAnOverrideWhoseAnswerIsLostIsReported(t *testing.T) {
	scenario(t, func(w *world) {
		h := w.hold("H", at(5))
		w.On(T7(users).From("P").Nth(1)).DropReply()
		p := w.ask("P", at(priority.Emergency), forceful, func(r *lock.Request) {
			r.Override, r.Vouch = incident, func(context.Context, lock.Mark) error { return nil }
		})
		p.Granted()
		require.Equal(w, 1, times[lock.TakenOver](p))
		require.Equal(w, lock.LossOverridden, await[lock.Lost](h).Err.Reason)
	})
}

// 33: a holder is asked again under other terms alone: otherwise the preemptor
// keeps its right and its grace period.
func TestHolderIsAskedAgainOnlyForWhatConcernsIt(t *testing.T) {
	scenario(t, func(w *world) {
		h := w.hold("H", at(5), cleanup(time.Hour))
		var s terms
		p := w.ask("P", at(9), waiting(time.Minute), s.under)
		await[lock.PreemptRequested](h)
		w.never(T6(users).From("P"))

		// when the request is ready to wait longer, and for a longer lease
		s.change(func(t *lock.Revision) { t.WaitingTimeout, t.LeaseTimeout = new(time.Hour), time.Hour })
		await[lock.Revised](p)
		p.waits()

		// then the holder is not asked again
		require.Equal(w, 1, times[lock.PreemptRequested](h))
		require.Zero(w, times[lock.PreemptionWithdrawn](h))
	})
}

// 26: a holder gets no withdrawal when its preemptor has moved, and still
// preempts.
func TestHolderHearsOfOneThatMovesAndStillAsks(t *testing.T) {
	scenario(t, func(w *world) {
		h := w.hold("H", at(5), cleanup(time.Hour))
		var s terms
		p := w.ask("P", at(7), s.under)
		await[lock.PreemptRequested](h)
		s.change(to(9))
		require.Equal(w, priority.Level(9), await[lock.PreemptRequested](h).By.Priority)
		p.waits()
		require.Zero(w, times[lock.PreemptionWithdrawn](h))
		require.Len(w, w.state().Holders[0].PreemptedBy, 1)
	})
}

// 34: a patient request says once that the cleanup takes too long, stays, and
// acts on what is decided.
func TestPatientRequestWaitsForADecision(t *testing.T) {
	patiently := func(r *lock.Request) { r.Patient = true }
	given := func(w *world, change ...func(*lock.Request)) (h, p *user, s *terms) {
		s = new(terms)
		h = w.hold("H", at(5), cleanup(time.Hour))
		p = w.ask("P", append([]func(*lock.Request){at(9), waiting(100 * time.Millisecond), patiently, s.under}, change...)...)
		pending := await[lock.CleanupPending](p)
		require.Equal(w, []string{"H"}, owners(pending.Holders))
		require.GreaterOrEqual(w, pending.Waited, 100*time.Millisecond)
		p.waits()
		return h, p, s
	}
	scenarios(t, map[string]func(w *world){
		"approved": func(w *world) {
			h, p, s := given(w)
			since := w.Now()
			s.change(byForce(nil))
			p.Granted()
			require.Equal(w, since, w.Now(), "at once")
			loss := await[lock.Lost](h).Err
			require.Equal(w, lock.LossTaken, loss.Reason)
			require.Equal(w, 1, times[lock.CleanupPending](p))
		},
		"denied": func(w *world) {
			h, p, s := given(w)
			denied := errors.New("denied")
			s.change(func(t *lock.Revision) { t.Withdraw = denied })
			require.ErrorIs(w, p.Refused(), denied)
			await[lock.PreemptionWithdrawn](h)
			require.Equal(w, []string{"H"}, w.holders())
		},
		"the holder finishes": func(w *world) {
			h, p, _ := given(w)
			w.disconnect("P") // it reads again
			w.Pass(short)
			h.release()
			p.Granted()
			require.Equal(w, 1, times[lock.CleanupPending](p))
			require.Zero(w, times[lock.TakenOver](p))
		},
		"the lease ends": func(w *world) {
			_, p, _ := given(w)
			w.Pass(2 * time.Hour)
			sent := await[lock.PreemptSent](p)
			require.Equal(w, priority.LeaseExpired, sent.Reason)
		},
		"that waits for no cleanup": func(w *world) {
			h := w.hold("H", at(5), cleanup(time.Hour))
			p := w.ask("P", at(9), waiting(0), patiently)
			await[lock.CleanupPending](p)
			await[lock.PreemptRequested](h)
			p.waits()
			h.release()
			p.Granted()
		},
	})
}

// 35: a takeover needs somebody's word: for exactly those whom it evicts.
func TestTakeoverWaitsForTheWordOfTheCaller(t *testing.T) {
	type question struct {
		holders []lock.Contender
		answer  chan error
	}
	asking := func(questions chan question) func(*lock.Request) {
		return func(r *lock.Request) {
			r.Authorize = func(ctx context.Context, holders []lock.Contender) error {
				q := question{holders, make(chan error)}
				select {
				case questions <- q:
				case <-ctx.Done():
					return ctx.Err()
				}
				select {
				case err := <-q.answer:
					return err
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
	}
	scenarios(t, map[string]func(w *world){
		"given": func(w *world) {
			questions := make(chan question)
			h := w.hold("H", at(5))
			taken := w.must(T7(users).From("P"))
			p := w.ask("P", at(9), forceful, asking(questions))
			q := <-questions
			require.Equal(w, []string{"H"}, owners(q.holders))
			require.Equal(w, h.Token(), q.holders[0].Token)
			p.waits()
			require.Zero(w, taken.Fired())
			require.Equal(w, []string{"H"}, w.holders())
			q.answer <- nil
			p.Granted()
		},
		"refused": func(w *world) {
			questions := make(chan question)
			h := w.hold("H", at(5), cleanup(50*time.Millisecond))
			w.never(T7(users).From("P"))
			p := w.ask("P", at(9), forceful, asking(questions))
			no := errors.New("the audit trail is full")
			(<-questions).answer <- no
			require.ErrorIs(w, p.Refused(), no)
			require.Empty(w, p.nodes())
			await[lock.PreemptionWithdrawn](h)
			require.Equal(w, []string{"H"}, w.holders())
		},
		"and the holder leaves meanwhile": func(w *world) {
			questions := make(chan question)
			h := w.hold("H", at(5))
			w.never(T7(users).From("P"))
			p := w.ask("P", at(9), forceful, asking(questions))
			q := <-questions
			h.release()
			q.answer <- nil
			p.Granted()
			require.Zero(w, times[lock.TakenOver](p))
		},
		"and one of the holders leaves meanwhile": func(w *world) {
			questions := make(chan question)
			a := w.hold("A", at(5), sharing)
			w.hold("B", at(5), sharing)
			p := w.ask("P", at(9), forceful, asking(questions))
			q := <-questions
			require.ElementsMatch(w, []string{"A", "B"}, owners(q.holders))
			a.release()
			q.answer <- nil
			q = <-questions
			require.Equal(w, []string{"B"}, owners(q.holders))
			q.answer <- nil
			p.Granted()
			require.Equal(w, []string{"B"}, owners(await[lock.TakenOver](p).From))
		},
		"and the caller gives up meanwhile": func(w *world) {
			questions := make(chan question)
			h := w.hold("H", at(5))
			p := w.ask("P", at(9), forceful, within(200*time.Millisecond), asking(questions))
			<-questions
			var late *lock.NotAcquiredError
			require.ErrorAs(w, p.Refused(), &late)
			require.Equal(w, []string{"H"}, w.holders())
			h.release()
		},
		"and the request is made for an override meanwhile": func(w *world) {
			questions := make(chan question)
			w.hold("H", at(5))
			takes := w.must(T7(users).From("P"))
			var s terms
			p := w.ask("P", at(9), forceful, asking(questions), s.under)
			q := <-questions
			s.change(byForce(incident))
			q.answer <- nil
			await[lock.Revised](p)
			select {
			case q = <-questions:
			case <-p.Done():
				require.FailNow(w, "it was not asked again")
			}
			require.Zero(w, takes.Fired())
			require.Equal(w, incident, q.holders[0].PreemptedBy[0].Override)
			q.answer <- nil
			p.Granted()
		},
		"once, however often it is tried": func(w *world) {
			questions := make(chan question)
			w.hold("H", at(5))
			lost := w.On(T7(users).From("P").Nth(1)).DropRequest()
			p := w.ask("P", at(9), forceful, asking(questions))
			(<-questions).answer <- nil
			w.reached(lost)
			p.Granted()
		},
	})
}
