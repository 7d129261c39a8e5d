package foreign

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
)

var shared testbed.Shared

func TestMain(m *testing.M) {
	os.Exit(shared.Main(m, func() error { return goleak.Find() }))
}
