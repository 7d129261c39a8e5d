package limits

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/survey"
)

var shared testbed.Shared

var full = flag.Bool("full", false, "play with all numbers: many minutes")

// size is how many there are, and how many with -full.
func size(few, many int) int {
	if *full {
		return many
	}
	return few
}

func TestMain(m *testing.M) {
	os.Exit(shared.Main(m, func() error { return goleak.Find() }))
}

// soon bounds a hang. With all numbers much takes longer than harness.Patience.
const soon = 3 * harness.Patience

// fixture is a root of its own on the server. Its tests look at the whole process
// and at the whole server, so none runs beside another.
type fixture struct{ *harness.Fixture }

func newFixture(t *testing.T) *fixture { return &fixture{harness.New(t, shared.Server(t))} }

// newAlone has a server of its own, which it may harm.
func newAlone(t *testing.T) *fixture { return &fixture{harness.NewAlone(t)} }

// client connects a client, which is closed at the end of the test if not before.
func (h *fixture) client(change ...func(*lock.Config)) *lock.Client {
	h.Helper()
	c := h.Client(change...)
	require.NoError(h, c.Ready(h.Context()))
	return c
}

func (h *fixture) acquire(c *lock.Client, scope string, r lock.Request) *lock.Grant {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), soon)
	defer cancel()
	g, err := h.Lock(c, scope).Acquire(ctx, r)
	require.NoError(h, err)
	return g
}

func (h *fixture) release(g *lock.Grant) {
	h.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	require.NoError(h, g.Release(ctx))
}

func (h *fixture) requests() int { return len(h.Ephemerals()) }
func (h *fixture) watches() int  { return len(h.Watches()) }

// figures asks the server for its own counts.
func (h *fixture) figures() map[string]int {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), soon)
	defer cancel()
	text, err := zkserver.Ask(ctx, h.Server.Addr(), "mntr")
	require.NoError(h, err)
	figures := map[string]int{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if n, err := strconv.Atoi(value); err == nil {
			figures[key] = n
		}
	}
	require.NotEmpty(h, figures)
	return figures
}

// eventually waits for what must become true.
func (h *fixture) eventually(is func() bool, what string, args ...any) {
	h.Helper()
	for deadline := time.Now().Add(soon); !is(); <-time.After(50 * time.Millisecond) {
		require.Less(h, time.Now(), deadline, append([]any{what}, args...)...)
	}
}

// scopes counts the locks that have a node.
func (h *fixture) scopes(c *lock.Client) int {
	h.Helper()
	found, err := survey.Take(h.Context(), c.Client, survey.Options{Nodes: 1_000_000})
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

func (h *fixture) sample() sample {
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
func (h *fixture) returnsTo(before sample, slack int64) sample {
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
