package ensembles

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
)

func TestMain(m *testing.M) {
	var none testbed.Shared
	os.Exit(none.Main(m, func() error { return goleak.Find() }))
}
