package interleavings

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/inspect"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// 59: a holder by a hand-over delays the lock as one that acquired it. The second
// time the holder in front knows the request already, and does not read it.
func TestHolderThatWasHandedTheLockDelaysIt(t *testing.T) {
	each(t, map[string]int{"read": 1, "known": 2}, func(w *world, rounds int) {
		for round := 1; ; round++ {
			h := w.hold("H")
			s := w.wait("S", delaying(delay))
			h.release()
			s.Granted()
			if round < rounds {
				s.release()
				continue
			}
			n := w.ask("N")
			n.joined()
			ended := w.serverNow()
			w.expire("S")
			n.grantedAfter(ended, delay)
			return
		}
	})
}

// 60: a reader that comes when a writer has gone uncleanly waits, though others
// are there: they wait as well.
func TestReaderThatComesInADelayWaitsLikeTheOneInFront(t *testing.T) {
	scenario(t, func(w *world) {
		h := w.hold("H", delaying(delay))
		s := w.wait("S", sharing)
		ended := w.serverNow()
		w.expire("H")
		s.isDelayed()
		r := w.ask("R", sharing)
		r.grantedAfter(ended, delay)
		s.grantedAfter(ended, delay)
		require.NotContains(w, string(w.lockData()), h.Granted().ID(), "what is over is forgotten")
	})
}

// lockData is what the lock node says.
func (w *world) lockData() []byte { return w.lock().Data }

// 61: readers go on past a note of one of them, however they come to hold, and
// none of them forgets it.
func TestReadersKeepTheNoteOfOneThatIsGone(t *testing.T) {
	each(t, map[string]func(w *world, first *user) *user{
		"T1, and the same client again": func(w *world, first *user) *user {
			first.release()
			again := w.ask("R", sharing)
			again.Granted()
			return again
		},
		"T3": func(w *world, first *user) *user {
			wr := w.wait("W")
			q := w.wait("Q", sharing)
			first.release()
			require.NotContains(w, w.holders(), "Q")
			wr.Cancel()
			wr.Refused()
			q.Granted()
			return q
		},
		"T4": func(w *world, first *user) *user {
			wr := w.wait("W")
			q := w.wait("Q", sharing)
			late := w.On(Gone(users, wr.id())).Hold() // else it grants itself
			wr.Cancel()
			wr.Refused()
			w.reached(late)
			hands := w.must(T4(users).From("R"))
			first.release()
			require.Equal(w, 1, hands.Fired())
			late.Release()
			q.Granted()
			return q
		},
	}, func(w *world, second func(w *world, first *user) *user) {
		h := w.hold("H", sharing, delaying(priority.MaxLockDelay))
		w.expire("H")
		r := w.ask("R", sharing)
		r.Granted()
		w.Pass(short)
		r = second(w, r)
		require.Contains(w, string(w.lockData()), h.Granted().ID())
		r.release()
		require.ErrorContains(w, w.ask("R", within(0)).Refused(), "delayed until about")
	})
}

// 62: no holder is evicted for a lock that is delayed anyway, and the delay of
// evicted holders begins at once.
func TestTakeoverOfAReaderBesideOneThatIsGone(t *testing.T) {
	scenarios(t, map[string]func(w *world){
		"without a lock-delay it holds on until then": func(w *world) {
			r := w.hold("R", sharing)
			w.hold("H", sharing, delaying(delay))
			ended := w.serverNow()
			w.expire("H")
			p := w.ask("P", at(5), forceful)
			p.isDelayed()
			p.grantedAfter(ended, delay)
			_, lost := awaitAt[lock.Lost](r)
			require.GreaterOrEqual(w, lost, delay)
		},
		"with one it goes at once": func(w *world) {
			w.hold("R", sharing, delaying(delay))
			w.hold("H", sharing, delaying(delay))
			ended := w.serverNow()
			w.expire("H")
			p := w.ask("P", at(5), forceful)
			p.grantedAfter(ended, delay)
			require.Equal(w, 1, times[lock.TakenOver](p))
		},
	})
}

// 63: a takeover that grants nothing yet is under the guards of any takeover.
func TestDelayedTakeoverThatComesLateEvictsNoHolder(t *testing.T) {
	given := func(w *world) (h, p *user, late *zktest.Rule) {
		h = w.hold("H", at(1), sharing, delaying(delay))
		late = w.On(T7(users).From("P").Nth(1)).Hold()
		p = w.ask("P", at(5), forceful)
		w.reached(late)
		return h, p, late
	}
	scenarios(t, map[string]func(w *world){
		"its request is gone": func(w *world) {
			h, p, late := given(w)
			w.evict(p)
			late.Release()
			require.Error(w, p.Refused())
			require.Equal(w, []string{"H"}, w.holders())
			require.Zero(w, times[lock.Lost](h))
			h.release()
		},
		"another reader has come": func(w *world) {
			_, p, late := given(w)
			r := w.ask("R", at(9), sharing)
			r.Granted()
			late.Release()
			p.waits()
			require.Contains(w, w.holders(), "R")
			require.Contains(w, string(w.lockData()), r.Granted().ID())
			r.release()
			p.Granted()
		},
	})
}

// 64: a try that reads the lock late does not take one that has come meanwhile for
// gone.
func TestTryThatReadsLateNoticesNoEndOfAHoldThatGoesOn(t *testing.T) {
	scenario(t, func(w *world) {
		// given a lock that is delayed, and a try that has seen no holder
		w.hold("X", delaying(20*time.Millisecond))
		w.expire("X")
		require.Error(w, w.ask("M", within(0)).Refused())
		reads, n := w.stops(ReadsG(users).From("N").Nth(1), "N", within(0))

		// when another one holds the lock as it goes on
		h := w.ask("H", delaying(delay))
		h.Granted()
		reads.Release()
		n.Refused()

		// then the delay begins with the end of that hold
		s := w.ask("S")
		s.joined()
		w.Pass(2 * delay)
		ended := w.serverNow()
		w.expire("H")
		s.grantedAfter(ended, delay)
	})
}

// 65: a notice of one whose node is gone changes nothing at a lock that was removed
// and is there anew, with the same version.
func TestNoticeOfOneThatIsGoneChangesNoLockThatIsThereAnew(t *testing.T) {
	scenario(t, func(w *world) {
		w.hold("H", delaying(delay))
		s := w.wait("S")
		late := w.On(Notices(users).From("S").Nth(1)).Hold()
		w.expire("H")
		w.reached(late)
		w.evict(s)
		w.Pass(2 * short)
		for len(removed(w.collects("gc")())) == 0 {
			w.Pass(2 * delay)
		}
		n := w.ask("N")
		n.Granted()
		late.Release()
		require.Error(w, s.Refused())
		require.Equal(w, []string{"N"}, w.holders())
	})
}

// 66: a break begins the delay, whether a request waits or not, and a watch that is
// made to fire does not begin it anew.
func TestDelayBeginsWithTheBreak(t *testing.T) {
	scenario(t, func(w *world) {
		h := w.hold("H", delaying(time.Second))
		ended := w.serverNow()
		w.broke(h.Token())
		w.Pass(time.Second / 2)
		w.ask("N").grantedAfter(ended, time.Second)
	})
}

func TestWriterThatLeavesDoesNotBeginTheDelayAnew(t *testing.T) {
	scenario(t, func(w *world) {
		// given a writer that waits for a reader, and for the delay of one that is gone
		r := w.hold("R", sharing)
		w.hold("H", sharing, delaying(time.Second))
		ended := w.serverNow()
		w.expire("H")
		wr := w.ask("W")
		await[lock.Delayed](wr)
		w.Pass(time.Second / 2)

		// when it leaves, and makes its watch on the lock fire
		fires := w.must(Rewrites(users).From("W"))
		wr.Cancel()
		wr.Refused()
		w.eventually("its watch has fired", func() bool { return fires.Fired() > 0 })

		// then the next one waits for the rest
		r.release()
		w.ask("N").grantedAfter(ended, time.Second)
	})
}

// What is over is not shown.
func TestStateDoesNotTellOfADelayThatIsOver(t *testing.T) {
	scenario(t, func(w *world) {
		w.hold("H", delaying(delay))
		w.expire("H")
		require.Error(w, w.ask("N", within(0)).Refused())
		w.Pass(2 * delay)
		state := w.state()
		require.Empty(w, state.Delays)
		require.Equal(w, inspect.OutcomeGranted, inspect.PlanFor(state, lock.Request{Terms: priority.Terms{AcquireTimeout: new(time.Duration)}}).Outcome)
	})
}

// 67: a try, or a collector, that notices an unclean end late overwrites no grant.
func TestEndThatIsNoticedLateChangesNothing(t *testing.T) {
	for who, notices := range map[string]func(w *world) (late *zktest.Rule, ends func()){
		"a try": func(w *world) (*zktest.Rule, func()) {
			late, n := w.stops(Rewrites(users).From("N").Nth(1), "N", within(0))
			return late, func() { n.Refused() }
		},
		"a collector": func(w *world) (*zktest.Rule, func()) {
			late := w.On(Rewrites(users).From("gc").Nth(1)).Hold()
			outcome := w.collects("gc")
			w.reached(late)
			return late, func() { require.Contains(w, left(outcome()), users) }
		},
	} {
		each(t, map[string]func(w *world){
			who + ", somebody has waited": func(*world) {},
			who + ", the lock was removed, and is there anew": func(w *world) {
				for len(removed(w.collects("gc2")())) == 0 {
					w.Pass(2 * delay)
				}
			},
		}, func(w *world, meanwhile func(w *world)) {
			w.hold("H", delaying(delay))
			w.expire("H")
			w.Pass(2 * short)
			late, ends := notices(w)
			meanwhile(w)
			w.ask("S").Granted()
			late.Release()
			ends()
			require.Equal(w, []string{"S"}, w.holders())
		})
	}
}

func TestCollectionThatIsOnlyPlannedBeginsNoDelay(t *testing.T) {
	scenario(t, func(w *world) {
		w.hold("H", delaying(delay))
		w.expire("H")
		w.Pass(2 * short)
		w.uses("A", "clock") // so that it is known how old that is
		w.Pass(2 * short)
		before := string(w.lockData())
		found := w.collects("gc", func(o *lock.IdleOptions) { o.DryRun = true })()
		require.Equal(w, lock.LeftUnclean, left(found)[users])
		require.Equal(w, before, string(w.lockData()))
	})
}
