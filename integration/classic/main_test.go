package classic

import (
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
)

// sweep is how often the shared server removes unused directories.
const sweep = 100 * time.Millisecond

// shared serves every test that does it no harm.
var shared = testbed.Shared{Settings: testbed.Settings{Sweep: sweep}}

func TestMain(m *testing.M) {
	os.Exit(shared.Main(m, func() error { return goleak.Find() }))
}
