package orders

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// FencedError is returned to a writer that has lost its lock to another holder
// meanwhile. Nothing was written.
type FencedError struct {
	Token  int64 // of the one who wanted to write
	Latest int64 // that was seen
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("refused by the data set: token %d is older than %d, which has written since", e.Token, e.Latest)
}

// fenced runs write unless a newer token than the given one has been seen.
// No writer with a newer token gets in between.
func (s *Set) fenced(token int64, write func() error) (err error) {
	file, err := os.OpenFile(s.path(fenceName), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }() // also unlocks
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	latest, err := s.latestToken()
	if err != nil {
		return err
	}
	switch {
	case token < latest:
		return &FencedError{Token: token, Latest: latest}
	case token > latest:
		if _, err := file.WriteAt([]byte(strconv.FormatInt(token, 10)+"\n"), 0); err != nil {
			return err
		}
	}
	return write()
}

func (s *Set) latestToken() (int64, error) {
	data, err := os.ReadFile(s.path(fenceName))
	if errors.Is(err, fs.ErrNotExist) || len(data) == 0 {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
}
