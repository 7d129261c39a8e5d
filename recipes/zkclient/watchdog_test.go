package zkclient

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A watchedTenant notes when the watchdog looks, and when it loses.
type watchedTenant struct {
	fakeTenant
	looks []Instant
}

func (w *watchedTenant) VerifyDue(now Instant) bool {
	w.looks = append(w.looks, now)
	return false
}

func (*watchedTenant) Verify(context.Context) {}

func TestHoldersLearnAtTheirDeadlineHoweverShortlyBeforeItTheWatchdogLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := clientThrough(t, func(conn net.Conn, _ <-chan struct{}) net.Conn { return conn })
		s, err := c.Usable(t.Context())
		require.NoError(t, err)
		lost := make(chan Instant, 1)
		held := &watchedTenant{fakeTenant: func(error) { lost <- s.Now() }}
		require.True(t, s.Hold(held))
		defer s.Unhold(held)

		// given a client that is cut off, and looks at regular times
		server.Partition()
		step := s.TimeoutNow() / 32
		<-time.After(s.TimeoutNow() / 3)
		synctest.Wait()
		n := len(held.looks)
		require.Equal(t, step, held.looks[n-1].Sub(held.looks[n-2]))

		// when the deadline is a moment after such a time
		look := held.looks[n-1].Add(2 * step)
		end := look.Add(300 * time.Microsecond)
		s.mu.Lock()
		s.touches.begin(end.Add(c.margin(s.timeout) - s.timeout))
		s.mu.Unlock()

		// then that is when what is held ends
		require.Equal(t, end, <-lost)
		require.Contains(t, held.looks, look)
	})
}
