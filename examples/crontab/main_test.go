package main

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

func TestOneRunsAndTheOtherLeaves(t *testing.T) {
	zk := zkserver.Start(t).Connect()
	host, err := os.Hostname()
	require.NoError(t, err)
	var first, second bytes.Buffer
	ran := false

	err = once(t.Context(), zk, &first, func(ctx context.Context) error {
		return once(context.WithoutCancel(t.Context()), zk, &second, func(context.Context) error {
			ran = true
			return nil
		})
	})

	require.NoError(t, err)
	require.False(t, ran, "both ran")
	require.Empty(t, first.String())
	require.Equal(t, host+" is at it already\n", second.String())

	// and when the first is done, the next one runs
	require.NoError(t, once(t.Context(), zk, &second, func(context.Context) error {
		ran = true
		return nil
	}))
	require.True(t, ran)

	// and work that fails is reported
	err = once(t.Context(), zk, &second, func(context.Context) error { return os.ErrPermission })
	require.ErrorIs(t, err, os.ErrPermission)
}
