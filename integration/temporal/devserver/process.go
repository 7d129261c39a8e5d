package devserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is one run of the program. It is signalled through its own handle only.
type process struct {
	handle *os.Process
	exited chan struct{}
	err    error // how it ended; valid when exited is closed
}

func launch(program string, args []string, output io.Writer) (*process, error) {
	cmd := exec.Command(program, args...)
	// Neither the user's settings for Temporal nor a home directory, in which it would leave a file.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = childAttributes()

	p := &process{exited: make(chan struct{})}
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
		p.err = cmd.Wait()
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return p, nil
}

func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

func (p *process) signal(sig syscall.Signal) error {
	if err := p.handle.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %v to process %d: %w", sig, p.handle.Pid, err)
	}
	return nil
}

// kill ends the process at once, paused or not, and returns when it is gone.
func (p *process) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.exited
	return nil
}

// terminate asks the process to end, and kills it when it has not within the timeout.
func (p *process) terminate(timeout time.Duration) error {
	// In this order, so that a paused process does nothing but end.
	if err := errors.Join(p.signal(syscall.SIGTERM), p.signal(syscall.SIGCONT)); err != nil {
		return err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.exited:
		return nil
	case <-timer.C:
		return p.kill()
	}
}

// pause stops the process and returns when the kernel reports it stopped.
func (p *process) pause(ctx context.Context) error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return poll(ctx, time.Millisecond, func() error {
		if !p.alive() {
			return errEnded
		}
		return stopped(p.handle.Pid)
	})
}

var errEnded = errors.New("the process has ended")

// poll calls check until it returns nil or errEnded, at most until ctx ends.
func poll(ctx context.Context, every time.Duration, check func() error) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil || errors.Is(err, errEnded) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}
