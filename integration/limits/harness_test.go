package limits

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// soon is how long anything that must happen may take, on a busy machine.
const soon = 2 * time.Minute

// A house is a root of its own on the server. Its tests look at the whole process
// and at the whole server, so none runs beside another.
type house struct {
	*testing.T
	server testbed.Server
	root   string
}

func newHouse(t *testing.T) *house {
	return &house{T: t, server: shared.Server(t), root: testbed.Root(t)}
}

// newHouseAlone is a house on a server of its own, which it may harm.
func newHouseAlone(t *testing.T) *house {
	return &house{T: t, server: testbed.Start(t, testbed.Settings{}), root: testbed.Root(t)}
}

// client connects a client, which is closed at the end of the test if not before.
func (h *house) client(change ...func(*recipes.Config)) *recipes.Client {
	h.Helper()
	cfg := recipes.Config{Servers: []string{h.server.Addr()}, Root: h.root, SessionTimeout: 30 * time.Second}
	for _, f := range change {
		f(&cfg)
	}
	c, err := recipes.NewClient(cfg)
	require.NoError(h, err)
	h.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := c.Close(ctx); err != nil && !h.Failed() {
			require.ErrorIs(h, err, recipes.ErrClosed)
		}
	})
	ctx, cancel := context.WithTimeout(h.Context(), soon)
	defer cancel()
	require.NoError(h, c.Ready(ctx))
	return c
}

func (h *house) lock(c *recipes.Client, scope string) *recipes.PriorityLock {
	h.Helper()
	l, err := c.PriorityLock(scope)
	require.NoError(h, err)
	return l
}

func (h *house) acquire(c *recipes.Client, scope string, r recipes.Request) *recipes.Grant {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), soon)
	defer cancel()
	g, err := h.lock(c, scope).Acquire(ctx, r)
	require.NoError(h, err)
	return g
}

func (h *house) release(g *recipes.Grant) {
	h.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	require.NoError(h, g.Release(ctx))
}

// below counts the paths that lie below the house's root.
func (h *house) below(paths []string, err error) int {
	require.NoError(h, err)
	n := 0
	for _, p := range paths {
		if strings.HasPrefix(p, h.root+"/") {
			n++
		}
	}
	return n
}

func (h *house) requests() int { return h.below(h.server.Ephemerals(h.Context())) }
func (h *house) watches() int  { return h.below(h.server.Watches(h.Context())) }

// figures asks the server for its own counts.
func (h *house) figures() map[string]int {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), soon)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", h.server.Addr())
	require.NoError(h, err)
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	_, err = io.WriteString(conn, "mntr")
	require.NoError(h, err)
	text, err := io.ReadAll(conn)
	require.NoError(h, err)
	figures := map[string]int{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if n, err := strconv.Atoi(value); err == nil {
			figures[key] = n
		}
	}
	require.NotEmpty(h, figures)
	return figures
}

// eventually waits for what must become true.
func (h *house) eventually(is func() bool, what string, args ...any) {
	h.Helper()
	require.Eventually(h, is, soon, 50*time.Millisecond, append([]any{what}, args...)...)
}

// scopes counts the locks that have a node.
func (h *house) scopes(c *recipes.Client) int {
	h.Helper()
	found, err := c.Survey(h.Context(), recipes.SurveyOptions{Nodes: 1_000_000})
	require.NoError(h, err)
	require.True(h, found.Complete)
	require.Empty(h, found.Strangers)
	return found.Scopes
}

// all runs f for each of n, some at a time.
func all(n int, f func(i int)) {
	const hands = 16
	var crowd sync.WaitGroup
	for hand := range hands {
		crowd.Go(func() {
			for i := hand; i < n; i += hands {
				f(i)
			}
		})
	}
	crowd.Wait()
}

// A sample is what the process and the server have.
type sample struct {
	heap       int64 // bytes in use after a collection
	stacks     int64
	goroutines int
	files      int
	requests   int
	watches    int
}

func (h *house) sample() sample {
	h.Helper()
	runtime.GC()
	runtime.GC() // what finalizers and pools have let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		files = nil // not on this system
	}
	return sample{
		heap: int64(m.HeapAlloc), stacks: int64(m.StackInuse), goroutines: runtime.NumGoroutine(), files: len(files),
		requests: h.requests(), watches: h.watches(),
	}
}

func (s sample) String() string {
	return fmt.Sprintf("heap %d KiB, stacks %d KiB, %d goroutines, %d files, %d requests, %d watches",
		s.heap>>10, s.stacks>>10, s.goroutines, s.files, s.requests, s.watches)
}

// returnsTo waits until everything is as it was, but for a little memory: of
// tables that do not shrink, and of others who are at work meanwhile.
func (h *house) returnsTo(before sample, slack int64) sample {
	h.Helper()
	var now sample
	defer func() {
		if h.Failed() {
			h.Logf("it has %v", now)
		}
	}()
	h.eventually(func() bool {
		now = h.sample()
		return now.heap <= before.heap+slack && now.goroutines <= before.goroutines+2 && now.files <= before.files+1 &&
			now.requests <= before.requests && now.watches <= before.watches
	}, "not back to %v", before)
	return now
}
