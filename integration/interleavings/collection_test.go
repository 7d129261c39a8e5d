package interleavings

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Removes is a collection of idle locks: set(root) · delete(L1) · delete(L2) …
func Removes() zktest.Match {
	return zktest.Op(zktest.Multi).Where(func(q zktest.Request) bool {
		kinds := kindsOf(q)
		return len(kinds) > 1 && kinds[0] == zktest.SetData && kinds[1] == zktest.Delete
	})
}

// Rewrites writes the lock node as it is, under the epoch, so that a watch on it
// fires without need: check(root) · set(L).
func Rewrites(scope string) zktest.Match {
	return zktest.Op(zktest.Multi).Containing(zktest.SetData).Path(lockNode(scope)).Where(consistsOf(zktest.Check, zktest.SetData))
}

// collects starts to remove the locks that are unused at the moment, as a
// client of its own. The function that it returns waits for the outcome.
func (w *world) collects(name string, change ...func(*lock.IdleOptions)) (outcome func() lock.Collection) {
	w.Helper()
	o := lock.IdleOptions{Older: 1}
	for _, f := range change {
		f(&o)
	}
	c := w.client(name)
	wait := later(w, "the collection", func() (lock.Collection, error) { return c.CollectIdle(context.Background(), o) })
	return func() lock.Collection {
		w.Helper()
		found, err := wait()
		require.NoError(w, err)
		return found
	}
}

func older(d time.Duration) func(*lock.IdleOptions) {
	return func(o *lock.IdleOptions) { o.Older = d }
}

func removed(c lock.Collection) []string {
	scopes := make([]string, len(c.Removed))
	for i, x := range c.Removed {
		scopes[i] = x.Scope
	}
	return scopes
}

func left(c lock.Collection) map[string]lock.LeftReason {
	scopes := make(map[string]lock.LeftReason, len(c.Left))
	for _, x := range c.Left {
		scopes[x.Scope] = x.Why
	}
	return scopes
}

// uses locks a scope and gives it back.
func (w *world) uses(name, scope string) {
	w.Helper()
	u := w.client(name).ask(scope, name)
	u.Granted()
	u.release()
}

// 39: a newcomer has read an idle lock; before it takes it the lock is removed,
// and there anew with the version that it has read, and a holder. The epoch tells.
func TestNewcomerIsRefusedByTheEpochWhenTheLockWasRemovedMeanwhile(t *testing.T) {
	each(t, map[string]bool{"one that has looked": false, "one that remembers": true}, func(w *world, warm bool) {
		// given a lock that was held once, by the newcomer if it is to remember that
		before := "B"
		if warm {
			before = "N"
		}
		w.uses(before, users)
		takes, n := w.stops(T1(users).From("N"), "N", at(3))

		// when it is removed, and another one takes it at the same version
		require.Equal(w, []string{users}, removed(w.collects("gc")()))
		x := w.hold("X", at(5))
		takes.Release()

		// then the newcomer waits, and holds after that one
		n.waits()
		require.Equal(w, []string{"X"}, w.holders())
		x.release()
		n.Granted()
		require.Greater(w, n.Token(), x.Token())
	})
}

// 39: nor is what a client remembers of any use once it has heard of the removal by another way, and has the new epoch.
func TestMemoryOfRemovedLockNodeGrantsNothing(t *testing.T) {
	each(t, map[string]func(w *world){
		"by another lock":  func(w *world) { w.uses("A", "other") },
		"by a new session": func(w *world) { w.expire("A") },
	}, func(w *world, hears func(w *world)) {
		// given a client that has left two locks idle, which are removed
		w.uses("A", users)
		w.uses("A", "other")
		require.Equal(w, []string{"other", users}, sorted(removed(w.collects("gc")())))

		// and another one that holds the first since, at the version that the client remembers
		x := w.hold("X", at(5))
		hears(w)

		// when the client asks again, then it waits
		a := w.ask("A", at(3))
		require.Equal(w, 1, a.Queued().Position)
		a.waits()
		require.Equal(w, []string{"X"}, w.holders())
		x.release()
		a.Granted()
	})
}

// 39: the newcomer is refused by the epoch alone although the lock is free: it
// does not queue, nor does a try fail.
func TestTryIsGrantedThoughTheLockGoesAsItComes(t *testing.T) {
	scenario(t, func(w *world) {
		w.uses("N", users)
		takes, n := w.stops(T1(users).From("N"), "N", within(0))
		require.Equal(w, []string{users}, removed(w.collects("gc")()))
		takes.Release()
		n.Granted()
	})
}

// 39: one that joins as the lock goes finds none, makes it anew and holds.
func TestOneThatJoinsALockThatIsRemovedMakesItAnew(t *testing.T) {
	scenario(t, func(w *world) {
		// given one that joins without a look, for it has seen others just now
		h := w.hold("H", at(5))
		n := w.wait("N", at(3))
		n.Cancel()
		<-n.Done()
		joins, again := w.stops(T2(users).From("N"), "N", at(3))
		h.release()
		w.eventually("the holder has gone", func() bool { return len(w.contenders()) == 0 })
		require.Equal(w, []string{users}, removed(w.collects("gc")()))
		joins.Release()
		again.Granted()
	})
}

// 40: a lock that a request joins as it is to be removed stays, and the other
// locks are removed.
func TestLockThatIsUsedAsItIsToBeRemovedStays(t *testing.T) {
	each(t, map[string]func(w *world){
		"somebody holds it":     func(w *world) { w.hold("N") },
		"somebody has held it":  func(w *world) { w.uses("N", users) },
		"something is below it": func(w *world) { require.NoError(w, w.Create(w.lock().Path+"/stray", nil)) },
	}, func(w *world, comes func(w *world)) {
		w.uses("A", "first")
		w.uses("A", users)
		w.uses("A", "last")
		removes := w.On(Removes().From("gc").Nth(1)).Hold()
		outcome := w.collects("gc")
		w.reached(removes)
		comes(w)
		removes.Release()
		found := outcome()
		require.Equal(w, []string{"first", "last"}, removed(found))
		require.Equal(w, map[string]lock.LeftReason{users: lock.LeftCame}, left(found))
		_ = w.Delete(w.lock().Path + "/stray")
	})
}

// 40: one that an administrator removes first is not told of, and the others go.
func TestLockThatIsGoneAsItIsToBeRemovedKeepsNoOtherOne(t *testing.T) {
	scenario(t, func(w *world) {
		w.uses("A", users)
		w.uses("A", "other")
		removes := w.On(Removes().From("gc").Nth(1)).Hold()
		outcome := w.collects("gc")
		w.reached(removes)
		lock := w.lock()
		require.NoError(w, w.Delete(lock.Path))
		removes.Release()
		found := outcome()
		require.Equal(w, []string{"other"}, removed(found))
		require.Empty(w, found.Left)
	})
}

// 41: two collectors write when they were there, and neither is in the other's way.
func TestCollectorsThatBeginAtOnceBothCollect(t *testing.T) {
	scenario(t, func(w *world) {
		w.uses("A", users)
		marks := w.On(zktest.Op(zktest.SetData).From("gc").Path("/**/gc").Nth(1)).Hold()
		outcome := w.collects("gc")
		w.reached(marks)
		require.Equal(w, []string{users}, removed(w.collects("gc2")()))
		w.uses("A", users)
		marks.Release()
		require.Equal(w, []string{users}, removed(outcome()))
	})
}

// What a newer program has written stays.
func TestLockOfANewerFormatIsNotRemoved(t *testing.T) {
	scenario(t, func(w *world) {
		w.uses("A", users)
		l := w.lock()
		require.NoError(w, w.Set(l.Path, []byte(`{"format":9,"holders":[],"more":"than this program can know of it"}`)))
		w.Pass(2 * short)
		require.Equal(w, map[string]lock.LeftReason{users: lock.LeftNewer}, left(w.collects("gc")()))
	})
}

// 41: two collectors at once. The later one reads again: what the other one has
// removed, and somebody has used since, is not idle.
func TestSecondCollectorLooksAgain(t *testing.T) {
	scenario(t, func(w *world) {
		w.uses("A", users)
		w.uses("A", "other")
		w.uses("A", "third")
		w.Pass(2 * time.Minute)
		w.uses("A", "clock") // so that it is known how old the others are
		w.Pass(90 * time.Second)
		removes := w.On(Removes().From("gc").Nth(1)).Hold()
		outcome := w.collects("gc", older(time.Minute))
		w.reached(removes)
		require.Equal(w, []string{"other", "third", users}, removed(w.collects("gc2", older(time.Minute))()))
		w.uses("A", users) // with the version of before
		removes.Release()
		found := outcome()
		require.Empty(w, removed(found))
		require.Equal(w, lock.LeftRecent, left(found)[users])
	})
}

// 42: a waiter that has left still has to rid itself of its watch on the lock,
// by writing that as it is: not the one that is there by then.
func TestWaiterThatHasLeftDoesNotWriteALockThatIsThereAnew(t *testing.T) {
	scenario(t, func(w *world) {
		// given one that has left, having waited for a reader
		r := w.hold("R", at(5), sharing)
		watches := w.On(ReadsG(users).From("X").Where(func(q zktest.Request) bool { return q.Watch }).Nth(1)).HoldReply()
		x := w.wait("X", at(3))
		w.reached(watches)
		watches.Release()
		rewrites := w.On(Rewrites(users).From("X")).Hold()
		x.Cancel()
		w.reached(rewrites)

		// when the lock is removed, and another one holds it at the version that it has read
		r.release()
		w.eventually("the reader has gone", func() bool { return len(w.contenders()) == 0 })
		require.Equal(w, []string{users}, removed(w.collects("gc")()))
		h := w.hold("H", at(9))
		rewrites.Release()
		<-x.Done()

		// then that one goes on holding it
		n := w.ask("N", at(1))
		n.waits()
		require.Equal(w, []string{"H"}, w.holders())
		h.holdsOn()
		h.release()
		n.Granted()
	})
}

// 42: a newcomer that finds the lock node overwritten restores it as the requests
// tell: that of the lock that it has read, not the one that is there by then.
func TestOverwrittenLockIsNotRestoredOverOneThatIsThereAnew(t *testing.T) {
	scenario(t, func(w *world) {
		// given a reader, and one that comes to read and finds what is no record
		r := w.hold("R", sharing)
		lock := w.lock()
		require.NotNil(w, lock)
		w.referee.ExpectDamage(users)
		require.NoError(w, w.Set(lock.Path, []byte("none of ours")))
		rewrites, n := w.stops(Rewrites(users).From("N"), "N", sharing, within(time.Hour))

		// when the lock is removed before that is written, and another one holds it at the same version
		r.release()
		w.eventually("the reader has gone", func() bool { return len(w.contenders()) == 0 })
		require.Equal(w, []string{users}, removed(w.collects("gc")()))
		w.uses("A", users)
		h := w.hold("H")
		again := w.lock()
		require.Equal(w, lock.Stat.Version+1, again.Stat.Version)
		rewrites.Release()

		// then that one goes on holding it, alone
		n.waits()
		require.Equal(w, []string{"H"}, w.holders())
		h.holdsOn()
		h.release()
		n.Granted()
	})
}

// 43: the idle time of a lock counts from the end of the last use, by the
// servers' clock.
func TestLockThatWasHeldForLongIsNotIdleWhenItIsReleased(t *testing.T) {
	scenario(t, func(w *world) {
		// given one that was held for nine minutes until a second ago, and one that was not
		w.uses("A", "other")
		h := w.hold("H", lease(time.Hour))
		w.Pass(9 * time.Minute)
		h.release()
		w.Pass(time.Second)

		// when locks are removed that were unused for seven minutes
		found := w.collects("gc", older(7*time.Minute), func(o *lock.IdleOptions) { o.DryRun = true })()
		require.Equal(w, []string{"other"}, removed(found))
		require.Zero(w, found.Transactions)
		found = w.collects("gc", older(7*time.Minute))()

		// then it stays
		require.Equal(w, []string{"other"}, removed(found))
		require.Equal(w, map[string]lock.LeftReason{users: lock.LeftReleased}, left(found))
		require.Equal(w, 7*time.Minute, found.Older)

		// until that has passed, whether another client writes or not
		w.Pass(6 * time.Minute)
		require.Empty(w, removed(w.collects("gc", older(7*time.Minute))()))
		w.Pass(2 * time.Minute)
		require.Equal(w, []string{users}, removed(w.collects("gc", older(7*time.Minute))()))
	})
}

// 43: collectors that come often do not hide from each other how old a lock is.
func TestLockIsFoundIdleByCollectorsThatComeOften(t *testing.T) {
	scenario(t, func(w *world) {
		w.uses("A", users)
		for minutes := 1; ; minutes++ {
			w.Pass(time.Minute)
			if len(w.collects("gc", older(10*time.Minute))().Removed) > 0 {
				require.GreaterOrEqual(w, minutes, 10)
				require.LessOrEqual(w, minutes, 25)
				return
			}
			require.Less(w, minutes, 40)
		}
	})
}

// 44: a holder that lost a lock and has not heard of it still reads by whom.
func TestLockStaysWhileItTellsOfAnEviction(t *testing.T) {
	scenario(t, func(w *world) {
		victim := w.client("V", func(cfg *lock.Config) { cfg.SessionTimeout = 40 * time.Second }).ask(users, "V", at(1))
		victim.Granted()
		w.Pass(short)
		w.forgive(victim.Granted().ID())
		w.Partition("V")
		taker := w.ask("T", at(5), forceful)
		taker.Granted()
		taker.release()
		require.Equal(w, lock.LeftNews, left(w.collects("gc")())[users])
		w.Heal("V")
		require.Equal(w, lock.LossTaken, await[lock.Lost](victim).Err.Reason)
		w.Pass(3 * time.Minute)
		require.Equal(w, []string{users}, removed(w.collects("gc")()))
	})
}

// 45: many at once, in one transaction; a nonsensical call returns an error.
func TestManyIdleLocksGoInOneTransaction(t *testing.T) {
	scenario(t, func(w *world) {
		for i := range 20 {
			w.uses("A", fmt.Sprintf("many/%d", i))
		}
		h := w.hold("H")
		found := w.collects("gc", func(o *lock.IdleOptions) {
			o.Match = func(scope string) bool { return scope != "many/7" }
		})()
		require.Len(w, found.Removed, 19)
		require.Equal(w, 1, found.Transactions)
		require.Equal(w, map[string]lock.LeftReason{users: lock.LeftInUse}, left(found))
		h.holdsOn()
		w.uses("A", "many/8")
		_, err := w.client("gc").CollectIdle(w.Context(), lock.IdleOptions{Older: -time.Hour})
		var bad *lock.RequestError
		require.ErrorAs(w, err, &bad)
		require.Equal(w, "older", bad.Field)
	})
}
