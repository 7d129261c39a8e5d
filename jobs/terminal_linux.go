package jobs

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// withoutTTOU calls f on a thread that SIGTTOU cannot stop.
func withoutTTOU(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, blocked unix.Sigset_t
	blocked.Val[0] = 1 << (unix.SIGTTOU - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &blocked, &before); err != nil {
		return err
	}
	defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()
	return f()
}
