package limits

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Given one client that takes and gives back very many locks, each once, then what
// it remembers of them has an end, and nothing of it watches; and when unused ones
// are removed, then the server forgets them as well.
func TestScopesThatWereTouchedOnceAreForgotten(t *testing.T) {
	ways := map[string]int{"each by itself": 0}
	if *full {
		ways["with a local queue"] = 4
	}
	for way, line := range ways {
		t.Run(way, func(t *testing.T) {
			newAlone(t).touchMany(size(10_000, 100_000), func(cfg *lock.Config) { cfg.LocalQueue = line })
		})
	}
}

// bytesForAScope is what one that was touched may leave in the client, between a
// tenth of them and all. The names alone take as much. The client remembers some
// thousands, which is less than there are here, and then begins anew.
const bytesForAScope = 64

func (h *fixture) touchMany(n int, change func(*lock.Config)) {
	c := h.client(change)
	all(16, func(i int) { h.touch(c, -1-i) })
	before, bare := h.census()
	h.Logf("before: %v, %v", before, bare)

	var samples []sample
	touched := 0
	var took time.Duration
	var full stock
	for _, upTo := range []int{n / 10, n / 2, n} {
		start, from := time.Now(), touched
		all(upTo-from, func(i int) { h.touch(c, from+i) })
		took, touched = took+time.Since(start), upTo
		h.eventually(func() bool { return h.requests()+h.watches() == 0 }, "somebody is left")
		now, has := h.census()
		full = has
		h.Logf("%d scopes: %v, %v", touched, now, has)
		require.LessOrEqual(h, now.goroutines, before.goroutines+2)
		require.LessOrEqual(h, now.files, before.files+1)
		require.LessOrEqual(h, has.watches, bare.watches)
		samples = append(samples, now)
	}
	early, late := samples[0], samples[2]
	h.Logf("each: %v, %d B in the client's heap from the first tenth on, %.2f nodes and %d B at the server",
		(took / time.Duration(n)).Round(time.Microsecond), (late.heap-early.heap)/int64(n-n/10),
		float64(full.nodes-bare.nodes)/float64(n), (full.bytes-bare.bytes)/n)
	if backend, err := testbed.Selected(); err == nil && backend == testbed.Real { // the other one is in this process
		require.Less(h, (late.heap-early.heap)/int64(n-n/10), int64(bytesForAScope), "bytes that the client keeps for each scope")
	}

	first := h.token(c, 0)
	start, removed, transactions := time.Now(), 0, 0
	h.eventually(func() bool {
		found, err := c.CollectIdle(h.Context(), lock.IdleOptions{Older: 1})
		require.NoError(h, err)
		removed, transactions = removed+len(found.Removed), transactions+found.Transactions
		return h.scopes(c) == 0
	}, "scopes are left")
	took = time.Since(start)
	after, has := h.census()
	h.Logf("%d scopes were removed in %d transactions, in %v; after that %v, %v", removed, transactions, took.Round(time.Millisecond), after, has)
	const buckets = 256 // they stay, and a handful of nodes that belong to the root
	require.LessOrEqual(h, has.nodes, bare.nodes+buckets+8)
	require.LessOrEqual(h, has.watches, bare.watches)
	h.returnsTo(late, 1<<20)
	require.Greater(h, h.token(c, 0), first, "tokens of a scope that was removed go on growing")
}

// Given a live view of a root in which scopes come and are removed for good, then it watches those that are there, keeps
// nothing of those that are not, and leaves no goroutine behind.
func TestLiveViewForgetsScopesThatGo(t *testing.T) {
	h := newAlone(t)
	n := size(2000, 20_000)
	viewer := h.client()
	idle := h.sample()
	look, err := viewer.Lookout(lock.LookoutOptions{})
	require.NoError(t, err)
	b, err := live.New(live.Options{Source: look, Now: viewer.Now, Keep: live.Keep{Total: 100, Entries: 100, Heat: 100}})
	require.NoError(t, err)
	running, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { _ = b.Run(running) })
	defer work.Wait()
	defer stop()
	h.touch(viewer, -1)
	h.eventually(func() bool { return b.Now().Complete && h.watches() == 1 }, "not all has been seen")

	before := h.sample()
	var there []sample
	for round := range 2 {
		c, err := lock.NewClient(lock.Config{Servers: []string{h.Server.Addr()}, Root: h.Root})
		require.NoError(t, err)
		all(n, func(i int) { h.touch(c, round*n+i) })
		h.eventually(func() bool { return h.watches() >= n && b.Now().Totals.Holders == 0 }, "not all has been seen")
		there = append(there, h.sample())
		h.eventually(func() bool {
			_, err := c.CollectIdle(t.Context(), lock.IdleOptions{Older: 1})
			require.NoError(t, err)
			return h.watches() == 0 && len(b.Now().Locks) == 0 // each was seen to go
		}, "scopes are watched that are not there")
		require.NoError(t, c.Close(t.Context())) // with what it remembers
		t.Logf("%d unused scopes: %v, which is %d B and %.2f watches for each; when they are gone: %v",
			n, there[round], (there[round].heap-before.heap)/int64(n), float64(there[round].watches)/float64(n), h.sample())
	}
	grown := (there[1].heap - there[0].heap) / int64(n)
	t.Logf("%d B for each that has come and gone in the second round", grown)
	if backend, err := testbed.Selected(); err == nil && backend == testbed.Real {
		require.Less(t, grown, int64(bytesForAScope))
	}
	require.LessOrEqual(t, there[1].goroutines, there[0].goroutines+2)
	stop()
	work.Wait()
	h.eventually(func() bool { return h.sample().goroutines <= idle.goroutines+2 }, "goroutines are left")
}

// touch takes a lock and gives it back, in one of the ways in which that is done.
func (h *fixture) touch(c *lock.Client, i int) {
	r := lock.Request{Identity: priority.Identity{Owner: fmt.Sprintf("owner of %d", i)}}
	switch i % 4 {
	case 1:
		r.Mode = priority.Shared
	case 2:
		r.Hold = fmt.Sprintf("hold of %d", i)
	case 3:
		r.Priority = 7
	}
	l, err := c.PriorityLock(fmt.Sprintf("touched/cluster/orders/resource/%d", i))
	if err == nil {
		var g *lock.Grant
		if g, err = l.Acquire(h.Context(), r); err == nil {
			err = g.Release(context.WithoutCancel(h.Context()))
		}
	}
	if err != nil {
		h.Errorf("scope %d: %v", i, err)
	}
}

func (h *fixture) token(c *lock.Client, i int) lock.Token {
	h.Helper()
	g := h.acquire(c, fmt.Sprintf("touched/cluster/orders/resource/%d", i), lock.Request{})
	token, err := g.Token(h.Context())
	require.NoError(h, err)
	h.release(g)
	return token
}

// A stock is what the server has by its own count.
type stock struct{ nodes, bytes, watches int }

func (s stock) String() string {
	return fmt.Sprintf("the server: %d nodes with %d KiB, %d watches", s.nodes, s.bytes>>10, s.watches)
}

func (h *fixture) census() (sample, stock) {
	h.Helper()
	figures := h.figures()
	return h.sample(), stock{
		nodes: figures["zk_znode_count"], bytes: figures["zk_approximate_data_size"], watches: figures["zk_watch_count"],
	}
}
