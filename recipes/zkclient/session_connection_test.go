package zkclient

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// A server that greets and hangs up is not asked again and again without a pause: one
// that refuses the credentials, or a network that does not like what comes after the greeting.
func TestAServerThatHangsUpAfterItsGreetingIsLeftInPeace(t *testing.T) {
	for _, ends := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var dials atomic.Int64
			var hangsUp atomic.Bool
			c, server := clientThrough(t, func(conn net.Conn, _ <-chan struct{}) net.Conn {
				if !hangsUp.Load() {
					return conn
				}
				dials.Add(1)
				return &hangingUpConn{Conn: conn}
			})
			require.NoError(t, c.Ready(t.Context()))

			hangsUp.Store(true)
			id, _ := c.Session()
			s, err := c.Usable(t.Context())
			require.NoError(t, err)
			if ends {
				require.True(t, server.Expire(id))
			} else {
				breakOff(s)
			}
			<-time.After(time.Minute)
			require.Less(t, dials.Load(), int64(200))
			require.Greater(t, dials.Load(), int64(30), "but it is")
			hangsUp.Store(false)
			require.NoError(t, c.Ready(t.Context()))
			again, _ := c.Session()
			require.Equal(t, !ends, id == again)
			synctest.Wait() // that the connection was of use is noted a moment after it can be used

			s, err = c.Usable(t.Context())
			require.NoError(t, err)
			breakOff(s)
			begin := time.Now()
			require.NoError(t, c.Ready(t.Context()))
			require.Less(t, time.Since(begin), 10*time.Millisecond, "after a connection that was of use there is no pause")
		})
	}
}

// What a client holds is free as soon as it is closed, also while it connects again.
func TestAClientThatIsClosedWhileItConnectsAgainEndsItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.RunT(t, zktest.Pipe(), zktest.TickTime(2*time.Second))
		c, err := NewClient(Config{Servers: []string{server.Addr()}, SessionTimeout: 10 * time.Second, Dialer: server.Dial})
		require.NoError(t, err)
		require.NoError(t, c.Ready(t.Context()))
		s, err := c.Usable(t.Context())
		require.NoError(t, err)
		require.Len(t, server.Sessions(), 1)

		settles := server.On(zktest.Op(zktest.Sync)).HoldReply()
		breakOff(s)
		<-settles.Reached()
		closed := make(chan error, 1)
		go func() { closed <- c.Close(context.Background()) }()
		synctest.Wait()
		settles.Release()

		require.NoError(t, <-closed)
		require.Empty(t, server.Sessions())
	})
}

// A blockingLog is one without a reader.
type blockingLog struct {
	slog.Handler
	blocked *atomic.Bool
	read    <-chan struct{}
}

func (h blockingLog) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

func (h blockingLog) Handle(context.Context, slog.Record) error {
	if h.blocked.Load() {
		<-h.read
	}
	return nil
}

// A process may be stuck in its log for long, as on a pipe without a reader:
// its locks are not.
func TestALogThatBlocksCostsNoHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var blocked atomic.Bool
		read := make(chan struct{})
		t.Cleanup(func() { close(read) })
		server := zktest.RunT(t, zktest.Pipe(), zktest.TickTime(2*time.Second))
		c, err := NewClient(Config{
			Servers: []string{server.Addr()}, Dialer: server.Dial, SessionTimeout: time.Minute, // of which it is granted less
			Logger: slog.New(blockingLog{slog.DiscardHandler, &blocked, read}),
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
		s, err := c.Usable(t.Context())
		require.NoError(t, err)
		var lost atomic.Bool
		held := fakeTenant(func(error) { lost.Store(true) })
		require.True(t, s.Hold(&held))
		defer s.Unhold(&held)
		<-time.After(time.Second)

		blocked.Store(true)
		id, _ := c.Session()
		require.True(t, server.Disconnect(id))
		<-time.After(time.Minute)
		require.False(t, lost.Load())
		require.Greater(t, s.Deadline().Sub(s.Now()), time.Second)

		// and a session that has ended is followed by another
		require.True(t, server.Expire(id))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		<-time.After(time.Second)
		next, err := c.Usable(ctx)
		require.NoError(t, err)
		require.NotSame(t, s, next)
		require.True(t, lost.Load())
	})
}

// breakOff closes the connection of a session.
func breakOff(s *Session) {
	s.mu.Lock()
	l := s.link
	s.mu.Unlock()
	_ = l.Close()
}

// A hangingUpConn ends after the first message that comes.
type hangingUpConn struct {
	net.Conn
	come int
}

func (c *hangingUpConn) Read(b []byte) (int, error) {
	const greeting = 4 + 37
	if c.come == greeting {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(b[:min(len(b), greeting-c.come)])
	c.come += n
	return n, err
}

// A connection whose end is reported late must not end the next one.
func TestTheEndOfAConnectionSaysNothingOfTheNext(t *testing.T) {
	for range 5_000 {
		s := &Session{
			c: &Client{}, clock: newClock(), watches: newWatchTable(), isReady: true, down: true,
			ready: make(chan struct{}), cut: make(chan struct{}), over: make(chan struct{}),
		}
		old := &link{}
		s.link = old
		var others sync.WaitGroup
		for range 4 { // calls that read the state of the session
			others.Go(func() {
				for range 20 {
					s.lastAckNow()
				}
			})
		}
		others.Go(func() { s.lost(old) })
		s.disconnected() // as the library tells of it
		s.mu.Lock()
		s.link, s.isReady = &link{}, true
		close(s.ready)
		s.cut = make(chan struct{})
		s.mu.Unlock()
		others.Wait()
		require.True(t, s.Usable())
	}
}

// A lateTenant learns that the connection is gone after the next one has been
// settled.
type lateTenant struct {
	fakeTenant

	settle func()
	blind  bool
}

func (*lateTenant) Blind(Instant) bool { return false }

func (l *lateTenant) Blink() {
	l.settle()
	l.blind = true
}

// The end of a connection may be told so late that the next one has made all watchers read again.
func TestAHolderThatLearnsLateOfTheEndOfAConnectionReadsAgain(t *testing.T) {
	t.Parallel()
	held := &lateTenant{}
	looks := Watcher(func(WatchKind) { held.blind = false })
	s := &Session{
		c: &Client{}, clock: newClock(), watches: newWatchTable(), isReady: true, down: true, tenants: map[Tenant]struct{}{held: {}},
		ready: make(chan struct{}), cut: make(chan struct{}), over: make(chan struct{}),
	}
	s.watches.entry(watchKey{path: "/own"}).readers[&looks] = struct{}{}
	held.settle = func() {
		s.mu.Lock()
		s.isReady = true
		s.mu.Unlock()
		s.watches.reconnected()
	}

	s.disconnected()

	require.False(t, held.blind, "its node is not read again before the deadline")
}
