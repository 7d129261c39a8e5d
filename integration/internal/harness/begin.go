package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Begun is a Call with a context of its own, which ends with the test: then the call is waited for.
type Begun[T any] struct {
	*Call[T]
	Cancel context.CancelFunc
}

// Begin is Go for a function that takes a context.
func Begin[T any](t testing.TB, name string, f func(context.Context) (T, error)) *Begun[T] {
	ctx, cancel := context.WithCancel(context.Background())
	b := &Begun[T]{Call: Go(t, name, func() (T, error) { return f(ctx) }), Cancel: cancel}
	t.Cleanup(func() {
		cancel()
		<-b.Done()
	})
	return b
}

// Running is a call that returns nothing but an error.
type Running = Begun[struct{}]

// Run is Begin for a function that returns nothing but an error.
func Run(t testing.TB, name string, f func(context.Context) error) *Running {
	return Begin(t, name, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
}

// Err waits until the call has returned, and returns its error.
func (c *Call[T]) Err() error {
	c.t.Helper()
	_, err := c.Wait()
	return err
}

// Together calls f n times at once, with 0 to n-1, and waits until all have returned. None may fail.
func Together(t testing.TB, n int, f func(ctx context.Context, i int) error) {
	t.Helper()
	calls := make([]*Running, n)
	for i := range n {
		calls[i] = Run(t, fmt.Sprint("call ", i), func(ctx context.Context) error { return f(ctx, i) })
	}
	for _, call := range calls {
		call.Granted()
	}
}

// Filled waits until a node has n children, and returns them in the order of their sequence numbers.
func (f *Fixture) Filled(path string, n int) (names []string) {
	f.Helper()
	Eventually(f, func() bool {
		names = f.Children(path)
		return len(names) == n
	}, "%s has not got %d children", path, n)
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(sequence(a), sequence(b)) })
	return names
}

// sequence is what ZooKeeper appends to the name of a sequential node.
func sequence(name string) string { return name[max(0, len(name)-10):] }

// Watched waits until a node is watched by n sessions at least.
func (f *Fixture) Watched(path string, n int) {
	f.Helper()
	Eventually(f, func() bool {
		found := 0
		for _, watched := range f.Watches() {
			if watched == path {
				found++
			}
		}
		return found >= n
	}, "%s is not watched %d times", path, n)
}

// Renewed ends the session of a client at the server, and waits until the client has the next one.
func (f *Fixture) Renewed(c *lock.Client) (before, now int64) {
	f.Helper()
	before = f.Expire(c)
	Eventually(f, func() bool {
		now, _ = c.Session()
		return now != 0 && now != before
	}, "the client has no new session")
	require.NoError(f, c.Ready(f.Context()))
	return before, now
}
