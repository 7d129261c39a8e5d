package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestAnOrderIsWorkedOnByOneMachineAtATime(t *testing.T) {
	// given two machines
	zk := zktest.RunT(t)
	ctx, stop := context.WithCancel(t.Context())
	started, finish := make(chan struct{}), make(chan struct{})
	put := func(w http.ResponseWriter, _ *http.Request) {
		started <- struct{}{}
		<-finish
		w.WriteHeader(http.StatusNoContent)
	}
	done := make(chan error, 2)
	machine := func() string {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		go func() { done <- serve(ctx, zk.Addr(), listener, put) }()
		return "http://" + listener.Addr().String()
	}
	one, two := machine(), machine()
	first, other := make(chan int, 1), make(chan int, 1)

	// when
	go func() { first <- patiently(ctx, one+"/orders/7", http.StatusLocked, http.StatusServiceUnavailable) }()
	<-started
	second := patiently(ctx, two+"/orders/7", http.StatusServiceUnavailable)
	go func() { other <- patiently(ctx, two+"/orders/8", http.StatusLocked, http.StatusServiceUnavailable) }()
	<-started
	close(finish)

	// then
	require.Equal(t, http.StatusLocked, second)
	require.Equal(t, http.StatusNoContent, <-first)
	require.Equal(t, http.StatusNoContent, <-other)
	stop()
	require.NoError(t, <-done)
	require.NoError(t, <-done)
}

// patiently asks again after those answers, which a busy machine gives when it has not got the lock in the time that the
// service waits for it.
func patiently(ctx context.Context, url string, busy ...int) int {
	for {
		if status := ask(ctx, url); !slices.Contains(busy, status) {
			return status
		}
	}
}

// ask returns the status of the answer; 0: there is none.
func ask(ctx context.Context, url string) int {
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, url, nil)
	if err != nil {
		return 0
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}
