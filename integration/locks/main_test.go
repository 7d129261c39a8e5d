package locks

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
)

// shared serves every test that does it no harm.
var shared testbed.Shared

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		if err := beChild(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Most of these tests wait for time to pass: on few cores more of them fit
	// beside each other than the default allows.
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue {
		if err := flag.Set(p.Name, strconv.Itoa(max(4, runtime.GOMAXPROCS(0)))); err != nil {
			panic(err)
		}
	}
	os.Exit(shared.Main(m, func() error { return goleak.Find() }))
}
