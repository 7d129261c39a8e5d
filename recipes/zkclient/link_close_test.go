package zkclient

import (
	"context"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
	"github.com/lockkeeper/lockkeeper/zkwire"
)

// clientThrough returns a client in a bubble of virtual time whose connections are wrapped. Who waits for the
// good-bye does so until the test has ended.
func clientThrough(t *testing.T, wrap func(conn net.Conn, goodbye <-chan struct{}) net.Conn) (*Client, *zktest.Server) {
	t.Helper()
	goodbye := make(chan struct{})
	server := zktest.RunT(t, zktest.Pipe(), zktest.TickTime(2*time.Second))
	c, err := NewClient(Config{
		Servers: []string{server.Addr()}, SessionTimeout: 10 * time.Second,
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := server.Dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return wrap(conn, goodbye), nil
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		server.Heal()
		close(goodbye)
		require.NoError(t, c.Close(context.Background()))
	})
	return c, server
}

// inAMinute is what the channel has by then.
func inAMinute[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(time.Minute):
		require.Fail(t, "not within a minute")
	}
	return v
}

// A lingeringConn says good-bye to a peer that takes nothing, and knows no deadlines.
type lingeringConn struct {
	net.Conn
	goodbye <-chan struct{}
}

func (c *lingeringConn) Close() error {
	<-c.goodbye
	return c.Conn.Close()
}

func (c *lingeringConn) SetDeadline(time.Time) error { return os.ErrNoDeadline }

func TestHoldersLearnInTimeThoughTheirConnectionDoesNotClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := clientThrough(t, func(conn net.Conn, goodbye <-chan struct{}) net.Conn { return &lingeringConn{conn, goodbye} })
		s, err := c.Usable(t.Context())
		require.NoError(t, err)
		lost := make(chan time.Time, 1)
		held := fakeTenant(func(error) { lost <- time.Now() })
		require.True(t, s.Hold(&held))
		defer s.Unhold(&held)

		server.Partition()
		end := time.Now().Add(s.Deadline().Sub(s.Now()))
		require.LessOrEqual(t, inAMinute(t, lost).Sub(end), tellingTakes)
	})
}

// A fakeTenant is called when its session is lost.
type fakeTenant func(cause error)

func (fakeTenant) Holding() string           { return "users" }
func (fakeTenant) Overdue(Instant) bool      { return false }
func (fakeTenant) AtRisk(time.Duration)      {}
func (f fakeTenant) SessionLost(cause error) { f(cause) }

// A fullConn takes nothing any more once it is full. Close says good-bye; a
// writer leaves only at a deadline.
type fullConn struct {
	lingeringConn
	full    *atomic.Bool
	dead    chan struct{}
	expired sync.Once
}

func (c *fullConn) Write(b []byte) (int, error) {
	if c.full.Load() {
		<-c.dead
		return 0, os.ErrDeadlineExceeded
	}
	return c.Conn.Write(b)
}

func (c *fullConn) SetDeadline(at time.Time) error {
	if at.Before(time.Now()) {
		c.expired.Do(func() { close(c.dead) })
	}
	return c.Conn.SetDeadline(at)
}

// A request is written by its caller, which leaves when the connection is given
// up.
func TestCallersLeaveAConnectionThatTakesNothingWhenItIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := new(atomic.Bool)
		c, _ := clientThrough(t, func(conn net.Conn, goodbye <-chan struct{}) net.Conn {
			return &fullConn{lingeringConn: lingeringConn{conn, goodbye}, full: full, dead: make(chan struct{})}
		})
		s, err := c.Usable(t.Context())
		require.NoError(t, err)
		_, err = s.Create(t.Context(), "/a", nil, 0)
		require.NoError(t, err)

		full.Store(true)
		begin := time.Now()
		tried := make(chan error, 1)
		go func() {
			_, _, err := s.Multi(t.Context(), &zk.SetDataRequest{Path: "/a", Version: -1})
			tried <- err
		}()
		require.ErrorIs(t, inAMinute(t, tried), ErrAmbiguous)
		const timeout = 10 * time.Second
		require.Less(t, time.Since(begin), timeout*2/3+timeout/16, "two looks of the watchdog")

		full.Store(false)
		_, _, err = s.Multi(t.Context(), &zk.SetDataRequest{Path: "/a", Version: -1})
		require.NoError(t, err)
	})
}

// A brokenConn fails once, after so many bytes more. It could be read on.
type brokenConn struct {
	net.Conn
	left *atomic.Int64 // negative: not yet
	come []byte        // and not been read
}

func (c *brokenConn) Read(b []byte) (int, error) {
	if len(c.come) == 0 {
		come := make([]byte, len(b))
		n, err := c.Conn.Read(come)
		if c.come = come[:n]; err != nil {
			return 0, err
		}
	}
	n := len(c.come)
	if left := c.left.Load(); left >= 0 {
		if n = min(n, int(left)); n == 0 {
			c.left.Store(-1)
			return 0, os.ErrDeadlineExceeded
		}
		c.left.Add(-int64(n))
	}
	n = copy(b, c.come[:n])
	c.come = c.come[n:]
	return n, nil
}

// What comes after an error is not the beginning of a frame: a sender that
// waits for a reply learns that there is none, and the next connection begins
// anew.
func TestAnErrorEndsAConnectionThatCouldBeReadOn(t *testing.T) {
	for name, size := range map[string]int{"short": 30, "long": 40_000} {
		for _, cut := range []int{0, 6, 25} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var left atomic.Int64
					left.Store(-1)
					var dials atomic.Int64
					c, _ := clientThrough(t, func(conn net.Conn, _ <-chan struct{}) net.Conn {
						dials.Add(1)
						return &brokenConn{Conn: conn, left: &left}
					})
					s, err := c.Usable(t.Context())
					require.NoError(t, err)
					require.NoError(t, s.Await(t.Context()))
					// Whatever part of it is read as frames, these are empty.
					_, err = s.conn.Create("/a", []byte(strings.Repeat("\x00", size)), 0, zk.WorldACL(zk.PermAll))
					require.NoError(t, err)
					synctest.Wait()

					left.Store(int64(cut))
					begin := time.Now()
					p := s.Post(zkwire.OpGetData, []any{NodeRead("/a")}, false)
					require.NotNil(t, p)
					inAMinute(t, p.done)
					require.ErrorIs(t, p.err, zk.ErrConnectionClosed)
					require.NoError(t, s.Await(t.Context()))
					require.EqualValues(t, 2, dials.Load())
					require.Less(t, time.Since(begin), time.Second, "no call had to wait until the connection was late")
					data, _, err := s.Get(t.Context(), "/a")
					require.NoError(t, err)
					require.Len(t, data, size)
				})
			})
		}
	}
}
