package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// A scratch is the temporary directory of a run of dev. The run locks a file in it, so that the
// next one can tell what a killed process has left from what is in use: process ids are used again.
type scratch struct {
	dir  string
	lock *os.File
}

const (
	scratchPrefix = "lockkeeper-dev-"
	filesPrefix   = "lockkeeper-nightly-" // of the directory of the jobs' files, which examples/nightly makes
	scratchLock   = "lock"
	scratchFiles  = "files" // a link to that directory
)

// newScratch makes the directory of this run, and removes those of runs that were killed.
func newScratch() (*scratch, error) {
	removeLeftovers(os.TempDir())
	dir, err := os.MkdirTemp("", scratchPrefix)
	if err != nil {
		return nil, err
	}
	s := &scratch{dir: dir}
	// It is locked before it has its name: without a file of that name the directory is no leftover.
	draft := filepath.Join(dir, "draft")
	if s.lock, err = lockScratch(draft, os.O_CREATE|os.O_EXCL); err == nil {
		err = os.Rename(draft, filepath.Join(dir, scratchLock))
	}
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		s.remove()
		return nil, err
	}
	return s, nil
}

// keepsFiles notes where the jobs' files are: they are left by the same kill.
func (s *scratch) keepsFiles(dir string) {
	_ = os.Symlink(dir, filepath.Join(s.dir, scratchFiles)) // without it they stay
}

func (s *scratch) remove() {
	_ = os.RemoveAll(s.dir)
	if s.lock != nil {
		_ = s.lock.Close()
	}
}

// removeLeftovers removes what killed runs of this user have left. What cannot be removed stays.
func removeLeftovers(temporary string) {
	found, _ := filepath.Glob(filepath.Join(temporary, scratchPrefix+"*"))
	for _, dir := range found {
		if !isOwnDir(dir) {
			continue
		}
		lock, err := lockScratch(filepath.Join(dir, scratchLock), 0)
		if err != nil {
			continue // it is in use, or just made
		}
		files, err := os.Readlink(filepath.Join(dir, scratchFiles))
		if err == nil && filepath.Dir(files) == filepath.Clean(temporary) &&
			strings.HasPrefix(filepath.Base(files), filesPrefix) && isOwnDir(files) {
			_ = os.RemoveAll(files)
		}
		_ = os.RemoveAll(dir)
		_ = lock.Close()
	}
}
