package helix

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
)

const (
	// tick is the unit of the server's clock: sessions end on one.
	tick = 200 * time.Millisecond

	// soon is how long anything that must happen may take on a busy machine.
	soon = 30 * time.Second
)

// shared serves all tests. Sessions may be long, so that a busy machine ends
// none by accident.
var shared = testbed.Shared{Settings: testbed.Settings{Tick: tick, LongestSession: 2 * time.Minute}}

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		if err := beChild(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(shared.Main(m, leaks))
}

// leaks returns what goroutines are left, after some time for those on their way
// out.
func leaks() error {
	for deadline := time.Now().Add(soon / 3); ; {
		if err := goleak.Find(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
