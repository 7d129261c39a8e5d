package multi

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// An album has the events of each scope, in order.
type album struct {
	mu     sync.Mutex
	events []lockguard.Event
}

func (a *album) observe(_ context.Context, e lockguard.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, e)
}

// released are the scopes in the order of their Released events.
func (a *album) released() (scopes []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.events {
		if e, ok := e.(lockguard.Released); ok {
			scopes = append(scopes, e.Scope)
		}
	}
	return scopes
}

func (h *house) guard(c *recipes.Client, owner string, options ...lockguard.Option) *lockguard.Guard {
	h.t.Helper()
	g, err := lockguard.New(c, append(options, lockguard.WithOwner(owner))...)
	require.NoError(h.t, err)
	return g
}

// three are locks with a cleanup timeout, given out of order.
func three() []lockguard.Requirement {
	return []lockguard.Requirement{
		{Scope: "b", CleanupTimeout: soon}, {Scope: "c", CleanupTimeout: soon}, {Scope: "a", CleanupTimeout: soon},
	}
}

func TestPreemptionOfAnyLockRunsTheHooksUnderAllThenReleasesInReverseOrder(t *testing.T) {
	t.Parallel()
	for _, victim := range []string{"a", "b", "c"} {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			var seen album
			guard := h.guard(h.client(), "low", lockguard.WithObserver(seen.observe))
			boss := h.client()
			var (
				nodes map[string]string
				cause error
				next  *recipes.Grant
				wg    errgroup.Group
			)

			// given work under three locks, with a hook
			err := guard.DoAll(t.Context(), three(), func(ctx context.Context) error {
				nodes = h.nodes("a", "b", "c")

				// when somebody more important asks for one of them
				wg.Go(func() (err error) {
					lock, err := boss.PriorityLock(victim)
					if err == nil {
						next, err = lock.Acquire(t.Context(), at(9, "boss"))
					}
					return err
				})
				<-ctx.Done()
				cause = context.Cause(ctx)
				return ctx.Err()
			}, func(ctx context.Context) error {
				// then the hook runs under all of them
				require.NoError(t, ctx.Err())
				for _, scope := range []string{"a", "b", "c"} {
					require.Equal(t, []string{"low"}, h.owners(boss, scope))
				}
				return nil
			})

			// and the cause is that one's, and all are released, the last one first
			require.NoError(t, wg.Wait())
			_, ok := errors.AsType[*lockguard.PreemptedError](cause)
			require.True(t, ok, "%v", cause)
			preempted, ok := errors.AsType[*lockguard.PreemptedError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, victim, preempted.Scope)
			require.Equal(t, "boss", preempted.By)
			require.Equal(t, []string{"c", "b", "a"}, h.departures(nodes), "in ZooKeeper")
			require.Equal(t, []string{"c", "b", "a"}, seen.released())
			require.Equal(t, []string{victim}, h.scopes())
			require.NoError(t, next.Release(t.Context()))
		})
	}
}

func TestEndOfTheSessionEndsWorkUnderAllLocks(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client()
	err := h.guard(c, "work").DoAll(t.Context(), three(), func(ctx context.Context) error {
		hold, _ := lockguard.FromContext(ctx)
		h.expire(c)
		<-ctx.Done()
		<-hold.Lost()
		return context.Cause(ctx)
	}, func(ctx context.Context) error {
		require.ErrorAs(t, context.Cause(ctx), new(*lockguard.LostError), "hooks are told")
		return nil
	})
	lost, ok := errors.AsType[*lockguard.LostError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, recipes.LossSession, lost.Reason)
	h.nobodyThere()
}

// Curator M7
func TestNestedHoldsOfSeveralLocksKeepThemUntilTheLastIsReleased(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	guard := h.guard(h.client(), "nested")
	outer, err := guard.AcquireAll(t.Context(), three())
	require.NoError(t, err)
	middle, err := guard.AcquireAll(outer.Context(), three())
	require.NoError(t, err)
	inner, err := guard.Acquire(middle.Context(), lockguard.Requirement{Scope: "a"})
	require.NoError(t, err)
	require.Equal(t, outer.Tokens(), middle.Tokens())
	require.Equal(t, outer.Tokens()["a"], inner.Token())

	for _, hold := range []*lockguard.Hold{inner, middle} {
		require.Equal(t, []string{"a", "b", "c"}, h.scopes())
		require.NoError(t, hold.Release(t.Context()))
		require.NoError(t, outer.Check())
	}
	require.Equal(t, []string{"a", "b", "c"}, h.scopes())
	require.NoError(t, outer.Release(t.Context()))
	require.Empty(t, h.contenders())
	require.ErrorIs(t, outer.Release(t.Context()), lockguard.ErrReleased)
}

// Curator M8
func TestStrangerStaysOutOfNestedHoldsOfSeveralLocks(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	guard := h.guard(h.client(), "nested")
	outer, err := guard.AcquireAll(t.Context(), three())
	require.NoError(t, err)
	inner, err := guard.AcquireAll(outer.Context(), three())
	require.NoError(t, err)

	for _, hold := range []*lockguard.Hold{inner, outer} {
		// when another thread of the same guard wants some of them
		all := three()[1:]
		all[0].AcquireTimeout = new(200 * time.Millisecond)
		_, err := guard.AcquireAll(t.Context(), all)

		// then it does not get in
		require.True(t, recipes.IsNotAcquired(err), "%v", err)
		require.NoError(t, hold.Release(t.Context()))
	}
	again, err := guard.AcquireAll(t.Context(), three())
	require.NoError(t, err)
	require.NoError(t, again.Release(t.Context()))
}

// A wait that has to give up what it has does so at once, and comes back.
func TestGuardThatHasToGiveUpAnEarlierLockBeginsAnew(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	onlooker := h.client()
	blocker := h.hold(h.client(), "c", at(9, "blocker"))
	done := make(chan error, 1)
	guard := h.guard(h.client(), "low")
	go func() {
		done <- guard.DoAll(context.WithoutCancel(t.Context()), three(), func(ctx context.Context) error {
			hold, _ := lockguard.FromContext(ctx)
			return hold.Check()
		})
	}()
	h.queued(onlooker, "c")
	boss := h.hold(h.client(), "a", at(5, "boss"))
	h.queued(onlooker, "a")
	require.Equal(t, []string{"a", "a", "c"}, h.scopes(), "neither b nor a place at c is kept")
	require.NoError(t, boss.Release(t.Context()))
	require.NoError(t, blocker.Release(t.Context()))
	require.NoError(t, <-done)
	h.nobodyThere()
}

// Guards with opposite orders, nested uses and tries among them.
func TestGuardsInOppositeOrderNeverWaitForEachOther(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	const turns = 60
	var a, b room
	work := func(ctx context.Context) error {
		hold, _ := lockguard.FromContext(ctx)
		tokens := hold.Tokens()
		a.enter(tokens["a"])
		b.enter(tokens["b"])
		a.leave()
		b.leave()
		return hold.Check()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	var all errgroup.Group
	for _, scopes := range [][2]string{{"a", "b"}, {"b", "a"}, {"b", "a"}} {
		guard := h.guard(h.client(), scopes[0])
		all.Go(func() error {
			for range turns {
				if err := guard.DoAll(ctx, []lockguard.Requirement{{Scope: scopes[0]}, {Scope: scopes[1]}}, work); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, all.Wait())
	a.wasOrderly(t, 3*turns)
	b.wasOrderly(t, 3*turns)
	h.nobodyThere()
}

func TestRetriedTriesGetTheLockWhenItIsFree(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	blocker := h.hold(h.client(), "b", at(0, "blocker"))
	guard, err := h.guard(h.client(), "patient").Retrying(lockguard.Retry{Pause: 20 * time.Millisecond, MaxPause: 100 * time.Millisecond})
	require.NoError(t, err)
	time.AfterFunc(300*time.Millisecond, func() { _ = blocker.Release(context.WithoutCancel(t.Context())) })
	all := three()
	all[0].AcquireTimeout = new(time.Duration(0))
	ran := 0
	require.NoError(t, guard.DoAll(t.Context(), all, func(context.Context) error { ran++; return nil }))
	require.Equal(t, 1, ran)

	blocker = h.hold(h.client(), "b", at(0, "blocker"))
	guard, err = guard.Retrying(lockguard.Retry{Attempts: 3, Pause: time.Millisecond})
	require.NoError(t, err)
	_, err = guard.AcquireAll(t.Context(), all)
	gaveUp, ok := errors.AsType[*lockguard.RetryError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, 3, gaveUp.Attempts)
	require.True(t, recipes.IsNotAcquired(err))
	require.NoError(t, blocker.Release(t.Context()))
	h.nobodyThere()
}
