package main

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSignalThatIsRepeatedAtOnceIsTheSameOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		received := make(chan os.Signal)
		over := make(chan struct{})
		var first []syscall.Signal
		second := make(chan syscall.Signal, 1)
		go func() {
			if sig, ok := secondOf(received, over, func(sig syscall.Signal) { first = append(first, sig) }); ok {
				second <- sig
			}
		}()

		// timeout(1) signals its child, and then the group that it is in.
		received <- syscall.SIGTERM
		received <- syscall.SIGTERM
		<-time.After(sameSignal - time.Millisecond)
		received <- syscall.SIGHUP
		synctest.Wait()
		require.Equal(t, []syscall.Signal{syscall.SIGTERM}, first)
		require.Empty(t, second)

		// Somebody who has waited means it.
		<-time.After(time.Millisecond)
		received <- syscall.SIGINT
		require.Equal(t, syscall.SIGINT, <-second)
		require.Len(t, first, 1)
	})
}

func TestSignalsAreHeardNoMoreWhenAllIsOver(t *testing.T) {
	over := make(chan struct{})
	close(over)

	_, ok := secondOf(nil, over, nil)

	require.False(t, ok)
}
