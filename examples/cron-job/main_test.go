package main

import (
	"bufio"
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestTheJobRunsUnderItsLock(t *testing.T) {
	t.Parallel()
	zk, err := zktest.Start()
	require.NoError(t, err)
	t.Cleanup(func() { _ = zk.Close() })
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- serve(ctx, zk.Addr(), in) }()

	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Regexp(t, `^compacting, token \d+\n$`, line)
	require.NoError(t, out.Close()) // a run that comes before the end must not wait for a reader
	stop()
	require.NoError(t, <-done)
}
