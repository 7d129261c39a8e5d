package harness

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// Patience bounds a hang: a test fails when a condition is not met after that long. It says nothing about how fast
// anything is: next to ten other busy processes on each processor, what takes seconds takes more than a minute.
const Patience = 3 * time.Minute

// Session is the session timeout of clients that are to lose nothing by themselves: on a very busy machine a process
// may stand still for ten seconds, again and again. A test of a loss ends the session at the server, or has a Mortal.
// It is shorter than Patience: once in a while a server forgets to hang up when it ends a session, and the client finds
// that out alone.
const Session = 2 * time.Minute

// Mortal is the session timeout of a client that is cut off until it loses what it has.
const Mortal = 20 * time.Second

// patience is Patience for what is done at the end of a test: a test that has failed does not hang there as well.
func patience(t testing.TB) time.Duration {
	if t.Failed() {
		return 5 * time.Second
	}
	return Patience
}

// interval is how often a condition is looked at.
const interval = 2 * time.Millisecond

// Eventually waits until a condition is met. what and args say which one, for the failure.
func Eventually(t testing.TB, met func() bool, what string, args ...any) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !met(); <-time.After(interval) {
		if time.Now().After(deadline) {
			require.FailNow(t, "not met within "+Patience.String()+": "+fmt.Sprintf(what, args...))
		}
	}
}

// Receive waits for a value, or for the end of a channel.
func Receive[T any](t testing.TB, c <-chan T, what string, args ...any) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(Patience):
		require.FailNow(t, "nothing came within "+Patience.String()+": "+fmt.Sprintf(what, args...))
		panic("unreachable")
	}
}

// NoGoroutines waits until there are no goroutines but those of options: goleak itself looks for half a second.
func NoGoroutines(t testing.TB, options ...goleak.Option) {
	t.Helper()
	left := goleak.Find(options...)
	for deadline := time.Now().Add(Patience); left != nil && time.Now().Before(deadline); {
		left = goleak.Find(options...)
	}
	require.NoError(t, left)
}

// Call is a function that runs in the background and returns a value or an error.
type Call[T any] struct {
	t    testing.TB
	name string
	done chan struct{}

	value T // of a call that has returned, like err
	err   error
}

// Go calls f in the background. name says in failures what was called.
func Go[T any](t testing.TB, name string, f func() (T, error)) *Call[T] {
	c := &Call[T]{t: t, name: name, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.value, c.err = f()
	}()
	return c
}

// Done is closed when the call has returned.
func (c *Call[T]) Done() <-chan struct{} { return c.done }

// Wait waits until the call has returned, and returns what it has.
func (c *Call[T]) Wait() (T, error) {
	c.t.Helper()
	Receive(c.t, c.done, "%s has not returned", c.name)
	return c.value, c.err
}

// Granted waits for the value. The test fails when the call has returned an error.
func (c *Call[T]) Granted() T {
	c.t.Helper()
	value, err := c.Wait()
	require.NoError(c.t, err, "%s failed", c.name)
	return value
}

// Refused waits for the error. The test fails when there is none, or a value beside it.
func (c *Call[T]) Refused() error {
	c.t.Helper()
	value, err := c.Wait()
	require.Error(c.t, err, "%s succeeded", c.name)
	require.Zero(c.t, value, "%s returned a value and an error", c.name)
	return err
}

// IsPending fails the test if the call has returned.
func (c *Call[T]) IsPending() {
	c.t.Helper()
	select {
	case <-c.done:
		require.FailNow(c.t, fmt.Sprintf("%s has returned", c.name), "error: %v", c.err)
	default:
	}
}
