package otlp_test

import (
	"os"
	"testing"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
)

var (
	shared  testbed.Shared
	program string // the path of the program
)

func TestMain(m *testing.M) {
	os.Exit(harness.WithProgram(func(path string) int { program = path; return shared.Main(m) }))
}
