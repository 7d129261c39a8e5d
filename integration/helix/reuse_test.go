package helix

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// handle is one Guard that is used again and again, and a rival with a client of its own.
type handle struct {
	*fixture
	events
	client, other *lock.Client
	guard         *lockguard.Guard
}

// acquire asks in the background, and returns when the request has ended, or waits in the queue.
func (x *handle) acquire(ctx context.Context, changes ...change) *harness.Call[*lockguard.Hold] {
	x.Helper()
	before := len(x.names())
	call := harness.Go(x, "the request", func() (*lockguard.Hold, error) { return x.guard.Acquire(ctx, requirement(changes...)) })
	harness.Eventually(x, func() bool {
		select {
		case <-call.Done():
			return true
		default:
			return slices.Contains(x.names()[before:], "Queued")
		}
	}, "the request has ended, or is in the queue")
	return call
}

func (x *handle) rival(changes ...change) *user { return x.hold(x.other, "rival", changes...) }

// outcomes are the ways in which a request of the handle may end. Each leaves the lock free.
func (x *handle) outcomes() map[string]func() {
	ctx := x.Context()
	refused := func(as any, changes ...change) {
		r := x.rival(cleanup(declared), lease(time.Hour))
		require.ErrorAs(x, x.acquire(ctx, changes...).Refused(), as)
		r.release()
	}
	// loses has a hold that ends as what happens says.
	loses := func(reason lock.LossReason, happens func(*lockguard.Hold), changes ...change) {
		hold := x.acquire(ctx, changes...).Granted()
		happens(hold)
		harness.Receive(x, hold.Lost(), "no loss")
		var lost *lockguard.LostError
		require.ErrorAs(x, hold.Release(ctx), &lost)
		require.Equal(x, reason, lost.Reason)
	}
	return map[string]func(){
		"granted at once": func() { require.NoError(x, x.acquire(ctx).Granted().Release(ctx)) },
		"refused":         func() { refused(new(*lock.NotAcquiredError), try) },
		"out of time":     func() { refused(new(*lock.NotAcquiredError), within(10*time.Millisecond)) },
		"out of patience": func() { refused(new(*lock.CleanupPendingError), at(5), waiting(10*time.Millisecond)) },
		"cancelled in the queue": func() {
			r := x.rival()
			leaving, cancel := context.WithCancel(ctx)
			call := x.acquire(leaving)
			cancel()
			require.ErrorIs(x, call.Refused(), context.Canceled)
			r.release()
		},
		"deleted in the queue": func() {
			r := x.rival()
			call := x.acquire(ctx)
			x.Delete(x.NodeOf(x.state().Waiters[0].ID))
			require.ErrorAs(x, call.Refused(), new(*lock.EvictedError))
			r.release()
		},
		"handed over": func() {
			r := x.rival()
			call := x.acquire(ctx)
			r.release()
			require.NoError(x, call.Granted().Release(ctx))
		},
		"taken by force": func() {
			r := x.rival()
			call := x.acquire(ctx, at(5), forceful, waiting(0))
			r.loses()
			require.NoError(x, call.Granted().Release(ctx))
		},
		"preempted": func() {
			hold := x.acquire(ctx, lease(time.Hour), cleanup(declared)).Granted()
			r := x.ask(x.other, "rival", at(5))
			harness.Receive(x, hold.Context().Done(), "not interrupted")
			require.ErrorAs(x, context.Cause(hold.Context()), new(*lockguard.PreemptedError))
			require.NoError(x, hold.Release(ctx))
			r.release()
		},
		"lost by force": func() {
			loses(lock.LossTaken, func(*lockguard.Hold) { x.rival(at(5), forceful, waiting(0)).release() })
		},
		"lost by an administrator": func() {
			loses(lock.LossDeleted, func(*lockguard.Hold) { x.Delete(x.NodeOf(x.state().Holders[0].ID)) })
		},
		"lost with its session": func() { loses(lock.LossSession, func(*lockguard.Hold) { x.Expire(x.client) }) },
		"shut down": func() {
			leaving, cancel := context.WithCancel(ctx)
			hold := x.acquire(leaving).Granted()
			cancel()
			harness.Receive(x, hold.Context().Done(), "not interrupted")
			require.ErrorAs(x, context.Cause(hold.Context()), new(*lockguard.ShutdownError))
			require.NoError(x, hold.Release(ctx))
		},
		"work panics": func() {
			err := x.guard.Do(ctx, requirement(), func(context.Context) error { panic("broken") })
			require.ErrorAs(x, err, new(*lockguard.PanicError))
		},
	}
}

// Helix 49
func TestHandleThatServedAHundredTimesIsAsGoodAsNew(t *testing.T) {
	const times = 100
	h := newFixture(t)

	// given one handle
	c := h.Client()
	guard, told := h.guard(c, "handle")
	x := &handle{fixture: h, events: told, client: c, guard: guard, other: h.Client()}
	outcomes := x.outcomes()
	var order []string
	for len(order) < times {
		order = append(order, slices.Sorted(maps.Keys(outcomes))...)
	}
	dice := rand.New(rand.NewPCG(times, 49))
	dice.Shuffle(times, func(i, j int) { order[i], order[j] = order[j], order[i] })
	last := lockguard.Token(0)
	for i, how := range order[:times] {
		// when a request of it ends in any way
		h.History.Add("test", "%d: %s", i, how)
		outcomes[how]()
		h.NoEphemerals()

		// then the next one does what the first one does
		before := len(told.names())
		hold, err := guard.Acquire(t.Context(), requirement(try))
		require.NoError(t, err, how)
		require.NoError(t, hold.Context().Err(), how)
		require.Greater(t, hold.Token(), last, how)
		last = hold.Token()
		require.Equal(t, "handle", h.holder(), how)
		require.NoError(t, hold.Release(t.Context()), how)
		require.Equal(t, []string{"Waiting", "Acquired", "Released"}, told.names()[before:], how)
	}

	// and each request has begun once, and ended once
	begun, ended := map[string]int{}, map[string]int{}
	for _, e := range told.List() {
		switch e.Notice.(type) {
		case lockguard.Waiting:
			begun[e.ID]++
		case lockguard.NotAcquired, lockguard.Released, lockguard.Lost:
			ended[e.ID]++
		}
	}
	require.Equal(t, begun, ended)
	for id, n := range begun {
		require.Equal(t, 1, n, "request %s", id)
	}
}
