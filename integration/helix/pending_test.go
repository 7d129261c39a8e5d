package helix

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Helix 33: refused when it does not want to wait; otherwise it queues behind.
func TestPendingRequestKeepsItsPlaceBeforeALowerOne(t *testing.T) {
	t.Parallel()
	newcomerStaysBehind(t, 5)
}

// Helix 34: the same for an equal.
func TestPendingRequestKeepsItsPlaceBeforeAnEqualOne(t *testing.T) {
	t.Parallel()
	newcomerStaysBehind(t, 9)
}

func newcomerStaysBehind(t *testing.T, level priority.Level) {
	t.Helper()
	for how, force := range map[string][]change{
		"polite":            {at(level)},
		"forceful":          {at(level), forceful},
		"forceful, at once": {at(level), forceful, waiting(0)},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)

			// given that A of priority 1 holds, and H of priority 9 waits for it to clean up
			a := h.hold(h.client(), "A", at(1), lease(time.Hour), cleanup(declared))
			pending := h.ask(h.client(), "H", at(9))
			await[lockguard.PreemptSent](t, pending.told)
			await[lockguard.PreemptRequested](t, a.told)

			c := h.client()
			h.unchanged(func() {
				// when M tries, then it is refused, and nothing has changed
				var busy *recipes.NotAcquiredError
				require.ErrorAs(t, h.ask(c, "M", append(force, try)...).refused(), &busy)
				require.Equal(t, []string{"A"}, owners(busy.Holders))
				require.Equal(t, 1, busy.Ahead)
			})

			// when M asks and waits, then it stands behind H
			m := h.ask(c, "M", force...)
			require.Equal(t, 2, await[lockguard.Queued](t, m.told).Position)
			require.Equal(t, []string{"H", "M"}, h.waiters())

			// and it is still H alone that asks A to go
			asking := h.state().Holders[0].PreemptedBy
			require.Len(t, asking, 1)
			require.Equal(t, "H", asking[0].Owner)
			require.Zero(t, count[lockguard.Displaced](pending.told))
			require.Zero(t, count[lockguard.PreemptSent](m.told))

			// and H that is granted
			a.release()
			pending.holds()
			require.Equal(t, "H", h.holder())
			m.waits()
		})
	}
}

// Helix 35
func TestVoluntaryReleaseGrantsTheWaitingOneAtOnce(t *testing.T) {
	t.Parallel()
	for how, request := range map[string][]change{
		"equal":              {at(1)},
		"equal and forceful": {at(1), forceful, waiting(0)},
		"polite":             {at(5), waiting(declared)},
		"forceful":           {at(5), forceful},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)

			// given that A holds, and B waits, for A's cleanup if it is more important
			a := h.hold(h.client(), "A", at(1), cleanup(declared))
			b := h.ask(h.client(), "B", request...)
			await[lockguard.Queued](t, b.told)
			asked := requirement(request...).Priority > 1
			if asked {
				await[lockguard.PreemptRequested](t, a.told)
			}
			b.waits()

			// when A releases, for reasons of its own
			a.release()

			// then B is granted; if it has asked, by the release itself: there is no moment at which nobody holds
			if asked {
				require.Equal(t, "B", h.holder())
			}
			b.holds()
			require.Equal(t, "B", h.holder())
			require.Greater(t, b.token(), a.token())
			require.Zero(t, count[lockguard.TakenOver](b.told))
		})
	}
}

// Helix 36
func TestRenewalDoesNotShakeOffTheOneThatWaits(t *testing.T) {
	t.Parallel()
	for how, hold := range map[string]func(*house) (renew func() error, release func()){
		"under a guard": func(h *house) (func() error, func()) {
			a := h.hold(h.client(), "A", cleanup(declared))
			return func() error { return a.hold.Extend(h.t.Context(), time.Hour) }, a.release
		},
		// A holder without a guard in front, that has not listened.
		"by the bare lock": func(h *house) (func() error, func()) {
			l, err := h.client().PriorityLock(scope)
			require.NoError(h.t, err)
			a, err := l.Acquire(h.t.Context(), recipes.Request{Owner: "A", CleanupTimeout: declared})
			require.NoError(h.t, err)
			return func() error { return a.Extend(h.t.Context(), time.Hour) },
				func() { require.NoError(h.t, a.Release(h.t.Context())) }
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)

			// given that B waits for A to clean up
			renew, release := hold(h)
			b := h.ask(h.client(), "B", at(5))
			await[lockguard.PreemptSent](t, b.told)

			// when A renews its lease
			h.unchanged(func() {
				err := renew()

				// then it is told that it has to go, and for whom
				if preempted, ok := errors.AsType[*lockguard.PreemptedError](err); ok {
					require.Equal(t, "B", preempted.By)
					return
				}
				var pending *recipes.PreemptPendingError
				require.ErrorAs(t, err, &pending)
				require.Equal(t, "B", pending.By.By.Owner)
			})

			// and B still waits, and A is still asked
			b.waits()
			asking := h.state().Holders[0].PreemptedBy
			require.Len(t, asking, 1)
			require.Equal(t, "B", asking[0].Owner)
			release()
			b.holds()
		})
	}
}

// A poller tries again and again, as fast as it can, until it is stopped.
type poller struct {
	tries atomic.Int64
	got   atomic.Int64
	stop  func()
}

func (h *house) poll(c *recipes.Client, changes ...change) *poller {
	h.t.Helper()
	p := &poller{}
	guard, err := lockguard.New(c, lockguard.WithOwner("poller"))
	require.NoError(h.t, err)
	stop := make(chan struct{})
	var loop sync.WaitGroup
	loop.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			hold, err := guard.Acquire(context.Background(), requirement(append(changes, try)...))
			switch {
			case err == nil:
				p.got.Add(1)
				_ = hold.Release(context.Background())
			case !recipes.IsNotAcquired(err):
				h.t.Error(err)
				return
			}
			p.tries.Add(1)
		}
	})
	p.stop = sync.OnceFunc(func() { close(stop); loop.Wait() })
	h.t.Cleanup(p.stop)
	return p
}

// more waits until the poller has tried that many times more.
func (p *poller) more(h *house, n int64) {
	h.t.Helper()
	from := p.tries.Load()
	h.eventually("the poller does not try", func() bool { return p.tries.Load() >= from+n })
}

// Helix 37
func TestPollerDoesNotGetInBetweenTheCleanupAndTheGrant(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ca, cb, cp := h.client(), h.client(), h.client()
	for round := range 15 {
		// given that A cleans up because B waits, and that somebody of priority 0 polls
		chore := newChore(t)
		a := h.work(ca, fmt.Sprint("A ", round), []lockguard.Hook{chore.hook}, at(1), lease(time.Hour), cleanup(declared))
		b := h.ask(cb, fmt.Sprint("B ", round), at(5))
		chore.begins(t)
		p := h.poll(cp)
		p.more(h, 2)

		// when the cleanup ends
		chore.end()

		// then B holds
		b.holds()
		p.more(h, 2)
		require.Equal(t, b.owner, h.holder())

		// and the poller never did
		p.stop()
		require.Zero(t, p.got.Load())
		require.ErrorAs(t, a.ended(), new(*lockguard.PreemptedError))
		b.release()
	}
}

// Helix 38
func TestLockWhoseLeaseRanOutGoesToTheOneThatWaits(t *testing.T) {
	t.Parallel()
	h := newHouse(t)

	// given that A holds, B of priority 5 waits, and C of priority 0 behind it
	a := h.hold(h.client(), "A", at(9), lease(time.Hour))
	b := h.ask(h.client(), "B", at(5))
	require.Equal(t, 1, await[lockguard.Queued](t, b.told).Position)
	c := h.ask(h.client(), "C", forceful, waiting(0))
	require.Equal(t, 2, await[lockguard.Queued](t, c.told).Position)

	// when A's lease runs out while somebody of priority 0 polls
	p := h.poll(h.client())
	p.more(h, 1)
	require.NoError(t, a.hold.Extend(t.Context(), 100*time.Millisecond))

	// then B gets the lock, and neither the poller nor C
	b.holds()
	p.more(h, 2)
	p.stop()
	require.Zero(t, p.got.Load())
	require.Equal(t, "B", h.holder())
	require.Equal(t, []string{"C"}, h.waiters())
	require.Zero(t, count[lockguard.PreemptSent](c.told))
	c.waits()

	// and A knows why
	requireLeaseOver(t, a.interrupted())
	require.Greater(t, b.token(), a.token())
}
