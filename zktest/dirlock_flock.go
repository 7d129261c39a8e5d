//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package zktest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// lockDir keeps other servers from writing into dir, until the file is closed
// or the process has ended.
func lockDir(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, errors.New("in use by another server; end that, or name another directory")
	}
	return file, nil
}
