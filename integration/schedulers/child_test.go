package schedulers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// childVariable holds the settings of the process that this test binary is to
// be.
const childVariable = "LOCKKEEPER_SCHEDULERS_CHILD"

// settings say what a child is to do.
type settings struct {
	Contestant string // "" : the embedded server
	Jobs       int
	Period     time.Duration // 0: once an hour, and not now
	WarmUp     time.Duration
	Window     time.Duration // what is measured
	Locks      bool
	Daemons    int       // that share the jobs, each a child
	Begin      time.Time // of the window, the same for all of them
	Server     string    // address
	ServerPID  int
}

// result is what a child has seen, in its window if nothing else is said.
type result struct {
	Jobs    int
	Window  time.Duration // as it was
	CPU     time.Duration // of the process
	Server  time.Duration // likewise, of ZooKeeper's
	Heap    int64         // bytes more than without jobs, stacks included, after a collection at the window's end
	RSS     int64         // likewise, of what the process has from the kernel
	Ticks   int
	Skipped int              // ticks that were not run, since the start
	Late    [3]time.Duration // p50, p99, max
	Mallocs int64
	Bytes   int64     // allocated
	Writes  int64     // of the server, where they are counted
	Runs    []ranTick // of one of several daemons, since its start
}

func (r result) percent(d time.Duration) float64 { return 100 * d.Seconds() / r.Window.Seconds() }
func (r result) perJob(n int64) float64          { return float64(n) / float64(r.Jobs) }
func (r result) perTick(n int64) float64         { return float64(n) / float64(max(1, r.Ticks)) }

// runChild returns what a child tells at its end.
func runChild(t testing.TB, s settings) (r result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), s.WarmUp+s.Window+2*time.Minute)
	defer cancel()
	child := command(t, ctx, s)
	out, err := child.Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out, &r))
	return r
}

// command is this test binary, as a child.
func command(t testing.TB, ctx context.Context, s settings) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	encoded, err := json.Marshal(s)
	require.NoError(t, err)
	child := exec.CommandContext(ctx, self)
	child.Env = append(os.Environ(), childVariable+"="+string(encoded))
	child.Stderr = os.Stderr
	return child
}

// beChild is what a child does.
func beChild() error {
	var s settings
	if err := json.Unmarshal([]byte(os.Getenv(childVariable)), &s); err != nil {
		return err
	}
	if s.Contestant == "" {
		return serveEmbedded()
	}
	if s.Daemons > 0 {
		return beDaemon(s)
	}
	start, ok := contestants[s.Contestant]
	if !ok {
		return fmt.Errorf("no contestant is named %q", s.Contestant)
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.WarmUp+s.Window+2*time.Minute)
	defer cancel()
	r, err := measure(ctx, s, start)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// A contestant starts jobs, each of which calls ran with how late it is. It is
// ready to be measured when start returns, and calls prepared before there is
// anything that it does for a job.
type contestant func(ctx context.Context, s settings, prepared func(), ran func(late time.Duration)) (finish func() (skipped int, err error), err error)

func measure(ctx context.Context, s settings, start contestant) (r result, err error) {
	var late latenesses
	var heap, rss int64
	finish, err := start(ctx, s, func() { heap, rss = memory() }, late.add)
	if err != nil {
		return r, err
	}
	if err := wait(ctx, s.WarmUp); err != nil {
		return r, err
	}
	if s.Period == 0 {
		if err := quiet(ctx); err != nil {
			return r, err
		}
	}
	late.begin(s)
	before := look(s)
	if err := wait(ctx, s.Window); err != nil {
		return r, err
	}
	after := look(s)
	all := late.end()

	r = result{
		Jobs: s.Jobs, Window: after.at.Sub(before.at), CPU: after.cpu - before.cpu, Server: after.server - before.server,
		Ticks: len(all), Mallocs: after.mallocs - before.mallocs, Bytes: after.bytes - before.bytes,
	}
	if len(all) > 0 {
		slices.Sort(all)
		r.Late = [3]time.Duration{all[len(all)/2], all[len(all)*99/100], all[len(all)-1]}
	}
	r.Heap, r.RSS = memory()
	r.Heap, r.RSS = r.Heap-heap, r.RSS-rss
	r.Skipped, err = finish()
	return r, err
}

// quiet waits until the process has done what it does at its start.
func quiet(ctx context.Context) error {
	const enough = 20 * time.Millisecond // a second
	for {
		before := processor()
		if err := wait(ctx, time.Second); err != nil {
			return err
		}
		if processor()-before < enough {
			return nil
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// latenesses takes those of one window, from any goroutine.
type latenesses struct {
	mu   sync.Mutex
	open bool
	all  []time.Duration
}

func (l *latenesses) begin(s settings) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = true
	if s.Period > 0 {
		l.all = make([]time.Duration, 0, 2*int(s.Window/s.Period+1)*s.Jobs)
	}
}

func (l *latenesses) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open {
		l.all = append(l.all, d)
	}
}

func (l *latenesses) end() []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = false
	return l.all
}

// moment is what is counted, at one moment.
type moment struct {
	at             time.Time
	cpu, server    time.Duration
	mallocs, bytes int64
}

func look(s settings) moment {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return moment{
		at: time.Now(), cpu: processor(), server: processorOf(s.ServerPID),
		mallocs: int64(m.Mallocs), bytes: int64(m.TotalAlloc),
	}
}

// memory is what is in use, and what the process has from the kernel.
func memory() (heap, rss int64) {
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse), resident()
}

// serveEmbedded is the embedded server, until the parent is gone.
func serveEmbedded() error {
	server, err := startEmbedded()
	if err != nil {
		return err
	}
	fmt.Println(server.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return server.Close()
}
