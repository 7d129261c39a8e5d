package helix

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
)

// tick is the unit of the server's clock: sessions end on one.
const tick = 200 * time.Millisecond

// shared serves all tests.
var shared = testbed.Shared{Settings: testbed.Settings{Tick: tick}}

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		if err := beChild(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(shared.Main(m, func() error { return goleak.Find() }))
}
