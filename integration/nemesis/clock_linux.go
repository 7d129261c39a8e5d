package nemesis

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is the time since the machine started, by CLOCK_BOOTTIME: the same for all processes, whatever is done
// to wall clocks.
func Now() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(ts.Nano())
}
