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
	os.Exit(temporals.Main(func() int { return zookeeper.Main(m) }, func() error { return goleak.Find() }))
}
