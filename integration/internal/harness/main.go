package harness

import (
	"os"
	"os/signal"
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
