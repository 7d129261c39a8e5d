package pid1

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Run returns at once, with ended false, unless this is process 1. There it starts this
// program again with the same arguments, environment and files, and returns when that
// has ended: with its exit code, or 128+n if signal n has ended it.
//
// The child leads a process group of its own, which gets the terminal if this process
// has it: the kernel sends what keys mean to the child alone. All other standard signals are
// passed on, but for those that are about a process itself.
//
// With an error nothing was started, and the program can go on as it is.
func Run(args []string) (code int, ended bool, err error) {
	if os.Getpid() != 1 {
		return 0, false, nil
	}
	return runInit(args)
}

func runInit(args []string) (code int, ended bool, err error) {
	program, err := os.Executable()
	if err != nil {
		return 0, false, fmt.Errorf("process 1 does not find its program, is /proc mounted?: %w", err)
	}
	// Before the child starts: a signal that comes meanwhile is for it.
	received := make(chan os.Signal, 64)
	signal.Notify(received, passedOn()...)
	child, err := os.StartProcess(program, args, &os.ProcAttr{
		Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		signal.Stop(received)
		return 0, false, fmt.Errorf("process 1 cannot start its program again: %w", err)
	}
	handTerminal(child.Pid)
	go func() {
		for sig := range received {
			_ = child.Signal(sig) // it may have ended; no other process has its pid before it is reaped
			if slices.Contains(ending, sig) {
				_ = child.Signal(unix.SIGCONT) // a stopped one would not act on it
			}
		}
	}()
	code, err = reapUntil(child.Pid)
	return code, true, err
}

// ending are the signals that ask a process to end or to begin anew.
var ending = []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM}

// aboutOneself are the signals that say something about the process that gets them,
// and those that cannot be caught.
var aboutOneself = []syscall.Signal{
	unix.SIGABRT, unix.SIGBUS, unix.SIGCHLD, unix.SIGFPE, unix.SIGILL, unix.SIGKILL, unix.SIGPIPE,
	unix.SIGSEGV, unix.SIGSTOP,
	unix.SIGSYS, unix.SIGTRAP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGURG, // the last one is how Go's scheduler preempts
}

// passedOn are all others, without those that this program was started to ignore, as by
// nohup: its child inherits that.
func passedOn() (signals []os.Signal) {
	const last = unix.SIGSYS // real-time signals come after it
	for sig := unix.SIGHUP; sig <= last; sig++ {
		if !slices.Contains(aboutOneself, sig) && !signal.Ignored(sig) {
			signals = append(signals, sig)
		}
	}
	return signals
}

// handTerminal makes the child's group the foreground group of the terminal that standard
// input is, if this process has it.
func handTerminal(group int) {
	now, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	if err != nil || now != unix.Getpgrp() {
		return // no terminal, or not ours
	}
	if unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, group) == nil {
		_ = unix.Kill(-group, unix.SIGCONT) // if it has asked for the terminal too early, it was stopped
	}
}

// reapUntil reaps each child, adopted ones too, until the one with pid has ended.
func reapUntil(pid int) (code int, err error) {
	for {
		var status unix.WaitStatus
		ended, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 1, fmt.Errorf("process 1 cannot wait for its children: %w", err)
		case ended != pid:
		case status.Signaled():
			return 128 + int(status.Signal()), nil
		default:
			return status.ExitStatus(), nil
		}
	}
}
