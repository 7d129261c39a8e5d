package main

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestTheNextOneServesWhenTheFirstIsGone(t *testing.T) {
	// given
	zk := zktest.RunT(t)
	read, write := io.Pipe()
	lines := make(chan string)
	go func() {
		buffer := make([]byte, 100)
		for {
			n, err := read.Read(buffer) // a write is a line
			if err != nil {
				return
			}
			lines <- string(buffer[:n])
		}
	}()
	t.Cleanup(func() { require.NoError(t, read.Close()) })
	done := make(chan error, 2)
	machine := func(name string) (stop func()) {
		ctx, stop := context.WithCancel(t.Context())
		go func() { done <- run(ctx, zk.Addr(), name, write) }()
		return stop
	}

	// when
	stopAda := machine("ada")
	require.Equal(t, "ada dispatches\n", <-lines)
	stopBob := machine("bob")
	stopAda()

	// then
	require.Equal(t, "ada stops\n", <-lines)
	require.NoError(t, <-done)
	require.Equal(t, "bob dispatches\n", <-lines)
	stopBob()
	require.Equal(t, "bob stops\n", <-lines)
	require.NoError(t, <-done)
}
