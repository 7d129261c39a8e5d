package jobs

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// StartError says that a command could not be started at all: it was not
// found, is not executable, has no such directory to run in, or cannot be
// guarded. Nothing has run.
type StartError struct {
	Command string // Argv[0]
	Err     error
}

func (e *StartError) Error() string {
	return fmt.Sprintf("command %q could not be started: %s", e.Command, withoutPath(e.Err))
}

// withoutPath leaves out of err what StartError has said already.
func withoutPath(err error) string {
	if e, ok := errors.AsType[*exec.Error](err); ok {
		return e.Err.Error()
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok && e.Op == "fork/exec" {
		return e.Err.Error()
	}
	return err.Error()
}

// Unwrap returns why; errors.Is finds exec.ErrNotFound, fs.ErrNotExist and
// fs.ErrPermission.
func (e *StartError) Unwrap() error { return e.Err }

// ExitCode is what a shell exits with: 127 for a command, or a directory to run
// in, that was not found, 126 for one that could not be run.
func (e *StartError) ExitCode() int {
	if errors.Is(e.Err, exec.ErrNotFound) || errors.Is(e.Err, fs.ErrNotExist) {
		return 127
	}
	return 126
}

// ExitError says that a command failed by itself.
type ExitError struct {
	Command string         // Argv[0]
	Code    int            // exit status; 0 if a signal ended it
	Signal  syscall.Signal // what ended it; 0 if it exited
}

func (e *ExitError) Error() string { return fmt.Sprintf("command %q %s", e.Command, e.outcome()) }

func (e *ExitError) outcome() string {
	if e.Signal != 0 {
		return fmt.Sprintf("was ended by %s", signalName(e.Signal))
	}
	return fmt.Sprintf("failed with exit status %d", e.Code)
}

// ExitCode is what a shell makes of it: the command's own, or 128 and the
// number of the signal.
func (e *ExitError) ExitCode() int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}

// StoppedError says that a command was stopped, or was not started because
// it would have been. errors.Is and errors.As find the cause, then the exit.
type StoppedError struct {
	Cause   error      // of the context; or lockguard.ErrAtRisk, or a *SignalError
	Command string     // Argv[0]
	Exit    *ExitError // how it ended; nil if it exited with 0 or never ran
	Killed  bool       // it had to be killed
}

func (e *StoppedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "command %q was stopped: %v", e.Command, e.Cause)
	switch {
	case e.Killed:
		b.WriteString("; it had to be killed")
	case e.Exit != nil:
		b.WriteString("; it " + e.Exit.outcome())
	}
	return b.String()
}

// Is makes errors.Is find lockguard.ErrStopped: a guard then runs the hooks.
func (e *StoppedError) Is(target error) bool { return target == lockguard.ErrStopped }

// Unwrap returns the cause, then the exit.
func (e *StoppedError) Unwrap() []error {
	if e.Exit == nil {
		return []error{e.Cause}
	}
	return []error{e.Cause, e.Exit}
}

// SignalError is why a command was stopped that got a signal through
// Command.Signals.
type SignalError struct{ Signal syscall.Signal }

func (e *SignalError) Error() string { return signalName(e.Signal) + " was received" }

// ExitCode is 128 and the number of the signal.
func (e *SignalError) ExitCode() int { return 128 + int(e.Signal) }

// TimeoutError is the cause with which the context of work ends that took
// longer than its job's Timeout.
type TimeoutError struct {
	Job     string
	Timeout time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("job %q took longer than its timeout %s", e.Job, e.Timeout)
}

// Is makes errors.Is find lockguard.ErrStopped: a guard then runs the hooks.
func (e *TimeoutError) Is(target error) bool { return target == lockguard.ErrStopped }

func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}
