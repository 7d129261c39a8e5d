package interleavings

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
)

// shared is the real server, for all tests that run on it.
var shared testbed.Shared

func TestMain(m *testing.M) {
	os.Exit(shared.Main(m, func() error { return goleak.Find() }))
}
