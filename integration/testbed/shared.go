package testbed

import (
	"context"
	"runtime"
	"testing"

	"github.com/lockkeeper/lockkeeper/integration/internal/sharing"
)

// Shared is one server for all tests of a package, started by the first that
// asks for it. Tests that stop, pause or restart a server Start one of their
// own.
type Shared struct {
	// Settings are those of the server. They are read by the first call to
	// Server.
	Settings Settings

	one sharing.One[Server]
}

// Server returns the shared server. When the test fails, the end of what the
// server has written is kept in a file.
func (s *Shared) Server(t testing.TB) Server {
	t.Helper()
	server, err := s.one.Get(func() (Server, error) { return Run(context.Background(), s.Settings) })
	if err != nil {
		t.Fatalf("start the shared ZooKeeper: %v", err)
	}
	t.Cleanup(func() { keepLog(t, server) })
	return server
}

// Main runs the tests, at least four at once unless -parallel says otherwise,
// and closes the server. Most of these tests wait for time to pass: on few
// cores more of them fit beside each other than the default allows. See
// sharing.One.Main.
func (s *Shared) Main(m interface{ Run() int }, checks ...func() error) int {
	sharing.AtOnce(max(4, runtime.GOMAXPROCS(0)))
	return s.one.Main(m.Run, checks...)
}
