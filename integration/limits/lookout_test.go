package limits

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A meter counts what goes over a client's connections.
type meter struct{ requests, sent, received atomic.Int64 }

func (m *meter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &metered{Conn: conn, m: m}, nil
}

type metered struct {
	net.Conn
	m *meter
}

// Write sends one request, as the client does.
func (c *metered) Write(b []byte) (int, error) {
	const ping, sync = 11, 9 // which keep the session alive
	if len(b) >= 12 {
		if op := binary.BigEndian.Uint32(b[8:]); op != ping && op != sync {
			c.m.requests.Add(1)
		}
	}
	n, err := c.Conn.Write(b)
	c.m.sent.Add(int64(n))
	return n, err
}

func (c *metered) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.m.received.Add(int64(n))
	return n, err
}

func (m *meter) String() string {
	return fmt.Sprintf("%d requests, %d KiB sent, %d KiB received", m.requests.Load(), m.sent.Load()>>10, m.received.Load()>>10)
}

func (m *meter) reset() { m.requests.Store(0); m.sent.Store(0); m.received.Store(0) }

// Given very many locks with queues, then a live view of them reads each once, asks
// nothing while nothing happens, sees a change by a few reads, and leaves nothing
// behind.
func TestLiveViewOfManyLocksWithManyWaiters(t *testing.T) {
	h := newFixture(t)
	locks := size(60, 1000)
	const each = 10 // waiters

	// given the locks
	holder := h.client()
	grants := h.takeAll(holder, "lock", locks, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var queue sync.WaitGroup
	crews := []*recipes.Client{h.client(), h.client(), h.client(), h.client()}
	for i := range locks * each {
		l := h.Lock(crews[i%len(crews)], fmt.Sprintf("lock/%d", i/each))
		queue.Go(func() {
			if g, err := l.Acquire(ctx, recipes.Request{Owner: fmt.Sprintf("worker-%d", i), LeaseTimeout: time.Hour}); err == nil {
				_ = g.Release(context.Background())
			}
		})
	}
	n := locks * (1 + each)
	h.eventually(func() bool { return h.requests() == n }, "not all are in the queues")

	// when somebody looks
	m := &meter{}
	viewer := h.client(func(cfg *recipes.Config) { cfg.Dialer = m.dial })
	m.reset()
	before := h.sample()
	look, err := viewer.Lookout(recipes.LookoutOptions{})
	require.NoError(t, err)
	b, err := live.New(live.Options{Source: look, Now: viewer.Now})
	require.NoError(t, err)
	running, stop := context.WithCancel(t.Context())
	defer stop()
	var work sync.WaitGroup
	start := time.Now()
	work.Go(func() { _ = b.Run(running) })
	h.eventually(func() bool { return b.Now().Complete }, "not all has been seen")
	took := time.Since(start)
	h.eventually(func() bool { return b.Now().Totals.Waiters == locks*each }, "not all waiters are shown")
	rooms := min(256, locks)
	require.LessOrEqual(t, m.requests.Load(), int64(1+rooms+3*locks+n+20), "each once, and locks again whose waiters still settle")
	after := h.sample()
	t.Logf("%d locks with %d waiters: seen in %v by %v", locks, locks*each, took.Round(time.Millisecond), m)
	t.Logf("for each request: heap %d B, %.2f watches; %d goroutines more",
		(after.heap-before.heap)/int64(n), float64(after.watches-before.watches)/float64(n), after.goroutines-before.goroutines)
	require.Less(t, (after.heap-before.heap)/int64(n), int64(16<<10), "bytes for each request")
	require.Less(t, after.goroutines-before.goroutines, 20, "no goroutine for each lock")

	// then nothing is asked while nothing happens
	quiet := false
	for tries := 0; tries < 5 && !quiet; tries++ { // those in the queues may still settle
		m.reset()
		<-time.After(time.Duration(size(2, 10)) * time.Second)
		quiet = m.requests.Load() == 0
	}
	require.True(t, quiet, "%v", m)

	// and a change costs a few reads
	victim := grants[0]
	start = time.Now()
	go func() { _ = victim.Release(context.Background()) }()
	h.eventually(func() bool {
		now := b.Now()
		return len(now.Locks) > 0 && len(now.Locks[0].Holders) == 1 && now.Locks[0].Holders[0].ID != victim.ID()
	}, "the hand-over is not shown")
	t.Logf("a hand-over is shown within %v by %v", time.Since(start).Round(time.Millisecond), m)
	start = time.Now()
	text, err := json.Marshal(b.Now().Locks)
	require.NoError(t, err)
	t.Logf("all locks as JSON: %d KiB in %v; timeline, heat: %v", len(text)>>10, time.Since(start).Round(time.Millisecond), timeOf(func() {
		_ = b.Timeline("lock/0", time.Time{}, time.Time{})
		_ = b.Heat(time.Now().Add(-time.Hour), time.Time{}, 60)
	}))

	// and everybody goes
	m.reset()
	start = time.Now()
	cancel()
	queue.Wait()
	all(locks, func(i int) { _ = grants[i].Release(context.Background()) })
	h.eventually(func() bool { return b.Now().Totals.Waiters+b.Now().Totals.Holders == 0 }, "somebody is shown who is not there")
	t.Logf("all gone, as shown within %v by %v", time.Since(start).Round(time.Millisecond), m)
	h.eventually(func() bool { return h.watches() <= locks+1 }, "more than the locks are watched")
	stop()
	work.Wait()
}

func timeOf(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start).Round(100 * time.Microsecond)
}
