package foreign

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
)

var shared testbed.Shared

func TestMain(m *testing.M) {
	code, err := withProgram(func() int { return shared.Main(m, func() error { return goleak.Find() }) })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
