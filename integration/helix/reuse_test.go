package helix

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A handle is one Guard that is used again and again, and a rival with a client
// of its own.
type handle struct {
	h      *house
	client *recipes.Client
	guard  *lockguard.Guard
	told   *told
	rival  *recipes.Client
}

// acquire asks in the background, and returns what waits for the outcome.
func (x *handle) acquire(ctx context.Context, changes ...change) func() (*lockguard.Hold, error) {
	type outcome struct {
		hold *lockguard.Hold
		err  error
	}
	outcomes := make(chan outcome, 1)
	go func() {
		hold, err := x.guard.Acquire(ctx, requirement(changes...))
		outcomes <- outcome{hold, err}
	}()
	return func() (*lockguard.Hold, error) {
		x.h.t.Helper()
		o := receive(x.h.t, outcomes, "the request has not come to an end")
		return o.hold, o.err
	}
}

// atOnce acquires what is free.
func (x *handle) atOnce(changes ...change) *lockguard.Hold {
	x.h.t.Helper()
	hold, err := x.acquire(x.h.t.Context(), changes...)()
	require.NoError(x.h.t, err)
	return hold
}

// ends waits for the end of a Hold's context, and releases it.
func (x *handle) ends(hold *lockguard.Hold) (cause, release error) {
	x.h.t.Helper()
	receive(x.h.t, hold.Context().Done(), "not interrupted")
	return context.Cause(hold.Context()), hold.Release(x.h.t.Context())
}

// loses waits for a loss, and releases what was lost.
func (x *handle) loses(hold *lockguard.Hold, reason recipes.LossReason) {
	x.h.t.Helper()
	receive(x.h.t, hold.Lost(), "no loss")
	var lost *lockguard.LostError
	require.ErrorAs(x.h.t, hold.Release(x.h.t.Context()), &lost)
	require.Equal(x.h.t, reason, lost.Reason)
}

// outcomes are all ways that a request of the handle may end. Each leaves the
// lock free.
func (x *handle) outcomes() map[string]func() {
	t, ctx := x.h.t, x.h.t.Context()
	rival := func(changes ...change) *user { return x.h.hold(x.rival, "rival", changes...) }
	return map[string]func(){
		"granted at once": func() {
			require.NoError(t, x.atOnce().Release(ctx))
		},
		"alone for a while, then a rival was there": func() {
			for range 8 {
				require.NoError(t, x.atOnce().Release(ctx))
			}
			rival().release()
		},
		"refused": func() {
			r := rival()
			_, err := x.acquire(ctx, try)()
			require.ErrorAs(t, err, new(*recipes.NotAcquiredError))
			r.release()
		},
		"out of time in the queue": func() {
			r := rival()
			_, err := x.acquire(ctx, within(10*time.Millisecond))()
			require.ErrorAs(t, err, new(*recipes.NotAcquiredError))
			r.release()
		},
		"cancelled in the queue": func() {
			r := rival()
			leaving, cancel := context.WithCancel(ctx)
			outcome := x.acquire(leaving)
			await[lockguard.Queued](t, x.told)
			cancel()
			_, err := outcome()
			require.ErrorIs(t, err, context.Canceled)
			r.release()
		},
		"handed over": func() {
			r := rival()
			outcome := x.acquire(ctx)
			await[lockguard.Queued](t, x.told)
			r.release()
			hold, err := outcome()
			require.NoError(t, err)
			require.NoError(t, hold.Release(ctx))
		},
		"out of patience": func() {
			r := rival(cleanup(declared), lease(time.Hour))
			_, err := x.acquire(ctx, at(5), waiting(10*time.Millisecond))()
			require.ErrorAs(t, err, new(*recipes.CleanupPendingError))
			r.release()
		},
		"taken by force": func() {
			r := rival()
			hold := x.atOnce(at(5), forceful, waiting(0))
			r.loses()
			require.NoError(t, hold.Release(ctx))
		},
		"taken at the end of a lease": func() {
			r := rival(at(9), lease(10*time.Millisecond))
			hold := x.atOnce()
			r.loses()
			require.NoError(t, hold.Release(ctx))
		},
		"deleted in the queue": func() {
			r := rival()
			outcome := x.acquire(ctx)
			await[lockguard.Queued](t, x.told)
			x.h.evict(x.h.state().Waiters[0].ID)
			_, err := outcome()
			require.ErrorAs(t, err, new(*recipes.EvictedError))
			r.release()
		},
		"displaced, then granted": func() {
			r := rival(lease(time.Hour), cleanup(declared))
			outcome := x.acquire(ctx, at(1))
			await[lockguard.PreemptSent](t, x.told)
			boss := x.h.ask(x.rival, "boss", at(2))
			await[lockguard.Displaced](t, x.told)
			await[lockguard.PreemptRequested](t, r.told) // one that was not asked to go may not look who came last
			r.release()
			boss.release()
			hold, err := outcome()
			require.NoError(t, err)
			require.NoError(t, hold.Release(ctx))
		},
		"preempted": func() {
			hold := x.atOnce(lease(time.Hour), cleanup(declared))
			r := x.h.ask(x.rival, "rival", at(5))
			cause, err := x.ends(hold)
			require.ErrorAs(t, cause, new(*lockguard.PreemptedError))
			require.NoError(t, err)
			r.release()
		},
		"preempted, then asked no more": func() {
			hold := x.atOnce(lease(time.Hour), cleanup(declared))
			r := x.h.ask(x.rival, "rival", at(5))
			await[lockguard.PreemptRequested](t, x.told)
			r.cancel(context.Canceled)
			require.ErrorIs(t, r.refused(), context.Canceled)
			await[lockguard.PreemptionWithdrawn](t, x.told)
			cause, err := x.ends(hold)
			require.ErrorAs(t, cause, new(*lockguard.PreemptedError))
			require.NoError(t, err)
		},
		"lost by force": func() {
			hold := x.atOnce()
			r := rival(at(5), forceful, waiting(0))
			x.loses(hold, recipes.LossTaken)
			r.release()
		},
		"lost at the end of its lease": func() {
			hold := x.atOnce(at(9), lease(10*time.Millisecond))
			r := rival()
			x.loses(hold, recipes.LossTaken)
			r.release()
		},
		"lost by an administrator": func() {
			hold := x.atOnce()
			x.h.evictHolder()
			x.loses(hold, recipes.LossDeleted)
		},
		"lost with its session": func() {
			hold := x.atOnce()
			x.h.expire(x.client)
			x.loses(hold, recipes.LossSession)
		},
		"shut down": func() {
			leaving, cancel := context.WithCancel(ctx)
			hold, err := x.acquire(leaving)()
			require.NoError(t, err)
			cancel()
			cause, err := x.ends(hold)
			require.ErrorAs(t, cause, new(*lockguard.ShutdownError))
			require.NoError(t, err)
		},
		"work fails": func() {
			broken := errors.New("broken")
			err := x.guard.Do(ctx, requirement(), func(context.Context) error { return broken })
			require.ErrorIs(t, err, broken)
		},
		"work panics": func() {
			err := x.guard.Do(ctx, requirement(), func(context.Context) error { panic("broken") })
			require.ErrorAs(t, err, new(*lockguard.PanicError))
		},
		"a hook fails": func() {
			broken := errors.New("broken")
			running := make(chan struct{})
			ended := make(chan error, 1)
			go func() {
				ended <- x.guard.Do(ctx, requirement(lease(time.Hour), cleanup(declared)), func(ctx context.Context) error {
					close(running)
					<-ctx.Done()
					return nil
				}, func(context.Context) error { return broken })
			}()
			receive(t, running, "the work does not run")
			r := rival(at(5))
			require.ErrorIs(t, receive(t, ended, "the work has not ended"), broken)
			r.release()
		},
	}
}

// Helix 49
func TestHandleThatServedAHundredTimesIsAsGoodAsNew(t *testing.T) {
	t.Parallel()
	const times = 100
	h := newHouse(t)

	// given one handle
	c := h.client(session(mortal))
	guard, events := h.guard(c, "handle")
	x := &handle{h: h, client: c, guard: guard, told: events, rival: h.client()}
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
		h.story.tell("test", "%d: %s", i, how)
		events.forget()
		outcomes[how]()
		h.empties()
		told := fmt.Sprintf("%d: after %q", i, how)
		requireWholeLives(t, events, told)

		// then the next one does what the first one does
		before := len(events.names())
		hold, err := guard.Acquire(t.Context(), requirement(try))
		require.NoError(t, err, told)
		require.NoError(t, hold.Context().Err(), told)
		require.Greater(t, hold.Token(), last, told)
		last = hold.Token()
		require.Equal(t, "handle", h.holder(), told)
		require.NoError(t, hold.Release(t.Context()), told)
		require.Equal(t, []string{"Waiting", "Acquired", "Released"}, events.names()[before:], told)
	}
}

// requireWholeLives checks that each request began once and ended once.
func requireWholeLives(t testing.TB, n *told, when string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	lives := map[string][]string{}
	for _, e := range n.events {
		id := e.About().ID
		lives[id] = append(lives[id], name(e))
	}
	ends := map[string]bool{"NotAcquired": true, "Released": true, "Lost": true}
	for _, life := range lives {
		require.Equal(t, "Waiting", life[0], "%s: %v", when, life)
		count := 0
		for i, step := range life {
			if step == "Waiting" {
				require.Zero(t, i, "%s: %v", when, life)
			}
			if ends[step] {
				count++
			}
		}
		require.Equal(t, 1, count, "%s: %v", when, life)
	}
}
