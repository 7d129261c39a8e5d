package limits

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Given users of many locks, when every few milliseconds all locks are removed
// that are unused at that moment, then no user fails, no two hold one lock, and
// its tokens grow across all removals.
func TestLocksThatGoAllTheTime(t *testing.T) {
	h := newFixture(t)
	const users, scopes = 20, 400
	rooms := make([]harness.Room, scopes)
	clients := make([]*lock.Client, 5)
	for i := range clients {
		clients[i] = h.client()
	}
	collector, rival := h.client(), h.client()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	var crowd, sweep sync.WaitGroup
	var cycles, removed, transactions atomic.Int64
	over := make(chan struct{})
	for _, c := range []*lock.Client{collector, rival} {
		sweep.Go(func() {
			for {
				found, err := c.CollectIdle(ctx, lock.IdleOptions{Older: 1})
				if err != nil {
					t.Errorf("collect: %v", err)
					return
				}
				removed.Add(int64(len(found.Removed)))
				transactions.Add(int64(found.Transactions))
				select {
				case <-over:
					return
				case <-time.After(time.Millisecond):
				}
			}
		})
	}
	want := int64(size(1500, 100_000))
	for u := range users {
		c := clients[u%len(clients)]
		crowd.Go(func() {
			for cycles.Add(1) <= want && !t.Failed() {
				if err := visit(ctx, c, rooms, u); err != nil {
					t.Errorf("user %d: %v", u, err)
					return
				}
			}
		})
	}
	crowd.Wait()
	close(over)
	sweep.Wait()
	t.Logf("%d cycles, while %d locks were removed in %d transactions", want, removed.Load(), transactions.Load())
	for i := range rooms {
		rooms[i].WasInOrder(t)
	}
	require.Positive(t, removed.Load())
	require.Zero(t, h.requests())
	h.eventually(func() bool {
		_, err := collector.CollectIdle(ctx, lock.IdleOptions{Older: 1})
		require.NoError(t, err)
		return h.scopes(collector) == 0
	}, "unused locks are left")
}

// visit takes one lock, at random, and gives it back.
func visit(ctx context.Context, c *lock.Client, rooms []harness.Room, user int) error {
	i := rand.N(len(rooms))
	r := lock.Request{Identity: priority.Identity{Owner: fmt.Sprintf("user %d", user)}, Terms: priority.Terms{Priority: priority.Level(rand.N(3))}}
	if rand.N(4) == 0 {
		r.Mode = priority.Shared
	}
	l, err := c.PriorityLock(fmt.Sprintf("storm/%d", i))
	if err != nil {
		return err
	}
	g, err := l.Acquire(ctx, r)
	if err != nil {
		return err
	}
	token, err := g.Token(ctx)
	if err != nil {
		return err
	}
	rooms[i].Enter(r.Mode, token)
	if rand.N(3) == 0 {
		select {
		case <-time.After(time.Duration(rand.N(2000)) * time.Microsecond):
		case <-ctx.Done():
		}
	}
	rooms[i].Leave(r.Mode)
	return g.Release(context.WithoutCancel(ctx))
}
