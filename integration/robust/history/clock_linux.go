package history

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now returns the time since the machine booted. All processes of the machine
// agree on it.
func Now() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic("robust: no CLOCK_BOOTTIME: " + err.Error())
	}
	return time.Duration(now.Nano())
}
