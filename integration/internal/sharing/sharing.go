// Package sharing lets all tests of a package use one server.
package sharing

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

// One is a server that tests share. The zero value is ready for use.
type One[S interface {
	comparable
	Close() error
}] struct {
	mu     sync.Mutex
	server S
	aside  []S
	err    error
}

// Get returns the server; the first call starts it. It outlives the test that starts it: that one's context must not
// bound it.
func (o *One[S]) Get(start func() (S, error)) (S, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var none S
	if o.server == none && o.err == nil {
		o.server, o.err = start()
	}
	return o.server, o.err
}

// PutAside makes the next Get start another server if this one is broken.
func (o *One[S]) PutAside(broken func(S) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var none S
	if o.server != none && broken(o.server) {
		o.aside, o.server = append(o.aside, o.server), none
	}
}

// Main runs the tests, closes the server and returns the exit code for os.Exit. When the tests pass, the
// checks are made after the server is gone; one that returns errors for a minute makes the code 1. For example:
//
//	os.Exit(shared.Main(m.Run, func() error { return goleak.Find() }))
func (o *One[S]) Main(run func() int, checks ...func() error) int {
	code := run()
	o.mu.Lock()
	defer o.mu.Unlock()
	var none S
	var errs []error
	for _, server := range append(o.aside, o.server) {
		if server != none {
			errs = append(errs, server.Close())
		}
	}
	if code == 0 {
		for _, check := range checks {
			errs = append(errs, settled(check))
		}
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintf(os.Stderr, "after the tests: %v\n", err)
		return max(code, 1)
	}
	return code
}

// settled makes a check until it succeeds: on a busy machine what has ended may take seconds to go.
func settled(check func() error) error {
	err := check()
	for deadline := time.Now().Add(3 * time.Minute); err != nil && time.Now().Before(deadline); err = check() {
		<-time.After(10 * time.Millisecond)
	}
	return err
}

// AtOnce lets n parallel tests run at once, unless -parallel says how many: tests that wait more than they compute.
func AtOnce(n int) {
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(strconv.Itoa(n))
	}
}
