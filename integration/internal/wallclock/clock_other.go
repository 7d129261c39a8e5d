//go:build !linux || !amd64

package wallclock

import (
	"errors"
	"os/exec"
	"time"
)

// A Clock would be the wall clock of one process.
type Clock struct{}

// Start returns errors.ErrUnsupported.
func (*Clock) Start(*exec.Cmd, time.Duration) error { return errors.ErrUnsupported }

// Step returns errors.ErrUnsupported.
func (*Clock) Step(time.Duration) error { return errors.ErrUnsupported }
