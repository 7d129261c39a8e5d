package prometheus

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/metrics"
	"github.com/lockkeeper/lockkeeper/observability/traces"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// The classes of locks that the play is about.
const (
	db      = "db"
	hotfix  = "hotfix"
	billing = "tenant/{id}/billing+tax" // as a pattern it would be another class
	tooMany = "one too many"            // for the worker that has room for one class alone
)

// A worker is a process that has locks and is scraped, but for being one of its
// own.
type worker struct {
	client *lock.Client
	guard  *lockguard.Guard
	locks  *metrics.Locks
	addr   string // where it is scraped
}

// startWorker starts a worker whose requests go to the chronicle and are traced.
func startWorker(t *testing.T, servers, root string, c *chronicle, spans *tracetest.SpanRecorder, options ...metrics.Option) *worker {
	t.Helper()
	client, err := lock.NewClient(lock.Config{Servers: []string{servers}, Root: root, SessionTimeout: sessionTimeout})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close(context.Background())) })

	endpoint, err := metrics.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, endpoint.Close(context.Background())) })
	w := &worker{client: client}
	w.locks, err = metrics.NewLocks(endpoint.Meter(), options...)
	require.NoError(t, err)
	endpoint.Show(w.locks)
	require.NoError(t, metrics.Client(endpoint.Meter(), client))

	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans), sdk.WithSampler(sdk.AlwaysSample()))
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.Background())) })
	w.guard, err = lockguard.New(client, append(traces.New(provider).Options(),
		lockguard.WithObserver(c.primer(w.locks.Observer(metrics.API))), lockguard.WithObserver(c.observe))...)
	require.NoError(t, err)

	listener := httptest.NewServer(endpoint.Handler())
	t.Cleanup(listener.Close)
	w.addr = strings.TrimPrefix(listener.URL, "http://")
	return w
}

// look has the worker tell of all locks of the cluster.
func (w *worker) look(t *testing.T) {
	t.Helper()
	lookout, err := w.client.Lookout(lock.LookoutOptions{})
	require.NoError(t, err)
	board, err := live.New(live.Options{Source: lookout, Now: w.client.Now})
	require.NoError(t, err)
	harness.Run(t, "the board", board.Run)
	require.NoError(t, w.locks.Cluster(board.Now, w.client.Now))
}

// sessionTimeout is so long that a busy machine breaks no connection, as panels show how many were made anew, and so short
// that there are heartbeats meanwhile.
const sessionTimeout = time.Minute

// A tenure is work under a lock that goes on until it is cancelled.
type tenure struct {
	*harness.Call[struct{}]
	t    *testing.T
	held chan struct{} // closed when the lock is held
	end  chan struct{}
}

// hold begins such work.
func (w *worker) hold(t *testing.T, r lockguard.Requirement, hooks ...lockguard.Hook) *tenure {
	t.Helper()
	h := &tenure{t: t, held: make(chan struct{}), end: make(chan struct{})}
	h.Call = harness.Go(t, "work under "+r.Scope, func() (struct{}, error) {
		return struct{}{}, w.guard.Do(t.Context(), r, func(ctx context.Context) error {
			close(h.held)
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-h.end:
				return nil
			}
		}, hooks...)
	})
	return h
}

// have waits until the lock is held.
func (h *tenure) have() *tenure {
	h.t.Helper()
	select {
	case <-h.held:
	case <-h.Done():
		require.FailNow(h.t, "it does not get the lock", "%v", h.Err())
	case <-time.After(harness.Patience):
		require.FailNow(h.t, "it does not get the lock")
	}
	return h
}

// release ends the work.
func (h *tenure) release() error {
	h.t.Helper()
	close(h.end)
	return h.Err()
}
