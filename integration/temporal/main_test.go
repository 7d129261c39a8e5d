package temporal_test

import (
	"os"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/internal/sharing"
	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
)

// The servers of all tests that do them no harm.
var (
	zookeeper testbed.Shared
	temporals devserver.Shared
)

func TestMain(m *testing.M) {
	if text := os.Getenv(workerVariable); text != "" {
		os.Exit(beWorker(text))
	}
	sharing.AtOnce(max(5, runtime.GOMAXPROCS(0))) // most of them wait most of the time
	run := func() int { return withoutProgram(func() int { return zookeeper.Main(m) }) }
	os.Exit(temporals.Main(run, func() error { return goleak.Find() }))
}
