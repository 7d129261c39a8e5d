//go:build !linux

package nemesis

import "time"

// Now is the wall clock: there is no other that all processes share.
func Now() time.Duration { return time.Duration(time.Now().UnixNano()) }
