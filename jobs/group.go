package jobs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// A group is a started command and all processes that it started in turn,
// except those that left its process group.
type group struct {
	cmd   *exec.Cmd
	id    int                 // of the group, which is the pid of the command
	stops chan syscall.Signal // what has stopped the command; to be read until gone
	gone  chan struct{}       // closed when no member is left

	unguarded error // why its guardian does not know of it

	mu      sync.Mutex
	reaped  bool  // the command itself
	waitErr error // of reaping it
	empty   bool  // the id may belong to strangers
}

// startGroup starts cmd as the leader of a new process group, as another user
// if as is not nil, and tells guard of it at once.
func startGroup(cmd *exec.Cmd, as *syscall.Credential, guard *guardian) (*group, error) {
	cmd.SysProcAttr = groupAttributes()
	cmd.SysProcAttr.Credential = as
	g := &group{cmd: cmd, stops: make(chan syscall.Signal), gone: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The command dies with the thread that started it, not with the
		// process: the thread is kept until the command has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			g.id = cmd.Process.Pid
			g.unguarded = guard.protect(g.id)
		}
		started <- err
		if err == nil {
			g.follow()
			close(g.gone)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return g, nil
}

// follow waits until no process of the group is left.
//
// The command itself is reaped after all others: as long as its zombie exists,
// no other process can get the id, and no signal can hit a foreign process.
func (g *group) follow() {
	g.awaitLeader()
	g.awaitMembers()
	g.reapLeader()
	for !g.isEmpty() {
		if !g.awaitMembers() {
			break // only zombies that are not ours to reap
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.empty = true
}

func (g *group) reapLeader() {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.cmd.Wait()
	if _, ok := errors.AsType[*exec.ExitError](err); !ok {
		g.waitErr = err
	}
	g.reaped = true
	g.empty = errors.Is(syscall.Kill(-g.id, 0), syscall.ESRCH)
}

// isEmpty asks the kernel, which counts zombies as members.
func (g *group) isEmpty() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.empty = g.empty || errors.Is(syscall.Kill(-g.id, 0), syscall.ESRCH)
	return g.empty
}

// poll is how awaitMembers waits where members cannot be listed one by one. The
// command itself has to be reaped before.
func (g *group) poll() {
	g.mu.Lock()
	reaped := g.reaped
	g.mu.Unlock()
	if reaped {
		<-time.After(20 * time.Millisecond)
	}
}

// signal sends sig to all members. The error is os.ErrProcessDone if no member
// is left.
func (g *group) signal(sig syscall.Signal) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.empty {
		return os.ErrProcessDone
	}
	err := syscall.Kill(-g.id, sig)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// exit returns how the command ended, nil for exit status 0. Only when gone.
func (g *group) exit() (*ExitError, error) {
	if g.waitErr != nil {
		return nil, fmt.Errorf("command %q has ended, but its exit status is not known: %w", g.cmd.Args[0], g.waitErr)
	}
	status, ok := g.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
		return nil, nil
	case status.Signaled():
		return &ExitError{Command: g.cmd.Args[0], Signal: status.Signal()}, nil
	case status.ExitStatus() != 0:
		return &ExitError{Command: g.cmd.Args[0], Code: status.ExitStatus()}, nil
	}
	return nil, nil
}
