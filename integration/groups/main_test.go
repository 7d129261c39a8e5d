package groups

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
)

// shared serves every test that does it no harm.
var shared testbed.Shared

func TestMain(m *testing.M) { os.Exit(shared.Main(m, func() error { return goleak.Find() })) }
