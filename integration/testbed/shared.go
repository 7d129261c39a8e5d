package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
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

// Server returns the shared server. When the test fails, what the server wrote
// meanwhile is printed with it.
func (s *Shared) Server(t testing.TB) Server {
	t.Helper()
	server, err := s.start()
	if err != nil {
		t.Fatalf("start the shared ZooKeeper: %v", err)
	}
	printLog(t, server)
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

// Main runs the tests, closes the server and returns the exit code for os.Exit.
// When the tests pass, the checks are made after the server is gone; one that
// returns an error makes the code 1. For example:
//
//	os.Exit(shared.Main(m, func() error { return goleak.Find() }))
func (s *Shared) Main(m interface{ Run() int }, checks ...func() error) int {
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

// tail returns the last lines of a log, without the frames of Java's stack
// traces.
func tail(text string, lines int) string {
	var all []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "\tat ") {
			all = append(all, line)
		}
	}
	return strings.Join(all[max(0, len(all)-lines):], "")
}
