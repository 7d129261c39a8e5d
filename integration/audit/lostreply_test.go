package audit

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

const opMulti = 14

// A wire breaks at the next transaction.
type wire struct {
	mu    sync.Mutex
	armed breaks
}

type breaks int

const (
	never  breaks = iota
	before        // the server does not get it
	after         // the server gets it, and the answer is lost
)

func (w *wire) arm(when breaks) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = when
}

// fires reports, once, how the connection breaks at a frame.
func (w *wire) fires(frame []byte) breaks {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(frame) < 12 || binary.BigEndian.Uint32(frame[8:]) != opMulti {
		return never
	}
	when := w.armed
	w.armed = never
	return when
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &wireConn{Conn: conn, wire: w}, nil
}

type wireConn struct {
	net.Conn
	wire *wire

	mu   sync.Mutex
	mute bool // the next that comes is lost, and all after it
}

func (c *wireConn) Write(frame []byte) (int, error) {
	switch c.wire.fires(frame) {
	case before:
		_ = c.Close()
		return 0, io.ErrClosedPipe
	case after:
		c.mu.Lock()
		c.mute = true
		c.mu.Unlock()
	case never:
	}
	return c.Conn.Write(frame)
}

func (c *wireConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mute && err == nil {
		_ = c.Close()
		return 0, io.EOF
	}
	return n, err
}

func (h *house) clientOn(w *wire) *recipes.Client {
	h.t.Helper()
	c, err := recipes.NewClient(recipes.Config{Servers: []string{h.server.Addr()}, Root: h.root, SessionTimeout: 10 * time.Second, Dialer: w.dial})
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func TestEntryWhoseAnswerIsLostIsOnRecordOnce(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]breaks{"not executed": before, "executed": after} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			w := &wire{}
			mine, others := logOf(t, h.clientOn(w), 0), logOf(t, h.client(), 0)
			appendAll(t, mine, 1, 1)
			for n := 2; n <= 6; n++ {
				// when others append meanwhile
				w.arm(when)
				var all sync.WaitGroup
				all.Go(func() { appendAll(t, others, 100+n, 100+n) })
				r, err := mine.Append(t.Context(), entry(n))
				all.Wait()

				// then
				require.NoError(t, err)
				records, _, err := mine.Read(t.Context(), recipes.AuditQuery{By: entry(n).By})
				require.NoError(t, err)
				require.Equal(t, []recipes.AuditRecord{r}, records)
			}
			holds(t, mine, 1, 11)
		})
	}
}

func TestEntryWhoseAnswerIsLostWithTheSessionIsOnRecordOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	w := &wire{}
	client := h.clientOn(w)
	l := logOf(t, client, 0)
	appendAll(t, l, 1, 1)
	id, password := client.Session()

	// when
	w.arm(after)
	done := make(chan error, 1)
	go func() {
		_, err := l.Append(t.Context(), entry(2))
		done <- err
	}()
	require.NoError(t, h.server.Expire(t.Context(), id, password))

	// then
	require.NoError(t, next(t, done))
	holds(t, l, 1, 2)
}

func TestAppendGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	l := logOf(t, h.clientAt("127.0.0.1:1"), 0)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("too slow"))
	defer cancel()
	_, err := l.Append(ctx, entry(1))
	var unavailable *recipes.UnavailableError
	require.ErrorAs(t, err, &unavailable)
	require.ErrorContains(t, err, `audit trail: preempt of "cluster/orders/1" not put on record: too slow`)
}
