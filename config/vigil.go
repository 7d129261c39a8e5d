package config

import (
	"context"
	"time"
)

// A vigil is the watch over files that are read again when they have changed.
type vigil struct {
	*watcher
	debounce time.Duration   // how long files have to be left alone before they are read
	patience time.Duration   // how long changes that do not end put off the reading
	poll     time.Duration   // how often files are looked at though nothing told of a change
	trigger  <-chan struct{} // asks for a reading, changed or not
}

// keep calls read when files have changed, until ctx ends. seen is what was read
// of them last, and what read returns.
func (v vigil) keep(ctx context.Context, seen contents, read func() contents) {
	poll := time.NewTicker(v.poll)
	defer poll.Stop()
	var quiet <-chan time.Time // when the files have been left alone
	var since time.Time        // the first change that was not looked at
	for {
		asked := false
		select {
		case <-ctx.Done():
			return
		case <-v.dirty:
			if quiet == nil {
				since = time.Now()
			}
			if quiet == nil || time.Since(since) < v.patience {
				quiet = time.After(v.debounce)
			}
			continue
		case <-quiet:
		case <-poll.C:
			if quiet != nil {
				continue
			}
		case <-v.trigger:
			asked = true
		}
		quiet = nil
		v.follow(seen.files()) // links may lead elsewhere now
		if asked || seen.changed() {
			seen = read()
		}
	}
}
