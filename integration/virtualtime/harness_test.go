package virtualtime

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/lockguard"
)

type (
	world   = virtual.World
	program = virtual.Program
	work    = virtual.Work
)

const (
	scope = virtual.Scope
	tick  = virtual.Tick
	long  = virtual.Long
	day   = virtual.Day
)

var (
	run            = virtual.Run
	untilCancelled = virtual.UntilCancelled
	lasting        = virtual.Lasting
)

// each plays a test for each of several cases.
func each[C any](t *testing.T, cases map[string]C, body func(w *world, c C)) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { run(t, func(w *world) { body(w, c) }) })
	}
}

// contenders are the nodes of all requests.
func contenders(w *world) []virtual.Contender {
	return slices.DeleteFunc(virtual.Contenders(w.Server, "/lockkeeper"), func(c virtual.Contender) bool { return c.Stat.EphemeralOwner == 0 })
}

// A ledger is what the lock protects. It refuses a token smaller than one that it has seen.
type ledger struct {
	mu      sync.Mutex
	highest lockguard.Token
}

type staleError struct{ token, highest lockguard.Token }

func (e *staleError) Error() string {
	return fmt.Sprintf("token %s is refused: %s was here", e.token, e.highest)
}

func (l *ledger) write(token lockguard.Token) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if token < l.highest {
		return &staleError{token, l.highest}
	}
	l.highest = token
	return nil
}
