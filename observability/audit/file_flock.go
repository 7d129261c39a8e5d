//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package audit

import (
	"errors"
	"os"
	"syscall"
)

// noFollow opens no symbolic link, also not one that has just been put there.
const noFollow = syscall.O_NOFOLLOW

// lockFile keeps other processes from shipping to f until it is closed. It
// returns errTaken when another one does.
func lockFile(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errTaken
	}
	return err
}
