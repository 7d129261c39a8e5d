package harness

import (
	"flag"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

// DefaultSignals gives the processes that tests start the default action for signals, also where this process was
// started to ignore some, as by nohup or by a shell in the background. This process goes on ignoring those.
func DefaultSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // what is caught is reset for children, what is ignored is not
		}
	}
}

// AtOnce lets n parallel tests run at once, unless -parallel says how many: tests that wait more than they compute.
func AtOnce(n int) {
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(strconv.Itoa(n))
	}
}
