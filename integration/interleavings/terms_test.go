package interleavings

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// terms are what a request asks for, as somebody else changes them.
type terms struct {
	mu      sync.Mutex
	now     lock.Revision
	changed chan struct{}
	asked   int // how often they were asked for
}

// under makes a request ask for whatever the terms are, beginning with its own.
func (t *terms) under(r *lock.Request) {
	t.now = lock.Revision{
		Terms: priority.Terms{
			Priority: r.Priority, Forceful: r.Forceful, WaitingTimeout: r.WaitingTimeout,
			LeaseTimeout: r.LeaseTimeout, CleanupTimeout: r.CleanupTimeout,
		},
		Override: r.Override,
	}
	t.changed = make(chan struct{})
	r.Revise = func() (lock.Revision, <-chan struct{}) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.asked++
		return t.now, t.changed
	}
}

// change changes them, or nothing, and says so.
func (t *terms) change(change ...func(*lock.Revision)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range change {
		f(&t.now)
	}
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *terms) timesAsked() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked
}

func to(level priority.Level) func(*lock.Revision) {
	return func(t *lock.Revision) { t.Priority = level }
}

// byForce is what an operator makes of a request: it takes the lock at once.
func byForce(mark *lock.Mark) func(*lock.Revision) {
	return func(t *lock.Revision) { t.Forceful, t.WaitingTimeout, t.Override = true, new(time.Duration), mark }
}

var incident = &lock.Mark{ID: "INC-1", By: "ana", Reason: "orders are stuck"}

// 26: a waiter moves past another, and one that was behind it learns that it is
// next; no client ever sees it out of the queue.
func TestWaiterMovesToThePlaceOfItsNewPriority(t *testing.T) {
	scenarios(t, map[string]func(w *world){
		"up": func(w *world) {
			// given two waiters
			h := w.hold("H", at(9))
			a := w.wait("A", at(5))
			var s terms
			u := w.ask("S", at(3), s.under)
			require.Equal(w, 2, u.Queued().Position)
			before := u.id()

			// when the second one is raised above the first one
			w.never(T8(users).From("S"))
			w.never(T2(users).From("S"))
			moves := w.must(T12(users).From("S"))
			s.change(to(7))

			// then it is notified, is the first, and is granted first
			require.Equal(w, priority.Level(7), await[lock.Revised](u).Priority)
			require.Equal(w, 1, u.Queued().Position)
			require.Equal(w, 1, moves.Fired())
			require.NotEqual(w, before, u.id())
			require.Equal(w, []string{"S", "A"}, w.waiters())
			h.release()
			u.Granted()
			a.waits()
			require.Equal(w, priority.Level(7), w.state().Holders[0].Priority)
			u.handsOverTo(a)
		},
		"down": func(w *world) {
			// given a preempted holder, and another waiter behind the preemptor
			h := w.hold("H", at(2), cleanup(time.Hour))
			var s terms
			u := w.ask("S", at(6), s.under)
			await[lock.PreemptSent](u)
			b := w.ask("B", at(4))
			require.Equal(w, 2, b.Queued().Position)
			require.Equal(w, "S", await[lock.PreemptRequested](h).By.Owner)

			// when the first one is capped below the holder
			s.change(to(1))

			// then the other one is the first, and asks the holder; its own asking is void
			require.Equal(w, "B", await[lock.PreemptRequested](h).By.Owner)
			require.Equal(w, 2, u.Queued().Position)
			require.Equal(w, []string{"B", "S"}, w.waiters())
			w.eventually("only B asks", func() bool {
				by := w.state().Holders[0].PreemptedBy
				return len(by) == 1 && by[0].Owner == "B"
			})
			h.release()
			b.Granted()
			u.waits()
			w.Pass(short)
			b.release()
			u.Granted()
		},
		"down, without another waiter": func(w *world) {
			h := w.hold("H", at(2), cleanup(time.Hour))
			var s terms
			u := w.ask("S", at(6), s.under)
			await[lock.PreemptRequested](h)

			// when the one that preempted the holder is capped below it
			s.change(to(1))

			// then the preemption is withdrawn
			await[lock.PreemptionWithdrawn](h)
			u.waits()
			h.release()
			u.Granted()
		},
	})
}

// 26: what is asked for as before is not written again.
func TestTermsThatAreTheSameAreNotWritten(t *testing.T) {
	scenario(t, func(w *world) {
		h := w.hold("H", at(9))
		var s terms
		u := w.wait("S", at(3), waiting(time.Minute), s.under)
		id := u.id()

		// when the terms may have changed, and have not
		w.never(T12(users).From("S"))
		w.never(T13(users).From("S"))
		for n := range 3 {
			s.change(func(t *lock.Revision) { t.WaitingTimeout = new(time.Minute) })
			w.eventually("it has asked again", func() bool { return s.timesAsked() > n+1 })
		}

		// then it stands where it stood
		u.waits()
		require.Equal(w, id, u.id())
		require.Zero(w, times[lock.Revised](u))
		h.release()
		u.Granted()
	})
}

// 27: the terms of a waiter change while the holder hands over to it. Either it is granted under the old terms, at its old
// place, or under the new ones; it does not take its own write for a grant.
func TestWaiterThatChangesAsItIsHandedTheLockIsGrantedOnce(t *testing.T) {
	for how, c := range map[string]struct {
		change   func(*lock.Revision)
		sends    zktest.Match
		of       func(lock.Contender) any
		old, new any
	}{
		"it moves": {
			to(7), T12(users), func(c lock.Contender) any { return c.Priority }, priority.Level(3), priority.Level(7),
		},
		"it changes in its place": {
			func(t *lock.Revision) { t.LeaseTimeout = time.Hour }, T13(users),
			func(c lock.Contender) any { return c.LeaseTimeout }, time.Minute, time.Hour,
		},
	} {
		for _, first := range []string{"the hand-over", "the change"} {
			t.Run(how+", "+first+" comes first", func(t *testing.T) {
				scenario(t, func(w *world) {
					// given a hand-over and a change under way
					h := w.hold("H", at(5))
					var s terms
					u := w.wait("S", at(3), lease(time.Minute), s.under)
					handsOver, released := h.releasesUpTo(T4(users).From("H").Nth(1))
					changes := w.On(c.sends.From("S").Nth(1)).Hold()
					s.change(c.change)
					w.reached(changes)

					// when one comes first
					want, told := c.new, 1
					if first == "the hand-over" {
						want, told = c.old, 0
						handsOver.Release()
						require.NoError(w, released())
						changes.Release()
					} else {
						changes.Release()
						await[lock.Revised](u)
						u.waits()
						require.Equal(w, []string{"H"}, w.holders())
						handsOver.Release()
						require.NoError(w, released())
					}

					// then it holds, once
					require.Greater(w, u.Token(), h.Token())
					require.Equal(w, told, times[lock.Revised](u))
					state := w.state()
					require.Equal(w, []string{"S"}, owners(state.Holders))
					require.Empty(w, state.Waiters)
					require.Equal(w, want, c.of(state.Holders[0]))
				})
			})
		}
	}
}

// 28: the one in front leaves, or is granted, as a waiter moves: it finds its
// place, and is granted.
func TestWaiterWhosePredecessorGoesAsItMovesIsNext(t *testing.T) {
	for _, level := range []priority.Level{1, 7} {
		for _, first := range []string{"the move", "the leaving"} {
			t.Run(first+" comes first", func(t *testing.T) {
				scenario(t, func(w *world) {
					// given a waiter in front that leaves, and one that moves
					h := w.hold("H", at(9))
					a := w.wait("A", at(5))
					var s terms
					u := w.wait("S", at(3), s.under)
					leaves := w.On(T8(users).From("A")).Hold()
					moves := w.On(T12(users).From("S")).Hold()
					a.Cancel()
					w.reached(leaves)
					s.change(to(level))
					w.reached(moves)

					// when one comes first
					if first == "the move" {
						moves.Release()
						await[lock.Revised](u)
						leaves.Release()
						a.Refused()
					} else {
						leaves.Release()
						a.Refused()
						moves.Release()
						await[lock.Revised](u)
					}

					// then it is the next
					h.release()
					u.Granted()
				})
			})
		}
	}
}

// 29: the connection breaks over a change, and the lock is handed over before it is back: the waiter holds under the terms
// that the server knows.
func TestWaiterIsGrantedBeforeItKnowsWhetherItHasChanged(t *testing.T) {
	for how, lose := range losses {
		t.Run(how, func(t *testing.T) {
			scenario(t, func(w *world) {
				h := w.hold("H", at(9))
				var s terms
				u := w.wait("S", at(3), lease(time.Minute), s.under)
				returns := w.On(zktest.Op(zktest.Connect).From("S")).Hold()
				lost := lose(w.On(T13(users).From("S").Nth(1)))
				s.change(func(t *lock.Revision) { t.LeaseTimeout = time.Hour })
				w.reached(lost)
				w.reached(returns)
				h.release()
				returns.Release()

				u.Granted()
				want, told := time.Minute, 0
				if how == "its answer is lost" {
					want, told = time.Hour, 1
				}
				require.Equal(w, want, w.state().Holders[0].LeaseTimeout)
				require.Equal(w, told, times[lock.Revised](u))
			})
		})
	}
}

// 30: the session of a waiter ends as it moves: it queues again, once, under the
// new terms.
func TestWaiterWhoseSessionEndsAsItMovesQueuesAgainUnderTheNewTerms(t *testing.T) {
	for _, reaches := range []bool{false, true} {
		t.Run(map[bool]string{false: "before the move", true: "after the move"}[reaches], func(t *testing.T) {
			scenario(t, func(w *world) {
				h := w.hold("H", at(9))
				a := w.wait("A", at(5))
				var s terms
				u := w.wait("S", at(3), s.under)
				moves := w.On(T12(users).From("S").Nth(1))
				var rule *zktest.Rule
				if reaches {
					rule = moves.HoldReply()
				} else {
					rule = moves.Hold()
				}
				s.change(to(7))
				w.reached(rule)

				// when its session expires
				w.expire("S")
				rule.Release()

				// then it stands in front, once
				await[lock.Requeued](u)
				require.Equal(w, 1, u.Queued().Position)
				require.Equal(w, []string{"S", "A"}, w.waiters())
				require.Len(w, u.nodes(), 1)
				h.release()
				u.Granted()
				a.waits()
			})
		})
	}
}

// 31: the terms change again while a move is under way: the last ones count.
func TestWaiterThatMovesTwiceStandsWhereItWasSentLast(t *testing.T) {
	each(t, map[string][]priority.Level{
		"up and down": {7, 1}, "down and up": {1, 7}, "up and back": {7, 3}, "up and up": {7, 8},
	}, func(w *world, levels []priority.Level) {
		h := w.hold("H", at(9))
		w.wait("A", at(5))
		var s terms
		u := w.wait("S", at(3), s.under)
		moves := w.On(T12(users).From("S").Nth(1)).Hold()
		s.change(to(levels[0]))
		w.reached(moves)

		// when it is sent elsewhere before it has arrived
		s.change(to(levels[1]))
		moves.Release()
		await[lock.Revised](u)

		// then that is where it stands
		require.Equal(w, levels[1], await[lock.Revised](u).Priority)
		u.Queued()
		order := []string{"A", "S"}
		if levels[1] > 5 {
			order = []string{"S", "A"}
		}
		require.Equal(w, order, w.waiters())
		h.release()
		w.eventually("the first one holds", func() bool { return len(w.holders()) == 1 })
		require.Equal(w, order[:1], w.holders())
	})
}

// 32: a request is withdrawn: it leaves the queue as one that is cancelled does, see
// TestHandOverToOneThatGivesUpReachesTheNext.
func TestRequestThatIsWithdrawnLeaves(t *testing.T) {
	frozen := errors.New("frozen")
	freeze := func(t *lock.Revision) { t.Withdraw = frozen }
	scenarios(t, map[string]func(w *world){
		"before it is made": func(w *world) {
			w.client("S")
			w.never(zktest.Any().Path(contenders(users)).From("S"))
			var s terms
			u := w.ask("S", s.under, func(r *lock.Request) { s.now.Withdraw = frozen })
			err := u.Refused()
			require.ErrorIs(w, err, frozen)
			require.ErrorContains(w, err, `lock "users" not acquired`)
		},
		"while it waits": func(w *world) {
			w.hold("H", at(9))
			var s terms
			u := w.wait("S", at(3), s.under)
			s.change(freeze)
			require.ErrorIs(w, u.Refused(), frozen)
			require.Empty(w, u.nodes())
		},
	})
}

// 32: terms that can never work end the request.
func TestRequestWhoseTermsCanNeverWorkLeaves(t *testing.T) {
	scenario(t, func(w *world) {
		w.hold("H", at(9))
		var s terms
		u := w.wait("S", at(3), s.under)
		s.change(func(t *lock.Revision) { t.LeaseTimeout = -1 })
		var wrong *lock.RequestError
		require.ErrorAs(w, u.Refused(), &wrong)
		require.Equal(w, "lease_timeout", wrong.Field)
		require.Empty(w, u.nodes())
	})
}
