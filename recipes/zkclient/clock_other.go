//go:build !linux

package zkclient

import "time"

// suspended is not known on this system: a suspend is noticed by the session
// that has expired meanwhile, and by the fencing token.
func suspended() time.Duration { return 0 }
