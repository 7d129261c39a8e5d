package console

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/observability/console"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

const (
	crowdLocks   = 1000
	crowdWaiters = 10_000
	bounds       = 500 << 10 // bytes of a page
	apiBounds    = 300 << 10 // bytes of what the API answers without a limit in the request
)

// A crowd is what a lock.Lookout tells of a thousand locks, at which ten
// thousand wait: half of them for the first, which is served again and again. That
// a Lookout can follow so many is tested where it is.
type crowd struct {
	began  time.Time
	served chan struct{} // the first lock goes to the next waiter
}

func newCrowd() *crowd { return &crowd{began: time.Now(), served: make(chan struct{})} }

func crowdScope(i int) string { return fmt.Sprintf("cluster/eu-%d/resource/table-%04d", i%7, i) }

func (c *crowd) contender(scope int, n int) lock.Contender {
	return lock.Contender{
		ID: fmt.Sprintf("%08x%016x", scope, n), Identity: priority.Identity{Owner: fmt.Sprintf("job-%d-of-a-team", n%97), Host: fmt.Sprintf("worker-%d.example.net", n%50), PID: 1000 + n, Message: "part 12 of 20, for the report of the quarter", Class: "cluster/{region}/resource/{table}"},
		Terms: priority.Terms{LeaseTimeout: time.Hour, CleanupTimeout: time.Minute}, Joined: c.began.Add(-time.Duration(n) * time.Second / 10),
	}
}

func (c *crowd) lock(scope, from, waiters int) lock.State {
	l := lock.State{Scope: crowdScope(scope), At: time.Now()}
	holder := c.contender(scope, from)
	holder.Token, holder.Since, holder.LeaseLeft = lock.Token(1_000_000*(scope+1)+from), c.began, time.Hour
	l.Holders = []lock.Contender{holder}
	for i := range waiters {
		w := c.contender(scope, from+i+1)
		w.Position, w.Mode = i+1, priority.Exclusive
		l.Waiters = append(l.Waiters, w)
	}
	return l
}

func (c *crowd) Run(ctx context.Context, seen func(lock.Sighting)) error {
	const each = crowdWaiters / 2 / (crowdLocks - 1)
	first := crowdWaiters - each*(crowdLocks-1)
	for i := range crowdLocks {
		n := each
		if i == 0 {
			n = first
		}
		seen(lock.Sighting{State: c.lock(i, 0, n)})
	}
	seen(lock.Sighting{Synced: true})
	for n := 1; ; n++ {
		select {
		case <-c.served:
			seen(lock.Sighting{State: c.lock(0, n, first)}) // somebody else has joined
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func newCrowdedTown(t *testing.T) (*crowd, *live.Board, string) {
	t.Helper()
	c := newCrowd()
	board, err := live.New(live.Options{Source: c, Now: time.Now})
	require.NoError(t, err)
	harness.Run(t, "the board", board.Run)
	harness.Eventually(t, func() bool { return board.Now().Complete && len(board.Now().Locks) == crowdLocks }, "all locks are seen")
	require.Equal(t, crowdWaiters, board.Now().Totals.Waiters)
	return c, board, serve(t, console.Options{Board: board})
}

func TestPagesOfAThousandLocksAreSmall(t *testing.T) {
	_, _, url := newCrowdedTown(t)
	first := crowdScope(0)
	for _, path := range []string{
		"/", "/?sort=waiters", "/?q=worker-7", "/?from=900", "/locks/" + first, "/locks/" + first + "?from=4000&range=24h", "/locks/" + crowdScope(7),
		"/waits", "/heat", "/heat?range=24h", "/events",
		"/api/v1/locks", "/api/v1/locks/" + first, "/api/v1/waits", "/api/v1/heat", "/api/v1/events?limit=1000",
	} {
		began := time.Now()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
		require.NoError(t, err)
		answer, err := new(http.Client).Do(request)
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode, path)
		t.Logf("%-64s %4d KB, %3d ms", path, len(body)>>10, time.Since(began).Milliseconds())
		most := bounds
		if strings.HasPrefix(path, "/api/") {
			most = apiBounds
		}
		require.Less(t, len(body), most, path)
	}
}

func TestWhatIsPushedOfAThousandLocksIsBounded(t *testing.T) {
	t.Parallel()
	c, _, url := newCrowdedTown(t)
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/locks/"+crowdScope(0)+"?live=1", nil)
	require.NoError(t, err)
	began := time.Now()
	answer, err := new(http.Client).Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	go func() { // as fast as it goes
		for {
			select {
			case c.served <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	lines := bufio.NewReader(answer.Body)
	sizes, size := []int{}, 0
	for len(sizes) < 12 {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		if size += len(line); line == "\n" {
			sizes, size = append(sizes, size), 0
		}
	}
	took := time.Since(began)
	t.Logf("%d fragments in %s, %d KB at most", len(sizes), took.Round(time.Millisecond), slices.Max(sizes)>>10)
	require.Less(t, slices.Max(sizes), bounds)
	require.GreaterOrEqual(t, took, time.Duration(len(sizes)-1)*250*time.Millisecond, "not more than four in a second")
}

func TestABrowserKeepsUpWithAThousandLocks(t *testing.T) {
	t.Parallel()
	c, _, url := newCrowdedTown(t)
	b := open(t, url)
	b.visit("/locks/" + crowdScope(0))
	b.live()
	ask[bool](b, `(window.longest = 0, window.updates = 0, new PerformanceObserver(l => l.getEntries().forEach(e => window.longest = Math.max(window.longest, e.duration))).observe({entryTypes: ["longtask"]}),
		document.addEventListener("htmx:sse:after:message", () => window.updates++), true)`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	served := make(chan int, 1)
	go func() {
		n := 0
		defer func() { served <- n }()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			select {
			case c.served <- struct{}{}:
				n++
			case <-ctx.Done():
				return
			}
		}
	}()
	b.until("twelve updates", "window.updates >= 12")
	cancel()
	holder := c.lock(0, <-served, 1).Holders[0] // the board may not have heard of it yet
	b.until("the last one", `document.getElementById("holder-`+holder.ID+`")`)
	t.Logf("12 updates of a page with 5,000 waiters: the browser did not answer for %.0f ms at most", ask[float64](b, "window.longest"))
	b.click("After →")
	b.until("the next part of the queue", `document.querySelector("#queue tbody td")?.innerText === "51"`)
	b.visit("/")
	b.write("Filter by lock", "table-0999")
	b.press("\r")
	b.until("one lock", `document.querySelectorAll("#locks tbody tr").length === 1`)
}
