package testbed

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
)

// Shared is one server for all tests of a package, started by the first that
// asks for it. Tests that stop, pause or restart a server Start one of their
// own.
type Shared struct {
	// Settings are those of the server. They are read by the first call to
	// Server.
	Settings Settings

	mu     sync.Mutex
	server Server
	err    error
}

// Server returns the shared server. When the test fails, the end of what the
// server has written is kept in a file.
func (s *Shared) Server(t testing.TB) Server {
	t.Helper()
	server, err := s.start()
	if err != nil {
		t.Fatalf("start the shared ZooKeeper: %v", err)
	}
	t.Cleanup(func() { keepLog(t, server) })
	return server
}

func (s *Shared) start() (Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil && s.err == nil {
		// It outlives the test that starts it: that one's context does not bound it.
		s.server, s.err = Run(context.Background(), s.Settings)
	}
	return s.server, s.err
}

// Main runs the tests, at least four at once unless -parallel says otherwise,
// closes the server and returns the exit code for os.Exit. When the tests pass,
// the checks are made after the server is gone; one that returns an error makes
// the code 1. For example:
//
//	os.Exit(shared.Main(m, func() error { return goleak.Find() }))
func (s *Shared) Main(m interface{ Run() int }, checks ...func() error) int {
	if err := crowd(4); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	var errs []error
	if s.server != nil {
		errs = append(errs, s.server.Close())
	}
	if code == 0 {
		for _, check := range checks {
			errs = append(errs, check())
		}
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintf(os.Stderr, "after the tests: %v\n", err)
		return max(code, 1)
	}
	return code
}

// crowd runs at least n parallel tests at once. Most of these tests wait for
// time to pass: on few cores more of them fit beside each other than the
// default allows.
func crowd(n int) error {
	flag.Parse()
	p := flag.Lookup("test.parallel")
	if p.Value.String() != p.DefValue {
		return nil
	}
	return flag.Set(p.Name, strconv.Itoa(max(n, runtime.GOMAXPROCS(0))))
}
