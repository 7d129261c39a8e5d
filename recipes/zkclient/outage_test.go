package zkclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

func TestOutageIsReportedSoonAndThenEverMoreRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book logBook
		ready := make(chan struct{})
		s := &Session{
			c:     &Client{log: book.logger(), cfg: Config{Servers: []string{"zk1:2181", "zk2:2181"}}},
			clock: newClock(), lastErr: errors.New("no route to host"), over: make(chan struct{}),
		}
		go s.tellOutage(ready)

		<-time.After(4 * time.Minute)
		for i, after := range []string{"1s", "5s", "21s", "1m21s", "2m21s", "3m21s"} {
			require.Contains(t, book.lines()[i], `level=WARN msg="ZooKeeper does not answer, trying on" servers=zk1:2181,zk2:2181 for=`+after+` error="no route to host"`)
		}
		require.Len(t, book.lines(), 6)

		close(ready) // it is there again
		<-time.After(10 * time.Minute)
		require.Len(t, book.lines(), 6)
	})
}

// A logBook is a log that can be read while it is written.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBook) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Split(strings.TrimSpace(b.text.String()), "\n")
}

func (b *logBook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

func TestClientSaysWhichServersItCannotReachAndWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book logBook
		c, err := NewClient(Config{Servers: []string{"zk1:2181", "zk2:2181"}, SessionTimeout: time.Minute, Dialer: refused, Logger: book.logger()})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
		<-time.After(4 * time.Second)
		require.Len(t, book.lines(), 1, "once")
		require.Regexp(t, `msg="ZooKeeper does not answer, trying on" servers=zk1:2181,zk2:2181 for=1(\.\d+)?s error=".*connection refused"$`, book.lines()[0])
	})
}

func TestClosedConnectionDoesNotHideWhyItWasClosed(t *testing.T) {
	s := &Session{}
	s.note(zk.ErrConnectionClosed)
	require.Equal(t, zk.ErrConnectionClosed, s.lastErr)
	silent := errors.New("zk1:2181 has not answered for 10s")
	s.note(silent)
	s.note(fmt.Errorf("request: %w", zk.ErrConnectionClosed))
	require.Equal(t, silent, s.lastErr)
}

func TestLossOfTheConnectionIsReportedWithItsCauseOrWithoutOne(t *testing.T) {
	for cause, want := range map[error]string{nil: "session=0x2a$", context.DeadlineExceeded: `session=0x2a cause="context deadline exceeded"$`} {
		synctest.Test(t, func(t *testing.T) {
			var book logBook
			s := &Session{c: &Client{log: book.logger()}, clock: newClock(), id: 42, lastErr: cause, over: make(chan struct{})}
			s.disconnected()
			close(s.over)
			synctest.Wait() // no goroutine waits for the log
			require.Regexp(t, `level=WARN msg="connection to ZooKeeper lost; holding on until the session's deadline" `+want, book.lines()[0])
		})
	}
}
