package zkclient

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClockCountsSuspendedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		start := c.awake()
		<-time.After(time.Second)
		require.Equal(t, time.Second, c.awake().Sub(start))

		c.before -= time.Minute // as if the machine had slept since
		require.InDelta(t, time.Minute+time.Second, c.awake().Sub(start), float64(10*time.Second))
		require.InDelta(t, time.Minute+time.Second, c.now().Sub(start), float64(10*time.Second), "once noticed, it stays")
	})
}
