package resource

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// A File is the path of a resource. The first user creates it.
type File string

// State is what a resource remembers.
type State struct {
	Token int64 // the greatest one of an accepted write, or of a read
	Count int64 // of accepted writes
}

// ErrStale is returned for a write with a token that is smaller than one that
// was used before.
var ErrStale = errors.New("stale token")

// Write writes with a token, and returns the state after that. The error is, or
// wraps, ErrStale when the write was refused.
func (f File) Write(token int64) (State, error) {
	return f.with(syscall.LOCK_EX, func(file *os.File, s State) (State, error) {
		if token < s.Token {
			return s, ErrStale
		}
		s = State{Token: token, Count: s.Count + 1}
		return s, s.write(file)
	})
}

// Read returns the state, and fences off writers with a smaller token.
func (f File) Read(token int64) (State, error) {
	return f.with(syscall.LOCK_EX, func(file *os.File, s State) (State, error) {
		if token <= s.Token {
			return s, nil
		}
		s.Token = token
		return s, s.write(file)
	})
}

func (s State) write(file *os.File) error {
	_, err := file.WriteAt(fmt.Appendf(nil, layout, s.Token, s.Count), 0)
	return err
}

// layout is of one length always, so that one write(2) replaces what was there.
const layout = "%020d %020d\n"

func (f File) with(how int, do func(*os.File, State) (State, error)) (s State, err error) {
	file, err := os.OpenFile(string(f), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, file.Close()) }() // gives the file lock back
	for {
		err = syscall.Flock(int(file.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return s, fmt.Errorf("lock the resource: %w", err)
	}
	text := make([]byte, len(fmt.Sprintf(layout, 0, 0)))
	switch _, err := file.ReadAt(text, 0); {
	case errors.Is(err, io.EOF): // new
	case err != nil:
		return s, err
	default:
		if _, err := fmt.Sscanf(string(text), "%d %d", &s.Token, &s.Count); err != nil {
			return s, fmt.Errorf("the resource is broken: %q: %w", text, err)
		}
	}
	return do(file, s)
}
