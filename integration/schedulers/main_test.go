package schedulers

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

var crowd = flag.Int("jobs", 10_000, "how many jobs each contestant has")

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		if err := beChild(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	os.Exit(m.Run())
}
