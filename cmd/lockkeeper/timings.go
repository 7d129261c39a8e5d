package main

import (
	"log/slog"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/timings"
)

// measure keeps what locks really take in the state directory, if there is one.
// Jobs run without it, too: what is wrong with it is logged.
func measure(dir string, logger *slog.Logger) (observe lockguard.Observer, stop func()) {
	ignore := func() {}
	if dir == "" {
		return nil, ignore
	}
	store, err := timings.Open(dir, logger)
	if err != nil {
		logger.Warn("nothing is measured for lockkeeper jobs advise", "error", err)
		return nil, ignore
	}
	return store.Observe, func() {
		if err := store.Close(); err != nil {
			logger.Warn("what was measured in the last minute is lost", "file", store.Name(), "error", err)
		}
	}
}
