package interleavings

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A client is one process: a session of its own, and connections that rules and
// partitions know by its name.
type client struct {
	*recipes.Client
	w    *world
	name string
}

// client returns the client of a name, and connects it when it is new. A
// session lasts 10s unless change says otherwise.
func (w *world) client(name string, change ...func(*recipes.Config)) *client {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.clients[name]; c != nil {
		require.Empty(w, change, "%s is connected already", name)
		return c
	}
	cfg := recipes.Config{Dialer: w.Dialer(name), Root: w.root, SessionTimeout: 10 * time.Second}
	for _, f := range change {
		f(&cfg)
	}
	raw, err := recipes.NewClient(cfg)
	require.NoError(w, err)
	c := &client{Client: raw, w: w, name: name}
	w.clients[name] = c
	w.order = append(w.order, c)
	ctx, cancel := context.WithTimeout(w.Context(), soon)
	defer cancel()
	require.NoError(w, c.Ready(ctx), "connect %s", name)
	return c
}

// lock returns the lock of a scope.
func (c *client) lock(scope string) *recipes.PriorityLock {
	c.w.Helper()
	l, err := c.PriorityLock(scope)
	require.NoError(c.w, err)
	return l
}
