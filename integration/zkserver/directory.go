package zkserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	dirPrefix = "lockkeeper-zk-"
	ownerFile = "owner.lock"
)

// directory holds everything a server writes. It is locked while its owner lives, so that what a killed owner left
// behind (memory, under /dev/shm) can be told from what is in use, and is removed by the next one.
type directory struct {
	path string
	lock *os.File
}

func newDirectory(onDisk bool) (*directory, error) {
	parent := os.TempDir()
	if !onDisk && memoryFSUsable() {
		parent = memoryFS
	}
	removeAbandoned(parent)
	path, err := os.MkdirTemp(parent, dirPrefix)
	if err != nil {
		return nil, fmt.Errorf("make a directory for ZooKeeper: %w", err)
	}
	lock, err := lockFile(filepath.Join(path, ownerFile))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return &directory{path: path, lock: lock}, nil
}

func (d *directory) remove() error {
	return errors.Join(os.RemoveAll(d.path), d.lock.Close())
}

const memoryFS = "/dev/shm"

func memoryFSUsable() bool {
	probe, err := os.MkdirTemp(memoryFS, dirPrefix+"probe-")
	return err == nil && os.Remove(probe) == nil
}

// removeAbandoned is a courtesy: whatever fails is left to the next one.
func removeAbandoned(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, dirPrefix+"*"))
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) < time.Minute { // may be about to be locked
			continue
		}
		lock, err := lockFile(filepath.Join(dir, ownerFile))
		if err != nil {
			continue
		}
		_ = unmountData(dataDir(dir))
		_ = os.RemoveAll(dir)
		_ = lock.Close()
	}
}

func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	return file, nil
}
