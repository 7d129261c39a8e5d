//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package timings

import (
	"errors"
	"os"
	"syscall"
)

// lockFile keeps the file from other processes, until it is closed or this
// process has ended. It returns errTaken when another one has it.
func lockFile(name string) (*os.File, error) {
	for {
		file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o640)
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			_ = file.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				return nil, errTaken
			}
			return nil, err
		}
		// Somebody may have removed it as too old before it was locked.
		ours, err := file.Stat()
		if err == nil {
			there, err := os.Stat(name)
			if err == nil && os.SameFile(ours, there) {
				return file, nil
			}
		}
		_ = file.Close()
	}
}
