package virtual

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const (
	// Scope is the lock of programs that ask for no other one.
	Scope = "cluster/orders"

	// Tick is that of the server.
	Tick = 2 * time.Second

	// Long is the longest session timeout: few pings in many hours.
	Long = time.Hour

	// Day is longer than anything waits.
	Day = 24 * time.Hour

	// frames is how many of the last ones a failure prints.
	frames = 250
)

// World is a server and its users.
type World struct {
	*testing.T
	*zktest.Server

	History *harness.History

	start time.Time
}

// Run plays a test in a world of its own. It fails as well when a goroutine outlives it.
func Run(t *testing.T, body func(w *World), options ...zktest.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &World{T: t, History: harness.NewHistory(t), start: time.Now()}
		w.Server = zktest.RunT(t, append([]zktest.Option{
			zktest.Pipe(), zktest.TickTime(Tick), zktest.SessionTimeouts(time.Second, Long),
		}, options...)...)
		defer func() {
			if t.Failed() {
				t.Logf("what was sent:\n%s\nnodes:\n%s", w.Frames(), w.Dump())
				_ = w.Close() // what a rule holds
			}
		}()
		body(w)
	})
}

// Frames are the last frames, a line each.
func (w *World) Frames() string {
	trace := w.Trace()
	var lines []string
	for _, e := range trace[max(0, len(trace)-frames):] {
		lines = append(lines, e.String())
	}
	return strings.Join(lines, "\n")
}

// Now is the time since the world began.
func (w *World) Now() time.Duration { return time.Since(w.start) }

// Since is an instant as time since the world began.
func (w *World) Since(at time.Time) time.Duration { return at.Sub(w.start) }

// At is an instant, given as time since the world began.
func (w *World) At(d time.Duration) time.Time { return w.start.Add(d) }

// Begin lets the world begin at the server's next tick.
func (w *World) Begin() {
	<-time.After(Tick - time.Since(w.start)%Tick)
	w.start = time.Now()
}

// Until lets time pass up to an instant, and all clients do what is due by then.
func (w *World) Until(at time.Duration) {
	w.Helper()
	require.GreaterOrEqual(w, at, w.Now(), "that is over")
	w.Pass(at - w.Now())
}

// Pass lets time pass, and all clients do what is due by then.
func (w *World) Pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// Connect returns a client that is closed at the end of the test. Its connections have its name.
func (w *World) Connect(name string, session time.Duration, change ...func(*lock.Config)) *lock.Client {
	w.Helper()
	cfg := lock.Config{Dialer: w.Dialer(name), SessionTimeout: session}
	for _, f := range change {
		f(&cfg)
	}
	client, err := lock.NewClient(cfg)
	require.NoError(w, err)
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Day)
		defer cancel()
		if err := client.Close(ctx); !w.Failed() && !errors.Is(err, lock.ErrClosed) {
			require.NoError(w, err, "close the client of %s", name)
		}
	})
	require.NoError(w, client.Ready(w.Context()), name)
	return client
}

// Dialer is how a client connects.
type Dialer = func(ctx context.Context, network, address string) (net.Conn, error)
