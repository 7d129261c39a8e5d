package classic

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// eachLayout plays a scenario of Kazoo's with its layout, and with Curator's.
func eachLayout(t *testing.T, scenario func(t *testing.T, h *house, o recipes.SemaphoreOptions)) {
	t.Helper()
	for naming, name := range layouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scenario(t, shareHouse(t), recipes.SemaphoreOptions{Naming: naming, Limit: 1})
		})
	}
}

// line waits until so many stand in the line of a semaphore of either layout.
func (h *house) line(o recipes.SemaphoreOptions, n int) []string {
	h.t.Helper()
	if o.Naming == recipes.NamingKazoo {
		return h.crowdOf(h.shell(), desks+"-__lock__", n)
	}
	return h.queued(n)
}

// Kazoo K19
func TestPermitCanBeAcquiredAgainAndAgain(t *testing.T) {
	t.Parallel()
	eachLayout(t, func(t *testing.T, h *house, o recipes.SemaphoreOptions) {
		s := h.semaphore(h.client(), o)
		for range 3 {
			g, err := s.Acquire(t.Context())
			require.NoError(t, err)
			require.NoError(t, g.Check())
			require.NoError(t, g.Release(t.Context()))
			require.ErrorIs(t, g.Check(), recipes.ErrReleased)
		}
		h.nobodyThere()
	})
}

// Kazoo K20
func TestSecondEntersWhenTheFirstHasReleased(t *testing.T) {
	t.Parallel()
	eachLayout(t, func(t *testing.T, h *house, o recipes.SemaphoreOptions) {
		first := h.hold("first", h.semaphore(h.client(), o).Acquire)
		second := h.ask("second", h.semaphore(h.client(), o).Acquire)
		h.line(o, 1)
		second.waits()
		token := first.token()

		first.release()

		require.Greater(t, second.token(), token, "of a semaphore with one permit")
		second.release()
		h.nobodyThere()
	})
}

// Kazoo K21
func TestThirdIsRefusedWhileTwoOfTwoPermitsAreHeld(t *testing.T) {
	t.Parallel()
	eachLayout(t, func(t *testing.T, h *house, o recipes.SemaphoreOptions) {
		o.Limit = 2
		ann, bob, cid := o, o, o
		ann.ID, bob.ID, cid.ID = "ann", "bob", "cid"
		first := h.hold("first", h.semaphore(h.client(), ann).Acquire)
		h.hold("second", h.semaphore(h.client(), bob).Acquire)
		third := h.semaphore(h.client(), cid)

		_, err := third.TryAcquire(t.Context(), 1)
		require.Equal(t, 0, refusedPermits(t, err).Left)
		require.Equal(t, []string{"ann", "bob"}, h.holders(third))

		first.release()
		held, err := third.TryAcquire(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, []string{"bob", "cid"}, h.holders(third))
		require.NoError(t, third.Release(t.Context(), held...))
	})
}

func (h *house) holders(s *recipes.Semaphore) (ids []string) {
	h.t.Helper()
	all, err := s.Permits(h.t.Context())
	require.NoError(h.t, err)
	for _, p := range all {
		ids = append(ids, p.ID)
	}
	return ids
}

// Kazoo K22: there is no permit, and so nothing to release.
func TestTryThatFailedReturnsNothingToRelease(t *testing.T) {
	t.Parallel()
	eachLayout(t, func(t *testing.T, h *house, o recipes.SemaphoreOptions) {
		first := h.hold("first", h.semaphore(h.client(), o).Acquire)
		s := h.semaphore(h.client(), o)
		none, err := s.TryAcquire(t.Context(), 1)
		require.Error(t, err)
		require.NoError(t, s.Release(t.Context(), none...))
		require.NoError(t, first.grant.Check())
		require.Len(t, h.ephemerals(), 1)
	})
}

// Kazoo K23
func TestHoldersAreListedByOneWithoutAName(t *testing.T) {
	t.Parallel()
	eachLayout(t, func(t *testing.T, h *house, o recipes.SemaphoreOptions) {
		named := o
		named.ID = "sémaphore"
		h.hold("first", h.semaphore(h.client(), named).Acquire)
		require.Equal(t, []string{"sémaphore"}, h.holders(h.semaphore(h.client(), o)))
	})
}

// Kazoo K24
func TestWaiterThatIsCancelledLeavesTheHolderAlone(t *testing.T) {
	t.Parallel()
	eachLayout(t, func(t *testing.T, h *house, o recipes.SemaphoreOptions) {
		first := h.hold("first", h.semaphore(h.client(), o).Acquire)
		waiter := h.ask("waiter", h.semaphore(h.client(), o).Acquire)
		h.line(o, 1)
		waiter.cancel()
		require.ErrorIs(t, waiter.refused(), context.Canceled)
		h.line(o, 0)
		require.NoError(t, first.grant.Check())
	})
}

// Kazoo K25: here each call has a permit of its own.
func TestPermitIsReleasedOnce(t *testing.T) {
	t.Parallel()
	eachLayout(t, func(t *testing.T, h *house, o recipes.SemaphoreOptions) {
		o.Limit = 2
		s := h.semaphore(h.client(), o)
		first, second := h.hold("first", s.Acquire), h.hold("second", s.Acquire)
		require.NoError(t, first.grant.Release(t.Context()))
		require.ErrorIs(t, first.grant.Release(t.Context()), recipes.ErrReleased)
		require.NoError(t, second.grant.Check())
		require.Equal(t, 1, h.left(s))
	})
}

// Kazoo K26
func TestWaiterWhoseSessionExpiresQueuesAgainAndGetsThePermit(t *testing.T) {
	t.Parallel()
	eachLayout(t, func(t *testing.T, h *house, o recipes.SemaphoreOptions) {
		first := h.hold("first", h.semaphore(h.client(), o).Acquire)
		told := h.listen("waiter")
		named := o
		named.Notify = told.note
		mine := h.client()
		waiter := h.ask("waiter", h.semaphore(mine, named).Acquire)
		await[recipes.Queued](t, told)
		before := h.line(o, 1)[0]

		h.expire(mine)
		await[recipes.Requeued](t, told)
		require.Eventually(t, func() bool { names := h.line(o, 1); return names[0] != before }, soon, time.Millisecond)
		waiter.waits()
		first.release()

		waiter.granted()
	})
}

// Kazoo K27
func TestClientThatSaysAnotherLimitIsRefused(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	o := recipes.SemaphoreOptions{Naming: recipes.NamingKazoo, Limit: 1}
	first := h.hold("first", h.semaphore(h.client(), o).Acquire)
	data, _, err := h.shell().Get(h.at(desks))
	require.NoError(t, err)
	require.Equal(t, "1", string(data))

	o.Limit = 2
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	_, err = h.semaphore(h.client(), o).Acquire(ctx)
	var bad *recipes.LimitError
	require.ErrorAs(t, err, &bad)
	require.Equal(t, recipes.LimitError{Path: desks, Node: desks, Data: "1", Wanted: 2}, *bad)
	require.NoError(t, first.grant.Check())
	require.Len(t, h.ephemerals(), 1)
}

// Kazoo K28: Kazoo takes it that there is no limit to check. We refuse: nobody
// knows what others go by.
func TestForeignDataInPlaceOfTheLimitIsRefused(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	h.make(h.shell(), desks, []byte("a letter"), 0)
	_, err := h.semaphore(h.client(), recipes.SemaphoreOptions{Naming: recipes.NamingKazoo, Limit: 1}).Acquire(t.Context())
	var bad *recipes.LimitError
	require.ErrorAs(t, err, &bad)
	require.ErrorContains(t, err, "a letter")
	require.Empty(t, h.ephemerals())
}

// Kazoo K29
func TestCancellingIsForgottenByTheNextRequest(t *testing.T) {
	t.Parallel()
	eachLayout(t, func(t *testing.T, h *house, o recipes.SemaphoreOptions) {
		s := h.semaphore(h.client(), o)
		ctx, cancel := context.WithCancel(t.Context())
		g, err := s.Acquire(ctx)
		require.NoError(t, err)
		require.NoError(t, g.Release(t.Context()))
		cancel()
		_, err = s.Acquire(ctx)
		require.ErrorIs(t, err, context.Canceled)

		h.hold("again", s.Acquire)
	})
}

// Kazoo K30
func TestWaitForAPermitEndsAtItsTimeoutAndNotBefore(t *testing.T) {
	t.Parallel()
	eachLayout(t, func(t *testing.T, h *house, o recipes.SemaphoreOptions) {
		h.hold("first", h.semaphore(h.client(), o).Acquire)
		const wait = 300 * time.Millisecond
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		start := time.Now()
		_, err := h.semaphore(h.client(), o).Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.GreaterOrEqual(t, time.Since(start), wait)
		h.line(o, 0)
	})
}
