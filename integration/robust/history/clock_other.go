//go:build !linux

package history

import "time"

// Now returns the time that all processes of the machine agree on. Without
// CLOCK_BOOTTIME that is the wall clock, which must not be stepped meanwhile.
func Now() time.Duration { return time.Duration(time.Now().UnixNano()) }
