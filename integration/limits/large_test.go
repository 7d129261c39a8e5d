package limits

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Given a holder whose node a newer program has made almost as long as a request to
// ZooKeeper may be, when a request preempts it, then that is written, up to the
// limit; what is longer is refused before it is sent, and says what is too long: the
// connection, and with it all that is held, is not at risk.
func TestRequestUpToTheLimitIsSentAndALongerOneIsRefused(t *testing.T) {
	h := newFixture(t)
	c, asker := h.client(), h.client()
	id, _ := asker.Session()
	safe := h.acquire(asker, "safe", lock.Request{})
	const limit = 1_000_000 // of ours: ZooKeeper's is 1,048,575
	for name, try := range map[string]struct {
		bytes int
		fits  bool
	}{
		"just below the limit": {limit - 1000, true},
		"just above the limit": {limit, false},
		"what breaks servers":  {1_048_575 - 256, false},
	} {
		t.Run(name, func(t *testing.T) {
			held := h.Hold(h.Lock(c, "large"), "holder")
			node := held.Node()
			data, _ := h.Get(node)
			token := fmt.Sprintf(`{"token":%d,`, held.Token()) // which no program changes
			more := strings.Repeat("x", try.bytes-len(data)-len(token)-len(`"future":"",`)+1)
			h.Set(node, []byte(token+`"future":"`+more+`",`+strings.TrimPrefix(string(data), "{")))

			request := h.Acquire(h.Lock(asker, "large"), "asker", harness.At(5))
			if try.fits {
				harness.Await[lock.PreemptRequested](t, held.Notices)
				request.Cancel()
				require.ErrorIs(t, request.Refused(), context.Canceled)
			} else {
				var tooLarge *lock.TooLargeError
				require.ErrorAs(t, request.Refused(), &tooLarge)
				require.Equal(t, node, tooLarge.Node)
				require.Equal(t, limit, tooLarge.Limit)
				require.Greater(t, tooLarge.Bytes, limit)
			}
			require.NoError(t, safe.Check())
			again, _ := asker.Session()
			require.Equal(t, id, again)
			held.Release()
			h.eventually(func() bool { return h.requests() == 1 }, "somebody is left")
		})
	}
	h.release(safe)
}

// Given many readers behind a writer, whose requests together are larger than a
// request to ZooKeeper may be, when it hands over, then all of them hold, and
// no connection has broken.
func TestHandOverToLargeRequestsFits(t *testing.T) {
	h := newFixture(t)
	c := h.client()
	id, _ := c.Session()
	holder := h.acquire(c, "large", lock.Request{Identity: priority.Identity{Owner: "writer"}, Terms: priority.Terms{Priority: 9}})
	const readers = 16
	var crowd sync.WaitGroup
	var holding atomic.Int32
	together := make(chan struct{})
	message := strings.Repeat("\x01", priority.MaxMessage) // six bytes each, as it is written
	for i := range readers {
		l := h.Lock(c, "large")
		crowd.Go(func() {
			g, err := l.Acquire(t.Context(), lock.Request{Identity: priority.Identity{Owner: fmt.Sprintf("reader %d", i), Message: message}, Terms: priority.Terms{Mode: priority.Shared}})
			if err != nil {
				t.Errorf("reader %d: %v", i, err)
				return
			}
			if holding.Add(1) == readers {
				close(together)
			}
			select {
			case <-together:
			case <-time.After(soon):
			}
			if err := g.Release(context.Background()); err != nil {
				t.Errorf("reader %d: %v", i, err)
			}
		})
	}
	h.eventually(func() bool { return h.requests() == readers+1 }, "not all stand in the queue")
	h.release(holder)
	crowd.Wait()
	require.EqualValues(t, readers, holding.Load(), "all held it at one time")
	again, _ := c.Session()
	require.Equal(t, id, again)
}

// Given as many readers as may hold a lock together, when more come, then those
// wait; when one takes it by force, all lose it at once, and know by whom.
func TestManyReadersLoseTheLockAtOnce(t *testing.T) {
	h := newFixture(t)
	const most = 1000 // as docs/howto/scale.md says
	readers := size(120, most+50)
	c, taker := h.client(), h.client()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var crowd sync.WaitGroup
	var lost, queued atomic.Int32
	for range 8 {
		mine := h.client()
		crowd.Go(func() {
			for i := range readers / 8 {
				l, err := mine.PriorityLock("readers")
				if err != nil {
					t.Error(err)
					return
				}
				crowd.Go(func() {
					gone := make(chan struct{})
					g, err := l.Acquire(ctx, lock.Request{
						Identity: priority.Identity{Owner: strings.Repeat("r", priority.MaxOwner-5) + fmt.Sprint(i)}, Terms: priority.Terms{Mode: priority.Shared},
						Notify: func(n lock.Notice) {
							switch n := n.(type) {
							case lock.Queued:
								queued.Add(1)
							case lock.Lost:
								// one whose session ends on a busy machine hears of that first
								if n.Err.Reason != lock.LossSession && (n.Err.Reason != lock.LossTaken || n.Err.By != "taker") {
									t.Errorf("reader %d: %v", i, n.Err)
								}
								lost.Add(1)
								close(gone)
							}
						},
					})
					if err != nil {
						return // cancelled
					}
					select {
					case <-gone:
					case <-ctx.Done():
					}
					_ = g.Release(context.Background())
				})
			}
		})
	}
	there := readers / 8 * 8
	h.eventually(func() bool { return h.requests() == there }, "not all are there")
	holders := func() int {
		state, err := c.Lock(t.Context(), "readers")
		require.NoError(t, err)
		return len(state.Holders)
	}
	h.eventually(func() bool { return holders() == min(there, most) }, "they do not hold it")

	start := time.Now()
	g := h.acquire(taker, "readers", lock.Request{Identity: priority.Identity{Owner: "taker"}, Terms: priority.Terms{Priority: 5, Forceful: true}})
	took := time.Since(start)
	h.eventually(func() bool { return int(lost.Load()) >= min(there, most) }, "not all learn of it")
	t.Logf("the lock was taken from %d readers in %v", min(there, most), took.Round(time.Millisecond))
	cancel()
	h.release(g)
	crowd.Wait()
	h.eventually(func() bool { return h.requests() == 0 }, "somebody is left")
}
