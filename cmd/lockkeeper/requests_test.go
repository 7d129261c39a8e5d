package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// ana is an operator of servers whose root she has made.
var ana = &lock.Digest{User: "ana", Password: "secret"}

// connect returns a client that is closed at the end of the test; auth may be nil.
func connect(t *testing.T, server *zktest.Server, auth *lock.Digest) *lock.Client {
	t.Helper()
	client, err := lock.NewClient(lock.Config{Servers: []string{server.Addr()}, Root: "/lockkeeper", Auth: auth})
	require.NoError(t, err)
	t.Cleanup(func() { closeClient(client) })
	return client
}

// acquire acquires a lock that is free.
func acquire(t *testing.T, client *lock.Client, scope string, r lock.Request) *lock.Grant {
	t.Helper()
	lock, err := client.PriorityLock(scope)
	require.NoError(t, err)
	grant, err := lock.Acquire(t.Context(), r)
	require.NoError(t, err)
	return grant
}

// enqueue requests a lock that is held, and returns when the request is in the queue. It is cancelled at the end of
// the test.
func enqueue(t *testing.T, client *lock.Client, scope string, r lock.Request) (granted <-chan *lock.Grant) {
	t.Helper()
	l, err := client.PriorityLock(scope)
	require.NoError(t, err)
	queued, grants, over := make(chan struct{}, 1), make(chan *lock.Grant, 1), make(chan struct{})
	r.Notify = func(n lock.Notice) {
		if _, ok := n.(lock.Queued); ok {
			select {
			case queued <- struct{}{}:
			default: // it has queued anew
			}
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() {
		defer close(over)
		if grant, err := l.Acquire(ctx, r); err == nil {
			grants <- grant
		}
	}()
	t.Cleanup(func() { cancel(); <-over })
	select {
	case <-queued:
	case <-time.After(time.Minute):
		require.FailNow(t, "it does not queue", r.Owner)
	}
	return grants
}

// runProgram runs the program in this process.
func runProgram(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, nil, &out, &errs)
	return code, out.String(), errs.String()
}
