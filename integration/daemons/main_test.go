package daemons

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

// session is the session timeout of daemons that stay connected: long, so that
// a busy machine ends none by accident.
const session = 20 * time.Second

// shared serves every test that does it no harm.
var shared = zkserver.Shared{Options: []zkserver.Option{longSessions}}

var longSessions = zkserver.WithSessionTimeouts(400*time.Millisecond, time.Minute)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		if err := beChild(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// These tests wait for daemons more than they have to do.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(shared.Main(m, func() error { return goleak.Find() }))
}
