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
		received, over, ended := make(chan os.Signal), make(chan struct{}), make(chan struct{})
		var heard []syscall.Signal
		counted := true
		go func() {
			defer close(ended)
			eachSignal(received, over, func(n int, sig syscall.Signal) {
				counted = counted && n == len(heard)
				heard = append(heard, sig)
			})
		}()

		// timeout(1) signals its child, and then the group that it is in.
		received <- syscall.SIGTERM
		received <- syscall.SIGTERM
		<-time.After(sameSignal - time.Millisecond)
		received <- syscall.SIGHUP
		synctest.Wait()
		require.Equal(t, []syscall.Signal{syscall.SIGTERM}, heard)

		// Somebody who has waited means it, each time.
		<-time.After(time.Millisecond)
		received <- syscall.SIGINT
		<-time.After(time.Millisecond)
		received <- syscall.SIGINT
		<-time.After(sameSignal)
		received <- syscall.SIGTERM
		close(over)
		<-ended
		require.Equal(t, []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGTERM}, heard)
		require.True(t, counted)
	})
}
