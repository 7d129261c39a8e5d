package guardtest

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Run runs a test in virtual time, on a server of its own.
func Run(t *testing.T, f func(t *testing.T, zk *zktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, zktest.RunT(t, zktest.Pipe())) })
}

// New returns a guard as a process has it: with a client of its own, whose connections have its name.
func New(t *testing.T, zk *zktest.Server, name string) *lockguard.Guard {
	t.Helper()
	client, err := lock.NewClient(lock.Config{Dialer: zk.Dialer(name)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close(context.Background())) })
	guard, err := lockguard.New(client)
	require.NoError(t, err)
	return guard
}

// Preempt takes the lock "s" for a moment, from any holder.
func Preempt(t *testing.T, guard *lockguard.Guard) {
	t.Helper()
	require.NoError(t, guard.Do(t.Context(), lockguard.Requirement{Scope: "s", Terms: priority.Terms{Priority: 9}},
		func(context.Context) error { return nil }))
}

// Errors are collected from several goroutines.
type Errors struct {
	mu  sync.Mutex
	all []error
}

// Add adds an error.
func (e *Errors) Add(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, err)
}

// All returns the errors so far.
func (e *Errors) All() []error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all)
}

// Output is written by several goroutines.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
