package interleavings

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// N9: a server that accepts connections and says nothing, from the first one on or from now on.
func TestAcquireReturnsAtItsDeadlineThoughTheServerIsMute(t *testing.T) {
	const deadline = 700 * time.Millisecond
	const leaving = 500 * time.Millisecond // how long it tries to take back what it has asked for
	each(t, map[string]func(w *world) (speaks func()){
		"on the next connection": func(w *world) func() {
			rule := w.On(zktest.Op(zktest.Connect).From("A")).Hold()
			w.disconnect("A")
			return rule.Release
		},
		"once it is connected": func(w *world) func() {
			w.Partition("A")
			return func() { w.Heal("A") }
		},
		"after the request has gone out": func(w *world) func() { return w.On(T1(users).From("A")).HoldReply().Release },
	}, func(w *world, mute func(w *world) (speaks func())) {
		c := w.client("A")
		lock := w.fixture.Lock(c.Client, users)
		speaks := mute(w)

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
