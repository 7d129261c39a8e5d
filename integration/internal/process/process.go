// Package process runs the servers that tests need as processes of their own: one that can be paused, and that never
// outlives who has started it.
//
// The one idea is that of zkserver: every method is finished when it returns.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// A Process is one run of a program. It is signalled through its own handle only.
type Process struct {
	handle *os.Process
	exited chan struct{}
}

// Start starts a program, which dies with the calling process, however that ends, where the system can do that
// (Linux). It does not hear the terminal's interrupt. Each of the functions is called with its PID when it has ended.
func Start(cmd *exec.Cmd, ended ...func(pid int)) (*Process, error) {
	cmd.SysProcAttr = attributes()
	p := &Process{exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Linux ends the child with the *thread* that started it: that thread must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.handle = cmd.Process
		started <- nil
		_ = cmd.Wait()
		for _, f := range ended {
			f(p.handle.Pid)
		}
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// PID returns the process id.
func (p *Process) PID() int { return p.handle.Pid }

// Alive tells whether the process runs, paused or not.
func (p *Process) Alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Signal sends a signal to the process, unless it has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.handle.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %v to process %d: %w", sig, p.handle.Pid, err)
	}
	return nil
}

// Kill ends the process at once, paused or not, and returns when it is gone.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.exited
	return nil
}

// Terminate asks the process to end, and kills it when it has not within the timeout.
func (p *Process) Terminate(timeout time.Duration) error {
	// In this order, so that a paused process does nothing but end.
	if err := errors.Join(p.Signal(syscall.SIGTERM), p.Signal(syscall.SIGCONT)); err != nil {
		return err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.exited:
		return nil
	case <-timer.C:
		return p.Kill()
	}
}

// Pause stops the process from running and returns when the kernel reports it stopped. It returns ErrEnded
// when there is nothing to stop.
func (p *Process) Pause(ctx context.Context) error {
	if !p.Alive() {
		return ErrEnded
	}
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return Poll(ctx, time.Millisecond, func() error {
		if !p.Alive() {
			return ErrEnded
		}
		return stopped(p.handle.Pid)
	})
}

// ErrEnded says that the process has ended. It ends a Poll.
var ErrEnded = errors.New("the process has ended")

// Poll calls check until it returns nil or ErrEnded, at most until ctx ends.
func Poll(ctx context.Context, every time.Duration, check func() error) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil || errors.Is(err, ErrEnded) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}
