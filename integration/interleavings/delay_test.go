package interleavings

import (
	"context"
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/inspect"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// delay is the lock-delay of those whose end is waited for, never the one of
// those who must not be delayed.
const delay = 300 * time.Millisecond

// delaying makes a holder whose unclean end delays the lock.
func delaying(d time.Duration) func(*lock.Request) {
	return func(r *lock.Request) { r.LockDelay = d }
}

// Notices writes that an unclean end was noticed: check(L/me) · set(L).
func Notices(scope string) zktest.Match {
	return zktest.Op(zktest.Multi).Path(lockNode(scope)).Where(consistsOf(zktest.Check, zktest.SetData))
}

// CleanT5 is the release of a holder with a lock-delay: delete(L/me) · set(L).
func CleanT5(scope string) zktest.Match { return Breaks(scope) }

// grantedAfter waits for the grant, and requires that the delay is over: to the
// millisecond, the resolution of a server's time.
func (u *user) grantedAfter(ended, d time.Duration) {
	u.w.Helper()
	u.Granted()
	at := u.grantedAt()
	require.GreaterOrEqual(u.w, at-ended, d, "%s holds before the delay is over", u.Owner)
	require.LessOrEqual(u.w, at-ended, d+3*time.Millisecond, "%s waits for longer than the delay", u.Owner)
}

// isDelayed waits until the request learns that H's end delays the lock.
func (u *user) isDelayed() lock.Delayed {
	u.w.Helper()
	told := await[lock.Delayed](u)
	require.Len(u.w, told.After, 1)
	require.Equal(u.w, "H", told.After[0].Owner)
	require.Equal(u.w, delay, told.After[0].LockDelay)
	return told
}

// grantedAt returns when the request was granted, by the clock of its server.
func (u *user) grantedAt() time.Duration {
	u.w.Helper()
	for _, c := range u.w.contenders() {
		if c.ID == u.Granted().ID() {
			var r struct {
				At int64 `json:"granted_at"`
			}
			require.NoError(u.w, json.Unmarshal(c.Data, &r))
			if r.At != 0 {
				return u.w.Since(time.UnixMilli(r.At))
			}
			return u.w.Since(c.Stat.Mtime)
		}
	}
	require.FailNow(u.w, u.Owner+" does not hold")
	return 0
}

// serverNow is the time of the server, not later than it is.
func (w *world) serverNow() time.Duration { return w.Now().Truncate(time.Millisecond) }

// uncleanEnds are all ways in which a hold of h ends without a release.
var uncleanEnds = map[string]func(w *world, h *user){
	"its session expires": func(w *world, _ *user) { w.expire("H") },
	"an administrator deletes its node": func(w *world, h *user) {
		w.evict(h)
	},
	"an operator breaks it": func(w *world, h *user) {
		w.broke(h.Token())
	},
}

// 50: after an unclean end the lock is not granted until the delay is over.
func TestUncleanEndDelaysTheLock(t *testing.T) {
	for name, end := range uncleanEnds {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(w *world) {
				// given a holder with a lock-delay and one that waits
				h := w.hold("H", delaying(delay))
				s := w.wait("S")

				// when the hold ends uncleanly
				ended := w.serverNow()
				end(w, h)

				// then the first waiter learns that the lock is free and delayed, why, and until when
				until := s.isDelayed().Until
				require.InDelta(w, ended+delay, w.Since(until), float64(3*time.Millisecond))

				// and holds when that is over
				s.grantedAfter(ended, delay)
				require.LessOrEqual(w, times[lock.Delayed](s), 1)
			})
		})
	}
}

func TestTakeoverIsDelayedAndTheVictimGoesAtOnce(t *testing.T) {
	scenario(t, func(w *world) {
		// given a holder with a lock-delay
		h := w.hold("H", at(1), delaying(delay))

		// when somebody takes the lock by force
		begun := w.serverNow()
		p := w.ask("P", at(5), forceful)

		// then the holder is notified at once, by whom
		require.Equal(w, lock.LossTaken, await[lock.Lost](h).Err.Reason)
		await[lock.TakenOver](p)

		// and the lock is the other one's when the delay is over
		p.isDelayed()
		p.grantedAfter(begun, delay)
		require.Equal(w, 1, times[lock.TakenOver](p))
	})
}

// cleanEnds are ways in which a hold of h ends in good order, though it may have
// been preempted.
var cleanEnds = map[string]struct {
	holder, next []func(*lock.Request)
	asked        bool
}{
	"handed over": {},
	"released when preempted": {
		holder: []func(*lock.Request){at(1), cleanup(time.Hour)}, next: []func(*lock.Request){at(5), forceful}, asked: true,
	},
	"released after the end of its lease": {
		holder: []func(*lock.Request){lease(10 * time.Millisecond), cleanup(time.Hour)}, asked: true,
	},
}

// 51: a release delays no request, in time or late.
func TestCleanEndDoesNotDelay(t *testing.T) {
	for name, c := range cleanEnds {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(w *world) {
				h := w.hold("H", append(c.holder, delaying(priority.MaxLockDelay))...)
				s := w.ask("S", c.next...)
				if c.asked {
					await[lock.PreemptRequested](h)
				} else {
					s.Queued()
				}
				h.release()
				s.Granted()
				require.Zero(w, times[lock.Delayed](s))

				// and one that comes later is not delayed either
				s.release()
				w.ask("T").Granted()
			})
		})
	}
}

// A release with an empty queue leaves a lock that the next request takes at
// once: in one transaction, the same client without a list.
func TestLockWithADelayCostsOneTransactionToTakeAndOneToGiveBack(t *testing.T) {
	scenario(t, func(w *world) {
		first := w.ask("H", delaying(priority.MaxLockDelay))
		first.Granted()
		first.release()
		sent := regexp.MustCompile(`→ #-?\d+ (\w+)`)
		trace := func(do func()) (ops []string) {
			before := len(w.Trace())
			do()
			for _, x := range w.Trace()[before:] {
				if op := sent.FindStringSubmatch(x.String()); op != nil && !x.ToClient {
					ops = append(ops, op[1])
				}
			}
			return ops
		}
		for _, row := range []struct {
			change  []func(*lock.Request)
			release string
		}{{[]func(*lock.Request){delaying(priority.MaxLockDelay)}, "multi"}, {nil, "delete"}, {nil, "delete"}} {
			var u *user
			require.Equal(w, []string{"multi"}, trace(func() {
				u = w.ask("H", row.change...)
				u.Granted()
			}))
			require.Equal(w, []string{row.release}, trace(u.release))
		}
	})
}

// 52: no request was there when the hold ended; the delay begins with the next
// request.
func TestNewcomerWaitsForTheDelayOfAnUnseenEnd(t *testing.T) {
	scenario(t, func(w *world) {
		w.hold("H", delaying(delay))
		w.expire("H")
		w.Pass(2 * delay)
		asked := w.serverNow()
		n := w.ask("N")
		n.isDelayed()
		n.grantedAfter(asked, delay)
	})
}

// 53: a try is refused as long as the lock is delayed, and leaves nothing behind
// but the time since when it is.
func TestTryIsRefusedUntilTheDelayIsOver(t *testing.T) {
	scenario(t, func(w *world) {
		w.hold("H", delaying(delay))
		w.expire("H")
		asked := w.serverNow()
		var busy *lock.NotAcquiredError
		require.ErrorAs(w, w.ask("N", within(0)).Refused(), &busy)
		require.Empty(w, busy.Holders)
		require.Len(w, busy.Delays, 1)
		require.Regexp(w, `^lock "users" not acquired: delayed until about \d\d:\d\d:\d\dZ, after the unclean end of "H" \(lock_delay 300ms\)$`, busy.Error())
		require.GreaterOrEqual(w, w.Since(busy.Delays[0].Until), asked+delay)

		// and tries find out by themselves when it is over
		var u *user
		w.eventually("a try succeeds", func() bool {
			w.Pass(20 * time.Millisecond)
			u = w.ask("N", within(0))
			_, err := u.Wait()
			return err == nil
		})
		require.GreaterOrEqual(w, u.grantedAt()-asked, delay)
	})
}

func TestAcquireTimeoutThatEndsInADelaySaysSo(t *testing.T) {
	scenario(t, func(w *world) {
		w.hold("H", delaying(priority.MaxLockDelay))
		w.expire("H")
		var busy *lock.NotAcquiredError
		require.ErrorAs(w, w.ask("N", within(50*time.Millisecond)).Refused(), &busy)
		require.Len(w, busy.Delays, 1)
		require.ErrorContains(w, busy, "delayed ")
	})
}

// 54: who comes first later does not wait anew, and does not come in early.
func TestDelayGoesOnWhicheverRequestWaits(t *testing.T) {
	const delay = time.Second // two waiters come and go in it
	each(t, map[string]func(w *world, first *user) (next *user){
		"the first waiter dies": func(w *world, _ *user) *user {
			second := w.wait("T")
			w.expire("S")
			return second
		},
		"the first waiter gives up": func(w *world, s *user) *user {
			second := w.wait("T")
			s.Cancel()
			s.Refused()
			return second
		},
		"somebody more important comes": func(w *world, _ *user) *user {
			return w.ask("T", at(9))
		},
		"the first waiter begins anew": func(w *world, s *user) *user {
			w.expire("S")
			await[lock.Requeued](s)
			return s
		},
		"the first waiter is the only one, and another comes when it has left": func(w *world, s *user) *user {
			s.Cancel()
			s.Refused()
			return w.ask("T")
		},
	}, func(w *world, change func(w *world, first *user) (next *user)) {
		w.hold("H", delaying(delay))
		s := w.wait("S")
		ended := w.serverNow()
		w.expire("H")
		await[lock.Delayed](s)
		w.Pass(delay / 4)
		next := change(w, s)
		next.grantedAfter(ended, delay)
		require.Equal(w, 1, times[lock.Delayed](next), "it is notified once")
	})
}

// 55: what a reader that was cut off still reads harms no other reader.
func TestReaderThatIsGoneDelaysWritersAlone(t *testing.T) {
	scenario(t, func(w *world) {
		// given two readers with a lock-delay, one of which dies
		r := w.hold("R", sharing, delaying(delay))
		h := w.hold("H", sharing, delaying(delay))
		ended := w.serverNow()
		w.expire("H")

		// then readers come and go, and the lock remembers
		w.ask("Q", sharing, delaying(delay)).Granted()
		q := w.users[len(w.users)-1]
		wr := w.ask("W", at(5), cleanup(time.Hour))
		await[lock.PreemptRequested](r)
		await[lock.PreemptRequested](q)
		r.release()
		q.release()

		// and no reader hands the lock to a writer before the delay is over
		wr.Granted()
		require.GreaterOrEqual(w, wr.grantedAt()-ended, delay)
		_ = h
	})
}

func TestReaderThatIsGoneDelaysNoReader(t *testing.T) {
	const delayed = "delayed until about"
	refused := func(w *world, name, why string, change ...func(*lock.Request)) {
		w.Helper()
		require.ErrorContains(w, w.ask(name, append(change, within(0))...).Refused(), why)
	}
	scenarios(t, map[string]func(w *world){
		"a clean end of a reader does not make the lock free for a writer": func(w *world) {
			w.hold("H", sharing, delaying(priority.MaxLockDelay))
			w.expire("H")
			r := w.ask("R", sharing)
			r.Granted()
			refused(w, "W", `held by "R"`)
			r.release()
			refused(w, "W", delayed)
			w.ask("R", sharing, within(0)).Granted()
		},
		"nor does what that one remembers of it": func(w *world) {
			r := w.ask("R", sharing, delaying(priority.MaxLockDelay))
			r.Granted()
			w.hold("H", sharing, delaying(priority.MaxLockDelay))
			w.expire("H")
			r.release()
			refused(w, "R", delayed)
		},
		"a reader that leaves takes its own note away": func(w *world) {
			r := w.ask("R", sharing, delaying(priority.MaxLockDelay))
			r.Granted()
			r.release()
			w.ask("N", within(0)).Granted()
		},
		"a writer that shares by now delays as a reader does": func(w *world) {
			h := w.hold("H", delaying(priority.MaxLockDelay))
			h.downgrade()
			w.expire("H")
			w.ask("R", sharing, within(0)).Granted()
		},
	})
}

// A request that leaves as it is granted has held nothing.
func TestWaiterThatLeavesAsItIsGrantedDoesNotDelay(t *testing.T) {
	scenario(t, func(w *world) {
		h := w.hold("H")
		s := w.wait("S", delaying(priority.MaxLockDelay))
		unheard := w.On(Changed(users, s.id())).Hold() // it does not know of its grant
		leaves := w.On(T8(users).From("S").Nth(1)).Hold()
		s.Cancel()
		w.reached(leaves)
		h.release()
		leaves.Release()
		w.reached(unheard)
		unheard.Release()
		s.Refused()
		n := w.ask("N")
		n.Granted()
		require.Zero(w, times[lock.Delayed](n))
	})
}

// A request that is sent late cannot bring an old G back.
func TestNoticeOfAnEndThatComesLateChangesNothing(t *testing.T) {
	scenario(t, func(w *world) {
		w.hold("H", delaying(delay))
		s := w.wait("S")
		late := w.On(Notices(users).From("S").Nth(1)).Hold()
		ended := w.serverNow()
		w.expire("H")
		w.reached(late)
		p := w.ask("P", at(5), delaying(priority.MaxLockDelay))
		p.Granted()
		require.GreaterOrEqual(w, p.grantedAt()-ended, delay)
		late.Release()
		s.waits()
		p.release()
		s.Granted()
	})
}

// 57: the one that is named in G and has a lock-delay is there in a format that
// a program which does not know it refuses.
func TestProgramsThatDoNotKnowLockDelayRefuseTheLock(t *testing.T) {
	scenario(t, func(w *world) {
		format := func(data []byte) int {
			var r struct {
				Format int `json:"format"`
			}
			require.NoError(w, json.Unmarshal(data, &r))
			return r.Format
		}
		plain := w.hold("P")
		lock := w.lock()
		children := lock.Contenders
		require.Equal(w, `{"format":1,"holders":["`+plain.Granted().ID()+`"]}`, string(lock.Data))
		require.Equal(w, 1, format(children[0].Data))
		plain.release()

		h := w.hold("H", delaying(delay))
		lock = w.lock()
		children = lock.Contenders
		require.Equal(w, 2, format(lock.Data))
		require.Equal(w, 2, format(children[0].Data))
		h.release()
		lock = w.lock()
		require.Equal(w, `{"format":1,"holders":[]}`, string(lock.Data)) //nolint:testifylint // to the byte
	})
}

// The state of a lock tells of its delay, and what is foreseen counts with it.
func TestStateTellsOfADelay(t *testing.T) {
	scenario(t, func(w *world) {
		h := w.hold("H", delaying(priority.MaxLockDelay))
		require.Equal(w, priority.MaxLockDelay, w.state().Holders[0].LockDelay)
		require.Empty(w, w.state().Delays)
		w.expire("H")
		w.eventually("the state says so", func() bool { return len(w.state().Delays) == 1 })
		state := w.state()
		require.Equal(w, h.Granted().ID(), state.Delays[0].ID)
		require.Zero(w, state.Delays[0].Until, "it has not begun")
		require.Equal(w, priority.MaxLockDelay, state.Delay(priority.Exclusive))

		s := w.ask("S")
		await[lock.Delayed](s)
		state = w.state()
		require.NotZero(w, state.Delays[0].Until)
		require.Len(w, inspect.Outlook(state), 1)
		require.Equal(w, inspect.OutcomeGranted, inspect.Outlook(state)[0].Outcome)
		require.InDelta(w, priority.MaxLockDelay, inspect.Outlook(state)[0].After, float64(time.Minute))
		require.Equal(w, inspect.OutcomeRefused, inspect.PlanFor(state, lock.Request{Terms: priority.Terms{AcquireTimeout: new(time.Duration)}}).Outcome)
		s.Cancel()
	})
}

// A collection of idle locks leaves one that is delayed, and begins a delay that
// no other client would begin.
func TestCollectionOfIdleLocksLeavesOneThatIsDelayed(t *testing.T) {
	scenario(t, func(w *world) {
		unclean := map[string]lock.LeftReason{users: lock.LeftUnclean}
		w.hold("H", delaying(delay))
		w.expire("H")
		w.Pass(2 * delay)
		require.Equal(w, unclean, left(w.collects("gc")()), "it has not begun")
		w.Pass(2 * delay)
		require.Equal(w, unclean, left(w.collects("gc")()), "the time is unknown")
		w.Pass(2 * delay)
		require.Equal(w, []string{users}, removed(w.collects("gc")()))
	})
}

// 58: a request that was given up while its creation was uncertain has held nothing,
// though it was granted before it could be undone.
func TestRequestThatIsUndoneAfterItWasGrantedDoesNotDelay(t *testing.T) {
	each(t, map[string]struct {
		lost          zktest.Match
		behind, moves bool
	}{
		"T1": {T1(users), false, false}, "T2": {T2(users), true, false}, "T12": {T12(users), true, true},
	}, func(w *world, c struct {
		lost          zktest.Match
		behind, moves bool
	},
	) {
		// given a caller that leaves after its connection broke as it asked
		w.client("A")
		var h *user
		if c.behind {
			h = w.hold("H", at(9))
		}
		lost := w.On(c.lost.From("A").Nth(1)).DropReply()
		returns := w.On(zktest.Op(zktest.Connect).From("A")).Hold()
		var s terms
		a := w.ask("A", delaying(priority.MaxLockDelay), s.under)
		if c.moves {
			a.Queued()
			s.change(to(7))
		}
		w.reached(lost)
		w.reached(returns)
		a.Cancel()
		require.ErrorIs(w, a.Refused(), context.Canceled)

		// when the lock is handed to it, and it is connected again
		if h != nil {
			h.release()
		}
		require.Equal(w, []string{"A"}, w.holders())
		returns.Release()

		// then the next request has the lock at once
		n := w.ask("N")
		n.Granted()
		require.Zero(w, times[lock.Delayed](n))
	})
}
