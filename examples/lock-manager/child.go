package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A child is a participant in a process of its own.
type child struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr bytes.Buffer
	over   chan struct{} // closed when the process has ended
	err    error         // once over is closed
}

// startChild starts this program once more, and waits until it has joined.
func startChild(cfg lock.Config, s settings, name string, out *lines) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{name: name, over: make(chan struct{})}
	c.cmd = exec.Command(program, "--participant", name, "-f", s.file, "--strategy", s.strategy)
	c.cmd.Env = append(os.Environ(), "LOCKKEEPER_ZK="+strings.Join(cfg.Servers, ",")+cfg.Chroot,
		"LOCKKEEPER_ROOT="+cfg.Root)
	c.cmd.Stderr = &c.stderr
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.stdin = stdin
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	started := make(chan struct{})
	go func() {
		defer close(c.over)
		for text := bufio.NewScanner(stdout); text.Scan(); {
			out.tell("%s", text.Text())
			if text.Text() == "STARTED "+name {
				close(started)
			}
		}
		c.err = c.cmd.Wait()
	}()
	select {
	case <-started:
		return c, nil
	case <-c.over:
		return nil, c.failure()
	}
}

func (c *child) failure() error {
	return fmt.Errorf("the process of %s has ended: %w\n%s", c.name, c.err, c.stderr.String())
}

// stop lets the participant leave; it is killed if it does not.
func (c *child) stop(ctx context.Context) error {
	_ = c.stdin.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	select {
	case <-c.over:
	case <-ctx.Done():
		c.kill()
	}
	if c.err != nil {
		return c.failure()
	}
	return nil
}

// kill ends the process as kill -9 does: nothing can be put right.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.over
	_ = c.stdin.Close()
}
