package testbed

import (
	"fmt"
	"os"
)

// Variable is the environment variable that selects the backend.
const Variable = "LOCKKEEPER_TEST_ZK"

// Backend is a kind of ZooKeeper server.
type Backend string

// The backends that there are.
const (
	Real     Backend = "real"     // Apache's server; see package zkserver for where it is found
	Embedded Backend = "embedded" // package zktest
)

// Selected returns the backend that the environment asks for: Real when
// Variable is empty or not set. Any other value than those of the constants is
// an error.
func Selected() (Backend, error) {
	switch b := Backend(os.Getenv(Variable)); b {
	case "":
		return Real, nil
	case Real, Embedded:
		return b, nil
	default:
		return "", fmt.Errorf("testbed: %s=%q is not a backend; write %s or %s", Variable, string(b), Embedded, Real)
	}
}
