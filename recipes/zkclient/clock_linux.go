package zkclient

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspended returns how long the machine has slept since it booted, or less,
// by what passes between two readings: a process that is stopped between them
// has not slept.
func suspended() time.Duration {
	var mono, boot unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - mono.Nano())
}
