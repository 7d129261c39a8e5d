package limits

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
)

var shared testbed.Shared

var full = flag.Bool("full", false, "play with all numbers: many minutes")

// size is how many there are, and how many with -full.
func size(few, many int) int {
	if *full {
		return many
	}
	return few
}

func TestMain(m *testing.M) {
	os.Exit(shared.Main(m, func() error { return goleak.Find() }))
}
