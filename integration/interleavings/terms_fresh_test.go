package interleavings

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// 39: the terms change while a newcomer looks whether the lock is idle, or a waiter whether the holder is alive. Neither
// takes the lock under what was true before.
func TestRequestTakesTheLockUnderTheTermsOfNow(t *testing.T) {
	looks := func(w *world, nth int) *zktest.Rule { return w.On(Lists(users).From("S").Nth(nth)).HoldReply() }
	for name, given := range map[string]func(w *world, s *terms) (lists *zktest.Rule, u *user){
		"a newcomer": func(w *world, s *terms) (*zktest.Rule, *user) {
			w.hold("H", sharing).release() // the lock node is there
			return looks(w, 1), w.ask("S", at(3), sharing, s.under)
		},
		"a newcomer beside others": func(w *world, s *terms) (*zktest.Rule, *user) {
			w.hold("R", sharing)
			return looks(w, 2), w.ask("S", at(3), sharing, s.under) // it lists again, together with G
		},
		"a waiter": func(w *world, s *terms) (*zktest.Rule, *user) {
			w.hold("H", at(5))
			u := w.wait("S", at(3), s.under)
			lists := looks(w, 1)
			w.expire("H")
			return lists, u
		},
	} {
		t.Run(name+", withdrawn", func(t *testing.T) {
			scenario(t, func(w *world) {
				var s terms
				lists, u := given(w, &s)
				w.reached(lists)
				w.never(T1(users).From("S"))
				w.never(T3(users).From("S"))
				frozen := errors.New("frozen")
				s.change(func(t *lock.Revision) { t.Withdraw = frozen })
				lists.Release()
				require.ErrorIs(w, u.Refused(), frozen)
			})
		})
		t.Run(name+", raised", func(t *testing.T) {
			scenario(t, func(w *world) {
				var s terms
				lists, u := given(w, &s)
				w.reached(lists)
				s.change(to(7))
				lists.Release()
				u.Granted()
				require.Equal(w, 1, times[lock.Revised](u))
				for _, h := range w.state().Holders {
					require.Equal(w, h.Owner == "S", h.Priority == 7, h.Owner)
				}
			})
		})
	}
}

// 39: the session of a newcomer ends before it has a node: it learns that the
// terms have changed by then.
func TestNewcomerWhoseSessionEndsLearnsTheTermsOfNow(t *testing.T) {
	scenario(t, func(w *world) {
		w.hold("H").release()
		w.client("S")
		lists := w.On(Lists(users).From("S").Nth(1)).Hold()
		returns := w.On(zktest.Op(zktest.Connect).From("S").Nth(1)).Hold()
		var s terms
		u := w.ask("S", at(3), s.under)
		w.reached(lists)
		w.expire("S")
		w.reached(returns)
		synctest.Wait()
		s.change(to(7))
		returns.Release()
		lists.Release()
		u.Granted()
		require.Equal(w, priority.Level(7), w.state().Holders[0].Priority)
		require.Equal(w, priority.Level(7), await[lock.Revised](u).Priority)
	})
}

// 41: a waiter leaves before it knows whether it has moved: neither place is left.
func TestWaiterThatLeavesBeforeItKnowsWhereItStandsLeavesNothing(t *testing.T) {
	withdrawn := errors.New("withdrawn")
	for name, lose := range map[string]func(*zktest.Fault) *zktest.Rule{
		"moved": (*zktest.Fault).DropReply, "not moved": (*zktest.Fault).DropRequest,
	} {
		for how, leaves := range map[string]func(u *user, s *terms){
			"cancelled": func(u *user, _ *terms) { u.Cancel() },
			"withdrawn": func(_ *user, s *terms) { s.change(func(t *lock.Revision) { t.Withdraw = withdrawn }) },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				scenario(t, func(w *world) {
					h := w.hold("H", at(9))
					var s terms
					u := w.wait("S", at(3), s.under)
					returns := w.On(zktest.Op(zktest.Connect).From("S").Nth(1)).Hold()
					lost := lose(w.On(T12(users).From("S").Nth(1)))
					s.change(to(7))
					w.reached(lost)
					w.reached(returns)
					leaves(u, &s)
					w.Pass(short)
					returns.Release()
					u.Refused()
					w.eventually("it is gone", func() bool { return len(u.nodes()) == 0 })
					n := w.wait("N", at(1))
					h.release()
					n.Granted()
				})
			})
		}
	}
}

// 40: a channel that is closed already costs little, and keeps no request from
// the lock.
func TestTermsThatAlwaysMayHaveChangedAreAskedForNowAndThen(t *testing.T) {
	scenario(t, func(w *world) {
		w.hold("H", at(5))
		closed := make(chan struct{})
		close(closed)
		var asked terms
		u := w.ask("S", at(3), asked.under, func(r *lock.Request) {
			terms := r.Revise
			r.Revise = func() (lock.Revision, <-chan struct{}) {
				now, _ := terms()
				return now, closed
			}
		})
		u.joined()
		w.Pass(time.Second)
		require.Less(w, asked.timesAsked(), 500)

		// when the holder dies, so that no holder hands over
		w.expire("H")
		u.Granted()
		require.Greater(w, asked.timesAsked(), 10)
	})
}
