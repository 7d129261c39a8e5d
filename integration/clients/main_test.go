package clients

import (
	"flag"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

const (
	// tick is the unit of both servers' clocks.
	tick = 200 * time.Millisecond

	// longest is how long a session may be: long enough that a busy machine ends none by accident.
	longest = time.Minute

	// sweep is how often both servers look for containers and nodes with a time to live that are to go.
	sweep = 100 * time.Millisecond

	// patience is how long one run of a client may take on a busy machine.
	patience = 4 * time.Minute
)

var update = flag.Bool("update", false, "write the transcripts of the real server into testdata")

// shared is the real server of all scenarios that do it no harm.
var shared = zkserver.Shared{Options: realOptions()}

func TestMain(m *testing.M) {
	os.Exit(shared.Main(m, func() error { return goleak.Find() }))
}
