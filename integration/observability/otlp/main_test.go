package otlp_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
)

var (
	shared  testbed.Shared
	program string // the path of the program
)

func TestMain(m *testing.M) {
	code, err := withProgram(func() int { return shared.Main(m) })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withProgram(test func() int) (code int, err error) {
	dir, err := os.MkdirTemp("", "lockkeeper-otlp-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "lockkeeper")
	build := exec.Command("go", "build", "-o", program, "github.com/lockkeeper/lockkeeper/cmd/lockkeeper")
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return test(), nil
}
