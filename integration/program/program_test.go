package program

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/internal/sharing"
	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

var (
	// A busy machine ends no session: each is that long, whatever timeout the program asks for.
	zookeeper = zkserver.Shared{Options: []zkserver.Option{zkserver.WithSessionTimeouts(harness.Session, harness.Session)}}
	binaries  string // the directory that has the program
)

func TestMain(m *testing.M) {
	harness.DefaultSignals()
	sharing.AtOnce(8) // scripts wait for processes
	os.Exit(harness.WithProgram(func(program string) int {
		binaries = filepath.Dir(program)
		return zookeeper.Main(m)
	}))
}

// -update writes what cmp compares anew into the scripts, to be read in the diff.
var update = flag.Bool("update", false, "write what the scripts compare with anew")

func TestProgram(t *testing.T) { run(t, "testdata", zookeeper.Server(t)) }

func TestProgramThatLosesItsSession(t *testing.T) {
	run(t, filepath.Join("testdata", "lost"), zkserver.Start(t, zkserver.WithSessionTimeouts(200*time.Millisecond, time.Minute)))
}

// run runs the scripts of a directory side by side, on one server.
func run(t *testing.T, dir string, server *zkserver.Server) {
	t.Helper()
	testscript.Run(t, testscript.Params{
		Dir:                dir,
		Cmds:               commands(),
		RequireUniqueNames: true,
		UpdateScripts:      *update,
		Setup:              func(env *testscript.Env) error { return setup(env, server) },
	})
}

// setup gives each story a root of its own, and a network that it can break.
func setup(env *testscript.Env, server *zkserver.Server) error {
	root := zkserver.Root(env.T().(testing.TB))
	network, err := netfault.Listen(server.Addr())
	if err != nil {
		return err
	}
	client, err := lock.NewClient(lock.Config{Servers: []string{server.Addr()}, Root: root, SessionTimeout: harness.Session})
	if err != nil {
		return err
	}
	s := &story{
		client: client, ledger: client.TickLedger("story"), network: network,
		processes: map[string]*process{}, runs: map[string]ticks.Run{},
	}
	env.Defer(func() {
		s.end()
		_ = network.Close()
		_ = client.Close(context.Background())
	})
	env.Values[storyKey{}] = s
	env.Setenv("PATH", binaries+string(os.PathListSeparator)+os.Getenv("PATH"))
	env.Setenv("LOCKKEEPER_ZK", server.Addr())
	env.Setenv("LOCKKEEPER_ROOT", root)
	env.Setenv("PROXY", network.Addr()) // the way to the same server through the network
	env.Setenv("GORACE", "atexit_sleep_ms=0")
	return nil
}
