//go:build !linux || !amd64

package robust

import (
	"errors"
	"os/exec"
	"time"
)

// A clockwork would set the wall clock of one process.
type clockwork struct{}

func (*clockwork) start(*exec.Cmd) error    { return errors.ErrUnsupported }
func (*clockwork) step(time.Duration) error { return errors.ErrUnsupported }
