package zkserver

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/integration/internal/serverlog"
	"github.com/lockkeeper/lockkeeper/integration/internal/sharing"
)

// Start runs a server for the length of a test. When the test fails, the server's log is kept in a file,
// which is named.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	server, err := Run(t.Context(), opts...)
	if err != nil {
		t.Fatalf("start ZooKeeper: %v", err)
	}
	t.Cleanup(func() { finish(t, server.Close, server) })
	return server
}

// StartEnsemble runs an ensemble for the length of a test. See Start.
func StartEnsemble(t testing.TB, opts ...Option) *Ensemble {
	t.Helper()
	ensemble, err := RunEnsemble(t.Context(), opts...)
	if err != nil {
		t.Fatalf("start a ZooKeeper ensemble: %v", err)
	}
	t.Cleanup(func() { finish(t, ensemble.Close, ensemble.servers...) })
	return ensemble
}

func finish(t testing.TB, closeServers func() error, servers ...*Server) {
	t.Helper()
	for _, s := range servers {
		keepLog(t, s, 0)
	}
	if err := closeServers(); err != nil {
		t.Errorf("%v", err)
	}
}

// keepLog keeps what the server wrote after the first bytes of its log, if the test has failed.
func keepLog(t testing.TB, s *Server, from int) {
	t.Helper()
	if !t.Failed() {
		return
	}
	log, err := s.Log()
	if err != nil {
		t.Logf("%v", err)
		return
	}
	serverlog.Keep(t, s.Addr(), log[from:])
}

// ExpireSession ends a session on the server at addr, or fails the test. See CloseSession.
func ExpireSession(t testing.TB, addr string, id int64, password []byte) {
	t.Helper()
	if err := CloseSession(t.Context(), addr, id, password); err != nil {
		t.Fatalf("%v", err)
	}
}

// Root returns a path under "/" that no other test uses, named after the test. It is not created.
func Root(t testing.TB) string {
	t.Helper()
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune("/.\\ #", r) || r < ' ' || r > '~' {
			return '_'
		}
		return r
	}, t.Name())
	return "/" + name + "-" + rand.Text()[:8]
}

// Shared is one server for all tests of a package, started by the first that asks for it. The zero value runs one with
// default options. Tests that stop, pause or restart a server start one of their own instead.
//
//	var shared zkserver.Shared
//
//	func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }
type Shared struct {
	// Options are those of the server. They are read by the first call to Server.
	Options []Option

	one sharing.One[*Server]
}

// Server returns the shared server. When the test fails, what the server wrote to its log meanwhile is kept in a file.
func (s *Shared) Server(t testing.TB) *Server {
	t.Helper()
	server, err := s.one.Get(func() (*Server, error) { return Run(context.Background(), s.Options...) })
	if err != nil {
		t.Fatalf("start the shared ZooKeeper: %v", err)
	}
	before, err := server.Log()
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { keepLog(t, server, len(before)) })
	return server
}

// Main runs the tests and closes the server. See sharing.One.Main.
func (s *Shared) Main(m interface{ Run() int }, checks ...func() error) int {
	return s.one.Main(m.Run, checks...)
}
