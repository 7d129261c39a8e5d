package classic

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

func (h *house) semaphoreMutex(c *recipes.Client) *recipes.SemaphoreMutex {
	h.t.Helper()
	x, err := c.SemaphoreMutex(desks, "")
	require.NoError(h.t, err)
	return x
}

// Curator SM1
func TestSemaphoreMutexMayBeReleasedByAnotherThread(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	first := h.hold("first", h.semaphoreMutex(h.client()).Acquire)
	second := h.ask("second", h.semaphoreMutex(h.client()).Acquire)
	h.queued(1)

	require.NoError(t, h.begin(first.grant.Release).ended())

	second.granted()
}

// Curator SM2
func TestTimeoutOfAWaiterLeavesTheSemaphoreMutexHeld(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	x := h.semaphoreMutex(h.client())
	first := h.hold("first", x.Acquire)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()

	_, err := x.Acquire(ctx)

	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, first.grant.Check())
	require.Equal(t, []string{first.grant.Path()}, h.ephemerals())
	_, err = x.TryAcquire(t.Context())
	refusedPermits(t, err)
}

// Curator M1, with a semaphore mutex
func TestSemaphoreMutexIsHeldInsideAndNotAfter(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	x := h.semaphoreMutex(h.client())
	g, err := x.TryAcquire(t.Context())
	require.NoError(t, err)
	ctx := g.Context(t.Context())
	require.NoError(t, g.Check())
	require.NoError(t, ctx.Err())
	require.NoError(t, g.Release(t.Context()))
	require.ErrorIs(t, g.Check(), recipes.ErrReleased)
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), recipes.ErrReleased)
}

// Curator M2, with a semaphore mutex
func TestUsersOfASemaphoreMutexFinishInTurnAfterARestart(t *testing.T) {
	t.Parallel()
	h := ownHouse(t)
	c := h.client(timeout(40 * time.Second))
	first := h.hold("first", h.semaphoreMutex(c).Acquire)
	second := h.ask("second", h.semaphoreMutex(c).Acquire)
	h.queued(1)

	require.NoError(t, h.server.Stop())
	require.NoError(t, h.server.Restart(t.Context()))

	first.release()
	second.release()
	h.nobodyThere()
}

// Curator M3, with a semaphore mutex
func TestWaiterForASemaphoreMutexAcquiresInTheNextSession(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client()
	first := h.hold("first", h.semaphoreMutex(c).Acquire)
	second := h.ask("second", h.semaphoreMutex(c).Acquire)
	h.queued(1)

	h.expire(c)

	require.Equal(t, recipes.LossSession, first.lost().Reason)
	second.release()
	h.nobodyThere()
}

// Curator M4, with a semaphore mutex
func TestDirectoriesOfASemaphoreMutexDisappearWhenNobodyUsesThem(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	var crowd []*call
	for range 10 {
		x := h.semaphoreMutex(h.client())
		crowd = append(crowd, h.begin(func(ctx context.Context) error {
			g, err := x.Acquire(ctx)
			if err != nil {
				return err
			}
			return g.Release(ctx)
		}))
	}
	for _, c := range crowd {
		require.NoError(t, c.ended())
	}
	h.gone(h.shell(), desks)
}

// Curator M5, with a semaphore mutex: of two chroots they are two.
func TestSemaphoreMutexesBelowDifferentChrootsAreStrangers(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	deeper := h.client(func(cfg *recipes.Config) { cfg.Chroot += "/deeper" })
	h.hold("first", h.semaphoreMutex(h.client()).Acquire)
	second := h.hold("second", h.semaphoreMutex(deeper).Acquire)
	require.True(t, h.exists(h.shell(), "/deeper"+second.grant.Path()))
	require.Len(t, h.ephemerals(), 2)
}

// Curator M6, with a semaphore mutex
func TestThreadsOfOneSemaphoreMutexAreNeverInsideTogether(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	x := h.semaphoreMutex(h.client())
	var desk room
	var crowd []*call
	for i := range 10 {
		crowd = append(crowd, h.begin(func(ctx context.Context) error {
			for range 2 {
				g, err := x.Acquire(ctx)
				if err != nil {
					return err
				}
				desk.enter(fmt.Sprint(i))
				desk.leave(fmt.Sprint(i))
				if err := g.Release(ctx); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for _, c := range crowd {
		require.NoError(t, c.ended())
	}
	desk.wasOrderly(t, 20)
}

// Curator M9, with a semaphore mutex
func TestOneOfTwoClientsHoldsASemaphoreMutexAllTheTime(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	first := h.hold("first", h.semaphoreMutex(h.client()).Acquire)
	second := h.ask("second", h.semaphoreMutex(h.client()).Acquire)
	h.queued(1)
	require.NoError(t, first.grant.Check())
	second.waits()
	token := first.token()
	first.release()
	require.Greater(t, second.token(), token)
}
