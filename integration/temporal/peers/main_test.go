package peers

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
)

var (
	zookeeper testbed.Shared
	temporals devserver.Shared
)

func TestMain(m *testing.M) {
	run := runner(func() int { return zookeeper.Main(m) })
	code := temporals.Main(run, func() error { return goleak.Find() })
	report.print(os.Stdout)
	os.Exit(code)
}

type runner func() int

func (r runner) Run() int { return r() }
