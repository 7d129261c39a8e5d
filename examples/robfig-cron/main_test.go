package main

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestReportIsWrittenOnceAndCleanedUpWhenTheProgramEnds(t *testing.T) {
	// given
	zk := zktest.RunT(t)
	ctx, stop := context.WithCancel(t.Context())
	var out output
	done := make(chan error, 2)

	// when
	for range 2 {
		go func() { done <- serve(ctx, zk.Addr(), &out) }()
	}
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "writing") }, time.Minute, 10*time.Millisecond)
	stop()

	// then
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	require.Contains(t, out.String(), "half a report removed\n")
}

// output is written by several goroutines.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
