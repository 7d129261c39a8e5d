//go:build !linux

package jobs

import (
	"os/signal"
	"syscall"
)

// withoutTTOU calls f while SIGTTOU is ignored, which has no other use here.
func withoutTTOU(f func() error) error {
	if signal.Ignored(syscall.SIGTTOU) {
		return f()
	}
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	return f()
}
