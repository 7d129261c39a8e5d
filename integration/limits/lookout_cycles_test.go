package limits

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Given a live view of locks that come and go, then what has gone leaves nothing: no
// watch at the server, no goroutine, no memory but that of the history's bounds.
func TestLiveViewOfLocksThatComeAndGoDoesNotGrow(t *testing.T) {
	h := newFixture(t)
	cycles := size(300, 10_000)
	locker, viewer := h.client(), h.client()
	h.release(h.acquire(locker, "warm", recipes.Request{})) // the root, and what is made once
	shell := h.Shell()
	_, _, err := shell.Exists("/") // so that its goroutines are there
	require.NoError(t, err)
	before := h.sample()

	look, err := viewer.Lookout(recipes.LookoutOptions{Gap: 10 * time.Millisecond})
	require.NoError(t, err)
	b, err := live.New(live.Options{Source: look, Now: viewer.Now, Keep: live.Keep{Total: 100, PerLock: 10, Entries: 100, Heat: 10}})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { _ = b.Run(ctx) })
	h.eventually(func() bool { return b.Now().Complete }, "it has not begun")

	// when locks are made, used and collected
	collect := func() {
		rooms, _, err := shell.Children(h.Root + "/locks")
		require.NoError(t, err)
		all(len(rooms), func(i int) {
			room := h.Root + "/locks/" + rooms[i]
			names, _, err := shell.Children(room)
			require.NoError(h, err)
			for _, name := range names {
				if strings.HasPrefix(name, "come-and-go") {
					require.NoError(h, shell.Delete(room+"/"+name, -1))
				}
			}
		})
	}
	made := 0
	round := func(n int) {
		const each = 100
		for range n / each {
			all(each, func(i int) {
				scope := fmt.Sprintf("come-and-go/%d", made+i)
				g := h.acquire(locker, scope, recipes.Request{})
				if i == 0 {
					h.eventually(func() bool { return len(b.Timeline(scope, time.Time{}, time.Time{}).Rows) == 1 }, "it is not seen")
				}
				h.release(g)
			})
			made += each
			collect()
		}
		h.eventually(func() bool { return len(b.Now().Locks) == 1 }, "locks are shown that are not there")
	}
	round(size(300, 1000)) // with all rooms, and what tables grow to
	const ofRoot = 3       // the lists of rooms and of locks are not counted here
	middle := h.sample()
	require.LessOrEqual(t, middle.watches, before.watches+ofRoot)
	start := time.Now()
	round(cycles)
	after := h.sample()
	t.Logf("%d locks came and went in %v: at first %v; in the middle %v; then %v", cycles, time.Since(start).Round(time.Millisecond), before, middle, after)
	require.LessOrEqual(t, after.watches, before.watches+ofRoot, "watches of locks that are gone")
	require.LessOrEqual(t, after.goroutines, middle.goroutines+2)
	require.LessOrEqual(t, after.heap, middle.heap+2<<20)

	// and nothing runs on when nobody looks any more
	stop()
	work.Wait()
	h.eventually(func() bool { return h.sample().goroutines <= before.goroutines+2 }, "goroutines are left")
}
