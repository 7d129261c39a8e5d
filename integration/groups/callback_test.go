package groups

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/classic"
	"github.com/lockkeeper/lockkeeper/recipes/group"
)

const first = groupName + "_0"

func TestLockStaysUntilItsCleanupHasReturnedHoweverLateThatIs(t *testing.T) {
	virtually(t, func(t *testing.T, f *fixture) {
		s := spec(2, func(s *group.Spec) { s.CleanupTimeout = 100 * time.Millisecond })

		// given a participant whose cleanup of one lock takes longer than its timeout
		one := f.player("node1", f.client())
		proceed, slow := make(chan struct{}), make(chan string, 2)
		one.onRelease(func(ctx context.Context, lock string) {
			<-ctx.Done()
			slow <- lock
			<-proceed
		})
		one.join(s)
		f.share(2, one)
		two := f.join(s, "node2")
		lock := <-slow

		// then the overrun is reported, and no other member has the lock
		overrun := harness.Await[group.CleanupOverrun](t, one.Notices)
		require.Equal(t, lock, overrun.Lock)
		require.Equal(t, 100*time.Millisecond, overrun.After)
		pass(time.Minute)
		require.Empty(t, two.locks())
		for _, l := range f.state().Locks {
			require.Len(t, l.Holders, 1)
			require.Equal(t, "node1", l.Holders[0].Name)
			require.Equal(t, l.Lock == lock, l.Holders[0].Releasing)
		}

		// until it has returned
		close(proceed)
		f.share(1, one, two)
		require.Equal(t, []string{lock}, two.locks())
	})
}

func TestSlowCleanupOfOneLockDoesNotHoldUpTheOthersOfOneThatLeaves(t *testing.T) {
	t.Parallel()
	f := share(t)

	// given a participant that leaves, with one lock whose cleanup takes long
	one := f.player("node1", f.client())
	proceed := make(chan struct{})
	one.onRelease(func(_ context.Context, lock string) {
		if lock == first {
			<-proceed
		}
	})
	one.join(spec(4))
	f.share(4, one)
	two := f.join(spec(4, debounce(time.Minute)), "node2") // so that nothing moves before that
	left := one.leaves()

	// then the others are taken over meanwhile
	f.apply(spec(4))
	harness.Eventually(t, func() bool { return len(two.locks()) == 3 }, "they are not taken over")
	left.IsPending()
	require.True(t, f.state().Members[0].Leaving)

	// and the last one afterwards
	close(proceed)
	left.Granted()
	f.share(4, two)
}

func TestCallbackThatPanicsOrEndsItsGoroutineCountsAsReturned(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(string){"panic": func(in string) { panic("in " + in) }, "exit": func(string) { runtime.Goexit() }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := share(t)
			s := spec(1)
			one := f.player("node1", f.client())
			entered := make(chan struct{})
			one.locked = func(context.Context, group.LockGrant) { close(entered); end("OnLocked") }
			one.onRelease(func(context.Context, string) { f.referee.clear(first); end("OnReleased") })
			one.join(s)
			harness.Receive(t, entered, "OnLocked is not called")
			if name == "panic" {
				panicked := harness.Await[group.Panicked](t, one.Notices)
				require.Equal(t, "OnLocked", panicked.Callback)
				require.Equal(t, "in OnLocked", panicked.Value)
				require.Contains(t, panicked.Stack, "callback_test.go")
			}
			require.Len(t, one.locks(), 1)

			one.leave()

			if name == "panic" {
				require.Equal(t, "OnReleased", harness.Await[group.Panicked](t, one.Notices).Callback)
			} else {
				require.Empty(t, harness.All[group.Panicked](one.Notices))
			}
			f.share(1, f.join(s, "node2"))
		})
	}
}

func TestLockThatIsTakenBackBeforeItWasToldIsNeverTold(t *testing.T) {
	t.Parallel()
	f := share(t)

	// given a lock whose OnLocked is still under way from an earlier session
	one := f.player("node1", f.client())
	entered, proceed := make(chan struct{}, 10), make(chan struct{})
	one.locked = func(context.Context, group.LockGrant) {
		entered <- struct{}{}
		<-proceed
	}
	one.join(spec(1))
	harness.Receive(t, entered, "OnLocked is not called")

	// when its session expires, and it is granted the lock anew and leaves
	f.Expire(one.c)
	harness.Await[group.Lost](t, one.Notices)
	harness.Await[group.Joined](t, one.Notices)
	harness.Eventually(t, func() bool { return len(one.locks()) == 1 }, "it is not granted anew")
	left := one.leaves()
	harness.Eventually(t, func() bool { return len(one.locks()) == 0 }, "it keeps the lock")
	close(proceed)
	left.Granted()

	// then there was one call of each callback
	require.Equal(t, []string{"locked", "released", "dropped"}, one.history(first))
}

func TestParticipantThatLeavesTakesUpNothingThatItWasGivenMeanwhile(t *testing.T) {
	t.Parallel()
	f := share(t)
	s := spec(2)
	f.join(s, "controller")
	network := newNetwork(f)
	p := f.player("leaver", f.client(harness.Servers(network.Addr())))
	cleaning, clean := make(chan struct{}, 9), make(chan struct{})
	p.onRelease(func(context.Context, string) { cleaning <- struct{}{}; <-clean })
	p.join(s)
	// A lock that it was granted: one that it has never heard of has nothing to clean
	// up.
	harness.Eventually(t, func() bool { return len(p.locks()) == 1 && len(p.history(p.locks()[0])) == 1 }, "it has no lock")
	own := p.locks()[0]
	held := func(by string, state ...group.LockState) func() bool {
		return func() bool {
			n := 0
			for _, l := range f.state().Locks {
				if len(l.Holders) > 0 && l.Holders[0].Name == by && (len(state) == 0 || l.State == state[0]) {
					n++
				}
			}
			return n == map[string]int{"leaver": 6, "controller": 11}[by]
		}
	}

	// given one that leaves and cleans up, while it is cut off
	require.NoError(t, network.Stall())
	left := p.leaves()
	harness.Receive(t, cleaning, "nothing is cleaned up")

	// when it is given more locks before it can say so
	f.apply(spec(12))
	harness.Eventually(t, held("leaver"), "it is not given more")
	require.NoError(t, network.Pass())

	// then it gives them back untold, while it still cleans up
	harness.Eventually(t, held("controller", group.Locked), "it keeps them")
	close(clean)
	left.Granted()
	for _, lock := range group.NumberedLocks(groupName, 12) {
		if lock != own {
			require.Empty(t, p.history(lock), lock)
		}
	}
}

func TestParticipantAtItsLimitGetsALockOnlyWhenItHasReleasedAnother(t *testing.T) {
	virtually(t, func(t *testing.T, f *fixture) {
		pinned := func(a, b string) group.Spec {
			return spec(0, func(s *group.Spec) {
				s.Limit, s.Locks, s.Pins = 1, []string{"A", "B"}, map[string]string{"A": a, "B": b}
			})
		}
		s := pinned("node1", "node2")
		one, two := f.join(s, "node1"), f.join(s, "node2")
		f.share(1, one, two)

		// given one that cleans up the lock which it has to change for the other's
		proceed := make(chan struct{})
		one.onRelease(func(context.Context, string) { <-proceed })
		f.apply(pinned("node2", "node1"))

		// then it is not given that one, though its holder has released it
		pass(time.Minute)
		require.Len(t, two.history("B"), 2)
		require.Empty(t, one.locks())
		require.Equal(t, 1, f.referee.count())

		// until it has
		close(proceed)
		f.share(1, one, two)
		require.Equal(t, []string{"B"}, one.locks())
		require.Equal(t, []string{"A"}, two.locks())
	})
}

func TestParticipantWhoseNotifyIsBlockedLosesItsLocksBeforeAnotherHasThem(t *testing.T) {
	virtually(t, func(t *testing.T, f *fixture) {
		s := spec(4)

		// given a participant and a lock in one session, and a Notify that does not return once the session is at risk
		one := f.player("node1", f.client(f.from("node1")))
		blocked, proceed := make(chan struct{}, 10), make(chan struct{})
		one.join(s, group.Options{Notify: func(n group.Notice) {
			one.Add(n)
			if _, ok := n.(group.AtRisk); ok {
				blocked <- struct{}{}
				<-proceed
			}
		}})
		mutex, err := classic.NewMutex(one.c.Client, f.Root+"/beside", classic.MutexOptions{})
		require.NoError(t, err)
		beside, err := mutex.Acquire(t.Context())
		require.NoError(t, err)
		two := f.join(s, "node2")
		f.share(2, one, two)

		// when it is cut off
		f.zk.Partition("node1")
		harness.Receive(t, blocked, "it is not at risk")

		// then all that the session held is lost, and the other one has it; the referee sees that no member was too
		// early
		f.share(4, two)
		require.Empty(t, one.locks())
		harness.Receive(t, beside.Lost(), "the lock beside the group is not lost")
		require.Empty(t, harness.All[group.Lost](one.Notices))

		// and it learns of that afterwards, and comes back
		close(proceed)
		f.zk.Heal("node1")
		harness.Await[group.Lost](t, one.Notices)
		f.share(2, one, two)
	})
}

func TestLeaveWaitsUntilTheLastNoticeIsDelivered(t *testing.T) {
	t.Parallel()
	f := share(t)
	one := f.player("node1", f.client())
	told, proceed := make(chan struct{}), make(chan struct{})
	one.join(spec(1), group.Options{Notify: func(n group.Notice) {
		if _, ok := n.(group.Joined); ok {
			close(told)
			<-proceed
		}
	}})
	harness.Receive(t, told, "it is not told that it has joined")

	// given one that has given back all it had, whose Notify has not returned
	leave := harness.Run(t, "the leave", one.m.Leave)
	f.NoEphemerals()
	leave.Cancel()
	require.ErrorIs(t, leave.Err(), context.Canceled)

	close(proceed)
	require.NoError(t, one.m.Leave(t.Context()))
}

func TestContextOfALockEndsWithTheReasonWhenTheLockMoves(t *testing.T) {
	virtually(t, func(t *testing.T, f *fixture) {
		s := spec(2)

		// given a participant whose callbacks work as long as their contexts live
		one := f.player("node1", f.client())
		causes, deadlines := make(chan error, 2), make(chan time.Duration, 2)
		one.locked = func(ctx context.Context, _ group.LockGrant) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
		}
		one.onRelease(func(ctx context.Context, _ string) {
			deadline, _ := ctx.Deadline()
			deadlines <- time.Until(deadline)
		})
		one.join(s)
		f.share(2, one)

		// when another one joins
		two := f.join(s, "node2")
		f.share(1, one, two)

		// then one lock's context has ended, with the reason
		asked, ok := errors.AsType[*group.ReleaseAskedError](<-causes)
		require.True(t, ok)
		require.Equal(t, group.ReleaseMoved, asked.Reason)
		require.Equal(t, []string{asked.Lock}, two.locks())
		require.Greater(t, two.m.Locks()[0].Token, asked.Token)
		require.Equal(t, 10*time.Second, <-deadlines)

		// and the other one's ends when the participant leaves
		one.leave()
		asked, ok = errors.AsType[*group.ReleaseAskedError](<-causes)
		require.True(t, ok)
		require.Equal(t, group.ReleaseLeft, asked.Reason)
		f.share(2, two)
	})
}
