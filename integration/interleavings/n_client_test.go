package interleavings

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// N9: a server that accepts connections and says nothing, from the first one on or from now on.
func TestAcquireReturnsAtItsDeadlineThoughTheServerIsMute(t *testing.T) {
	const deadline = 700 * time.Millisecond
	const leaving = 500 * time.Millisecond // how long it tries to take back what it has asked for
	each(t, map[string]func(w *world) (c *recipes.Client, speaks func()){
		"from the first connection on": func(w *world) (*recipes.Client, func()) {
			rule := w.On(zktest.Op(zktest.Connect).From("A")).Hold()
			return harness.NewClient(w, recipes.Config{Dialer: w.Dialer("A")}), rule.Release
		},
		"on the next connection": func(w *world) (*recipes.Client, func()) {
			c := w.client("A")
			rule := w.On(zktest.Op(zktest.Connect).From("A")).Hold()
			w.disconnect("A")
			return c.Client, rule.Release
		},
		"once it is connected": func(w *world) (*recipes.Client, func()) {
			c := w.client("A")
			w.Partition("A")
			return c.Client, func() { w.Heal("A") }
		},
		"after the request has gone out": func(w *world) (*recipes.Client, func()) {
			return w.client("A").Client, w.On(T1(users).From("A")).HoldReply().Release
		},
		"after it has joined the queue": func(w *world) (*recipes.Client, func()) {
			w.hold("H")
			return w.client("A").Client, w.On(T2(users).From("A")).HoldReply().Release
		},
	}, func(w *world, mute func(w *world) (c *recipes.Client, speaks func())) {
		c, speaks := mute(w)
		lock := w.fixture.Lock(c, users)

		// when somebody acquires with a deadline, then it ends there, with a moment to leave, and says why
		start := w.Now()
		ctx, cancel := context.WithTimeout(w.Context(), deadline)
		defer cancel()
		_, err := lock.Acquire(ctx, recipes.Request{})
		require.ErrorIs(w, err, context.DeadlineExceeded)
		require.GreaterOrEqual(w, w.Now()-start, deadline)
		require.LessOrEqual(w, w.Now()-start, deadline+leaving)

		// and by its acquire timeout, too
		start = w.Now()
		_, err = lock.Acquire(w.Context(), recipes.Request{AcquireTimeout: new(deadline)})
		require.True(w, recipes.IsNotAcquired(err))
		require.ErrorAs(w, err, new(*recipes.UnavailableError))
		require.GreaterOrEqual(w, w.Now()-start, deadline)
		require.LessOrEqual(w, w.Now()-start, deadline+leaving)

		// and nothing of it is left once the server speaks again
		speaks()
		require.NoError(w, c.Ready(w.Context()))
	})
}
