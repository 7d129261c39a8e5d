package live

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func of(session int64) func(*lock.Contender) {
	return func(c *lock.Contender) { c.Session = session }
}

func withDelay(d time.Duration) func(*lock.Contender) {
	return func(c *lock.Contender) { c.LockDelay = d }
}

func sharing(c *lock.Contender) { c.Mode = priority.Shared }

// expire ends a session: all that it has goes in one transaction. Some locks are
// looked at before others.
func (s *script) expire(session int64, scopes ...string) {
	s.zxid++
	for _, scope := range scopes {
		l := s.lock(scope)
		s.moved[scope] = s.zxid
		for _, all := range []*[]lock.Contender{&l.Holders, &l.Waiters} {
			for _, c := range slices.Backward(slices.Clone(*all)) {
				if c.Session == session {
					remove(all, c.ID)
				}
			}
		}
		s.tell(scope)
	}
}

// between lets the holders of two locks go, one after the other, and something happen
// in both at once, before either is read.
func (s *script) between(before, then func(scope string)) {
	s.acquire("b", "ann-b", of(1))
	both := []string{users, "b"}
	for _, scope := range both {
		before(scope)
		s.tell(scope)
	}
	for _, scope := range both {
		remove(&s.lock(scope).Holders, "ann")
		remove(&s.lock(scope).Holders, "ann-b")
	}
	s.zxid += 3
	for _, scope := range both {
		then(scope)
		s.moved[scope] = s.zxid
		s.tell(scope)
	}
	require.Equal(s.t, EndGone, s.endOf("b", "ann-b"))
}

func (s *script) endOf(scope, id string) SpellEnd {
	for _, r := range s.board.Timeline(scope, time.Time{}, time.Time{}).Rows {
		if r.ID == id {
			return r.Spells[len(r.Spells)-1].End
		}
	}
	return "not there"
}

func TestHowAHoldEndedIsSaidAsFarAsTheTreeTells(t *testing.T) {
	const mine, other = 1, 2
	for name, c := range map[string]struct {
		do   func(s *script) // ann holds users, in session mine
		want SpellEnd
	}{
		"nothing tells": {func(s *script) { s.leave(users, "ann") }, EndGone},
		"its session takes a lock later": {func(s *script) {
			s.leave(users, "ann")
			s.acquire("b", "ann-b", of(mine))
		}, EndReleased},
		"its session is handed a lock later": {func(s *script) {
			s.acquire("b", "bob", of(other))
			s.join("b", "ann-b", of(mine))
			s.leave(users, "ann")
			s.wait(time.Second)
			s.handOver("b", "bob")
		}, EndReleased},
		"its session is granted another lock in the same transaction": {func(s *script) {
			s.leave(users, "ann")
			s.zxid--
			s.acquire("b", "ann-b", of(mine))
		}, EndReleased},
		"another session takes a lock later": {func(s *script) {
			s.leave(users, "ann")
			s.acquire("b", "bob", of(other))
		}, EndGone},
		"its session has had another lock since before": {func(s *script) {
			s.acquire("b", "ann-b", of(mine))
			s.leave(users, "ann")
			s.tell("b")
		}, EndGone},
		"its session takes the lock again between two looks": {func(s *script) {
			s.zxid++
			l := s.lock(users)
			remove(&l.Holders, "ann")
			s.acquire(users, "ann-2", of(mine))
		}, EndReleased},
		"its session takes the lock again between two looks, and somebody queues": {func(s *script) {
			s.zxid++
			l := s.lock(users)
			remove(&l.Holders, "ann")
			s.grant(l, request("ann-2", of(mine)))
			s.join(users, "bob", of(other))
		}, EndReleased},
		"another session takes the lock between two looks": {func(s *script) {
			s.zxid++
			l := s.lock(users)
			remove(&l.Holders, "ann")
			s.acquire(users, "bob", of(other))
		}, EndGone},
		"its session leaves two locks at once": {func(s *script) {
			s.acquire("b", "ann-b", of(mine))
			s.expire(mine, users, "b")
		}, EndLost},
		"its session leaves two locks at once, this one is looked at last": {func(s *script) {
			s.acquire("b", "ann-b", of(mine))
			s.acquire("c", "ann-c", of(mine))
			s.expire(mine, "b", "c", users)
		}, EndLost},
		"its session leaves a queue at once": {func(s *script) {
			s.acquire("b", "bob", of(other))
			s.join("b", "ann-b", of(mine))
			s.expire(mine, "b", users)
		}, EndLost},
		"its session leaves two locks one after the other": {func(s *script) {
			s.acquire("b", "ann-b", of(mine))
			s.leave("b", "ann-b")
			s.leave(users, "ann")
		}, EndGone},
		"another session leaves both locks at once, later": {func(s *script) {
			s.between(func(scope string) { s.lock(scope).Waiters = []lock.Contender{request("bob-"+scope, of(other))} },
				func(scope string) { s.lock(scope).Waiters = nil })
		}, EndGone},
		"another one takes both locks at once, later": {func(s *script) {
			s.between(func(string) {}, func(scope string) { s.grant(s.lock(scope), request("bob-"+scope, of(other))) })
		}, EndGone},
		"another one queues for both locks at once, later": {func(s *script) {
			s.between(func(string) {}, func(scope string) { s.lock(scope).Waiters = []lock.Contender{request("bob-"+scope, of(other))} })
		}, EndGone},
		"the one to whom it was handed over": {func(s *script) {
			s.join(users, "bob")
			s.second(5)
			s.handOver(users, "ann")
		}, EndReleased},
		"somebody else came since it was handed over": {func(s *script) {
			s.join(users, "bob")
			s.second(5)
			s.zxid++
			l := s.lock(users)
			remove(&l.Holders, "ann")
			s.grantFirst(l)
			s.join(users, "cid")
		}, EndGone},
		"it was handed over, or not, to one that handed it over": {func(s *script) {
			s.join(users, "bob")
			s.second(5)
			l := s.lock(users)
			remove(&l.Holders, "ann")
			s.grant(l, request("unseen"))
			s.handOver(users, "unseen")
		}, EndGone},
		"it was handed over, or not, to one from whom it was taken": {func(s *script) {
			s.join(users, "bob")
			s.second(5)
			l := s.lock(users)
			remove(&l.Holders, "ann")
			l.Holders = append(l.Holders, request("unseen")) // the same version, as if it was not written
			s.takeOver(users, "unseen", priority.Outranked)
		}, EndGone},
		"it was found abandoned, or not, by one that handed it over": {func(s *script) {
			s.join(users, "bob")
			s.second(9)
			l := s.lock(users)
			remove(&l.Holders, "ann")
			s.zxid++
			s.moved[users] = s.zxid
			s.grants[users]++ // somebody had it since
			s.zxid++
			s.grantFirst(l)
			s.tell(users)
		}, EndGone},
		"it has a short lock-delay, whose note may be gone": {func(s *script) {
			s.acquire("b", "eve", withDelay(time.Second))
			s.leave("b", "eve")
			require.Equal(s.t, EndGone, s.endOf("b", "eve"))
			s.leave(users, "ann")
		}, EndGone},
		"it has a lock-delay, and another one has the lock since": {func(s *script) {
			s.acquire("b", "eve", withDelay(time.Minute))
			remove(&s.lock("b").Holders, "eve")
			s.second(300)
			s.acquire("b", "bob")
			require.Equal(s.t, EndGone, s.endOf("b", "eve"))
			s.leave(users, "ann")
		}, EndGone},
		"it has a lock-delay, and left no note": {func(s *script) {
			s.acquire("b", "eve", withDelay(time.Minute))
			s.leave("b", "eve")
			require.Equal(s.t, EndReleased, s.endOf("b", "eve"))
			s.leave(users, "ann")
		}, EndGone},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, Keep{}, func(t *testing.T, s *script) {
				s.acquire(users, "ann", of(mine))
				s.second(4)
				c.do(s)
				require.Equal(t, c.want, s.endOf(users, "ann"))
			})
		})
	}
}

func TestDoubtsAreBounded(t *testing.T) {
	play(t, Keep{}, func(t *testing.T, s *script) {
		for i := range 2*maxDoubts + 10 {
			id := fmt.Sprint("r", i)
			s.acquire("a", id, of(int64(10+i)))
			s.leave("a", id)
		}
		s.board.mu.Lock()
		defer s.board.mu.Unlock()
		require.LessOrEqual(t, len(s.board.doubts.open), maxDoubts)
		require.LessOrEqual(t, len(s.board.doubts.left), maxDoubts)
	})
}

// Holds of one lock that exclude each other are not drawn as simultaneous: when the
// end of one was not seen, the start of the next one bounds it.
func TestHoldsWithAnUnseenEndEndBeforeTheNext(t *testing.T) {
	take := func(s *script, id string, mode func(*lock.Contender)) {
		s.zxid++
		s.moved[users] = s.zxid
		s.grant(s.lock(users), request(id, mode))
	}
	exclusively := func(*lock.Contender) {}
	t.Run("in the same look", func(t *testing.T) {
		play(t, Keep{}, func(t *testing.T, s *script) {
			s.second(1)
			s.acquire(users, "ann")
			s.second(2)
			remove(&s.lock(users).Holders, "ann")
			take(s, "bob", exclusively)
			s.second(3)
			s.tell(users)
			require.Equal(t, lines("ann: holding 1s-2s gone;", "bob: holding 2s-…;"), s.story(users))
			require.Equal(t, "2s gone users ann no longer holds it: it released it, or its session ended; held for 1s", s.events()[1])
		})
	})
	t.Run("in a later one", func(t *testing.T) {
		play(t, Keep{}, func(t *testing.T, s *script) {
			s.second(1)
			s.acquire(users, "ann", sharing)
			s.acquire(users, "amy", sharing)
			s.second(2)
			s.wait(time.Second) // the end is seen late
			since := time.Now().Add(-time.Second)
			s.leave(users, "ann")
			s.leave(users, "amy")
			take(s, "bob", exclusively)
			s.lock(users).Holders[0].Since = since
			s.tell(users)
			require.Equal(t, lines("ann: holding 1s-2s gone;", "amy: holding 1s-2s gone;", "bob: holding 2s-…;"), s.story(users))
		})
	})
	t.Run("of one whose hold was not seen", func(t *testing.T) {
		play(t, Keep{}, func(t *testing.T, s *script) {
			s.second(1)
			s.acquire(users, "ann")
			s.join(users, "bob")
			s.second(2)
			l := s.lock(users)
			remove(&l.Holders, "ann")
			bob, _ := remove(&l.Waiters, "bob")
			l.Evicted = []lock.Eviction{{ID: bob.ID, Owner: bob.Owner, By: "op", Why: "why", At: time.Now()}}
			s.second(3)
			s.tell(users)
			require.Equal(t, lines("ann: holding 1s-2s gone;", "bob: waiting 1s-2s granted; holding 2s-2s taken;", "2s break >bob"), s.story(users))
		})
	})
	t.Run("not of companions", func(t *testing.T) {
		play(t, Keep{}, func(t *testing.T, s *script) {
			companion := func(c *lock.Contender) { c.Hold = "import" }
			s.second(1)
			s.acquire(users, "ann", companion)
			s.second(2)
			take(s, "amy", companion)
			s.second(3)
			remove(&s.lock(users).Holders, "ann")
			s.tell(users)
			require.Equal(t, lines("ann: holding 1s-3s gone;", "amy: holding 2s-…;"), s.story(users))
		})
	})
	t.Run("nor of those whose end is known", func(t *testing.T) {
		play(t, Keep{}, func(t *testing.T, s *script) {
			s.second(1)
			s.acquire(users, "ann")
			s.join(users, "bob")
			s.second(3)
			s.handOver(users, "ann") // by one server's clock
			s.acquire("b", "cid")
			s.lock(users).Holders = nil
			take(s, "dan", exclusively)
			s.lock(users).Holders[0].Since = s.start.Add(2 * time.Second) // by another one's
			s.tell(users)
			require.Contains(t, s.story(users), "ann: holding 1s-3s released;")
		})
	})
	t.Run("but of those that share", func(t *testing.T) {
		play(t, Keep{}, func(t *testing.T, s *script) {
			s.second(1)
			s.acquire(users, "ann", sharing)
			s.second(2)
			remove(&s.lock(users).Holders, "ann")
			take(s, "bob", sharing)
			s.second(3)
			s.tell(users)
			require.Equal(t, lines("ann: holding 1s-3s gone;", "bob: holding 2s-…;"), s.story(users))
		})
	})
}

// Several locks may be granted in one transaction, and several shared holders: a token
// is not enough to know them apart.
func TestWhatAProcessSaysIsAboutItsOwnHold(t *testing.T) {
	released := func(scope, owner string, cause error) lockguard.Event {
		return lockguard.Event{Subject: lockguard.Subject{At: time.Now(), Scope: scope, Identity: priority.Identity{Owner: owner}, Token: 101}, Notice: lockguard.Released{Cause: cause}}
	}
	over := &lockguard.LeaseExpiredError{Scope: users}
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprint("told before it is seen: ", before), func(t *testing.T) {
			play(t, Keep{}, func(t *testing.T, s *script) {
				s.zxid++
				for _, scope := range []string{users, "b"} {
					for _, id := range []string{"ann", "bob"} {
						s.grant(s.lock(scope), request(id, sharing))
					}
					s.tell(scope)
				}
				s.second(4)
				gone := func() {
					s.zxid++
					for _, scope := range []string{users, "b"} {
						remove(&s.lock(scope).Holders, "ann")
						remove(&s.lock(scope).Holders, "bob")
						s.tell(scope)
					}
				}
				if !before {
					gone()
				}
				count := len(s.board.Entries(0, 0))
				s.board.Observe(t.Context(), released(users, "ann", over))
				require.Len(t, s.board.Entries(0, 0), count, "it is in the history, not told twice")
				if before {
					gone()
				}
				require.Equal(t, EndLeaseExpired, s.endOf(users, "ann"))
				require.Equal(t, EndGone, s.endOf(users, "bob"))
				require.Equal(t, EndGone, s.endOf("b", "ann"))
				require.Equal(t, EndGone, s.endOf("b", "bob"))
			})
		})
	}
}

// What cannot be read is not gone.
func TestLockThatCannotBeReadKeepsWhoWasThere(t *testing.T) {
	play(t, Keep{}, func(t *testing.T, s *script) {
		s.second(1)
		s.acquire(users, "ann")
		s.join(users, "bob")
		s.join(users, "cid")
		s.second(2)
		s.told <- lock.Sighting{State: lock.State{Scope: users, Damage: "you may not read it"}}
		s.settle()
		require.Equal(t, "you may not read it", s.board.Now().Locks[0].Damage)
		s.second(3)
		s.leave(users, "cid")
		s.second(4)
		s.told <- lock.Sighting{State: lock.State{Scope: users, Damage: "you may not read it"}}
		s.second(5)
		s.leave(users, "ann")
		require.Equal(t, lines("ann: holding 1s-5s unknown;", "bob: waiting 1s-…;", "cid: waiting 1s-3s unknown;"), s.story(users))
	})
}

func TestBoardThatRunsAgainShowsNothingOldAsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, Keep{})
		s.sync()
		for _, scope := range []string{"collected", users} {
			s.acquire(scope, "ann")
		}
		s.second(2)

		// when watching has stopped
		s.stop()
		n := s.board.Now()
		require.NotNil(t, n.Blind, "what it shows may be out of date")
		require.Equal(t, s.start.Add(2*time.Second).UTC(), n.Blind.Since)
		require.Contains(t, n.Blind.Reason, "watching has stopped")
		require.Equal(t, "held", n.Locks[0].State)

		// and one lock is collected, and the other changes hands, before the next read
		s.second(10)
		s.run()
		s.settle()
		require.NotNil(t, s.board.Now().Blind)
		require.False(t, s.board.Now().Complete)
		remove(&s.lock(users).Holders, "ann")
		s.acquire(users, "bob")
		s.settle()
		require.False(t, s.board.Now().Complete)
		s.second(11)
		s.sync()

		n = s.board.Now()
		require.True(t, n.Complete)
		require.Nil(t, n.Blind)
		require.Equal(t, []string{users}, scopes(n.Locks))
		require.Equal(t, EndUnknown, s.endOf("collected", "ann"))
		require.Equal(t, EndUnknown, s.endOf(users, "ann"))
		require.Equal(t, []string{"granted", "granted", "gone", "granted", "gone", "collected"}, kinds(s.board.Entries(0, 0)))

		// and from then on all is as it was
		s.leave(users, "bob")
		require.Equal(t, EndGone, s.endOf(users, "bob"))
	})
}

func TestSeveralSharedHoldersAreNotHandedOverByAll(t *testing.T) {
	play(t, Keep{}, func(t *testing.T, s *script) {
		s.acquire(users, "ann", sharing)
		s.acquire(users, "amy", sharing)
		s.join(users, "bob")
		s.second(2)
		remove(&s.lock(users).Holders, "ann")
		s.handOver(users, "amy")
		require.Equal(t, EndGone, s.endOf(users, "ann"))
		require.Equal(t, EndGone, s.endOf(users, "amy"), "one of them has handed it over")
		require.Empty(t, s.board.Timeline(users, time.Time{}, time.Time{}).Marks)

		// and a single one has
		s.join(users, "cid", sharing)
		s.second(3)
		s.handOver(users, "bob")
		s.join(users, "dan")
		s.second(4)
		s.handOver(users, "cid")
		require.Equal(t, EndReleased, s.endOf(users, "cid"))
	})
}
