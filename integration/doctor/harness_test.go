package doctor

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/doctor"
	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

var shared zkserver.Shared

func TestMain(m *testing.M) {
	os.Exit(shared.Main(m, func() error { return goleak.Find() }))
}

// The shared server grants sessions up to 4s.
const session = 4 * time.Second

// at is how to reach a server, under a root that no other test uses.
func at(t *testing.T, addresses ...string) lock.Config {
	return lock.Config{Servers: addresses, Root: zkserver.Root(t), SessionTimeout: session}
}

// asAna is at with the password of a user, on the shared server.
func asAna(t *testing.T) lock.Config {
	cfg := at(t, shared.Server(t).Addr())
	cfg.Auth = &lock.Digest{User: "ana", Password: "secret"}
	return cfg
}

// examine examines, and prints the report of a test that fails.
func examine(t *testing.T, o doctor.Options) doctor.Report {
	t.Helper()
	if o.AdminPort == 0 {
		o.AdminPort = 1 // no server listens there
	}
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	report := doctor.Examine(ctx, o)
	require.NoError(t, ctx.Err(), "it has waited for what does not come")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("report of %s:\n%s", t.Name(), words(report))
		}
	})
	return report
}

func words(r doctor.Report) string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s %s: %s: %s\n\tdo: %s\n", f.Result, f.Check, f.Subject, f.Found, f.Do)
	}
	return b.String()
}

// finds requires a finding with this result of this check, whose subject and text
// contain these, and returns it.
func finds(t *testing.T, r doctor.Report, result doctor.Result, check, subject, found string) doctor.Finding {
	t.Helper()
	for _, f := range r.Findings {
		if f.Result == result && f.Check == check && strings.Contains(f.Subject, subject) && strings.Contains(f.Found, found) {
			if result == doctor.Problem {
				require.NotEmpty(t, f.Do, "a problem says what to do")
			}
			return f
		}
	}
	require.Fail(t, "not found", "%s %s %q %q in:\n%s", result, check, subject, found, words(r))
	return doctor.Finding{}
}

// none requires that nothing of this result was found, but by the checks that are
// about this machine, and about how fast it is at the moment.
func none(t *testing.T, r doctor.Report, results ...doctor.Result) {
	t.Helper()
	for _, result := range results {
		for _, f := range r.Findings {
			switch f.Check {
			case "time_sync", "files", "round_trips", "latency":
			default:
				require.NotEqual(t, result, f.Result, "%+v", f)
			}
		}
	}
}

// client is a client of these servers, closed by the end of the test.
func client(t *testing.T, cfg lock.Config) *lock.Client {
	t.Helper()
	return harness.NewClient(t, cfg)
}

// use takes a lock and gives it back, as any job does.
func use(t *testing.T, c *lock.Client, scope string) {
	t.Helper()
	l, err := c.PriorityLock(scope)
	require.NoError(t, err)
	g, err := l.Acquire(t.Context(), lock.Request{Identity: priority.Identity{Owner: "job"}})
	require.NoError(t, err)
	require.NoError(t, g.Release(t.Context()))
}

// shell is an administrator's connection, of these users.
func shell(t *testing.T, address string, users ...string) *zk.Conn {
	t.Helper()
	conn, _, err := zk.Connect([]string{address}, 4*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	for _, user := range users {
		require.NoError(t, conn.AddAuth("digest", []byte(user+":secret")))
	}
	return conn
}

// create creates open nodes.
func create(t *testing.T, conn *zk.Conn, paths ...string) {
	t.Helper()
	for _, path := range paths {
		_, err := conn.Create(path, nil, 0, harness.WorldACL)
		require.NoError(t, err)
	}
}
