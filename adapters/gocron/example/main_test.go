package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/adapters/internal/guardtest"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestTasksRunAndCleanUpWhenTheProgramEnds(t *testing.T) {
	// given
	zk := zktest.RunT(t)
	ctx, stop := context.WithCancel(t.Context())
	var out guardtest.Output
	done := make(chan error, 2)

	// when
	for range 2 {
		go func() { done <- serve(ctx, zk.Addr(), &out) }()
	}
	require.Eventually(t, func() bool {
		return strings.Contains(out.String(), "writing") && strings.Contains(out.String(), "tidying")
	}, time.Minute, 10*time.Millisecond)
	stop()

	// then
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	require.Contains(t, out.String(), "half a report removed\n")
}
