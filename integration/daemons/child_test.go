package daemons

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
)

// childVariable holds the settings of the daemon that this test binary is to
// be.
const childVariable = "LOCKKEEPER_DAEMONS_CHILD"

// beChild is a daemon as a process: SIGTERM drains it, and it ends with its
// parent.
func beChild() error {
	var s settings
	if err := json.Unmarshal([]byte(os.Getenv(childVariable)), &s); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3) // the test has gone
	}()

	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(ready{}); err != nil {
		return err
	}
	tell := func(m mark) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(m)
	}
	d, err := newDaemon(s, os.Stderr, secondly(s.Jobs, s.Name, tell)...)
	if err != nil {
		return err
	}
	return d.run(ctx)
}

// ready is the first that a child tells: from then on SIGTERM drains it. Before, it would end at once.
type ready struct{}

// A child is a daemon in a process of its own.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	log   *logbook
	ready chan struct{} // closed when it has said so
	told  chan struct{} // closed when all that it told is in the chronicle
	ended bool
}

func startChild(t *testing.T, c *chronicle, s settings) *child {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	encoded, err := json.Marshal(s)
	require.NoError(t, err)
	k := &child{t: t, log: newLogbook(t, s.Name), cmd: exec.Command(self), ready: make(chan struct{}), told: make(chan struct{})}
	k.cmd.Env = append(os.Environ(), childVariable+"="+string(encoded))
	k.cmd.Stderr = k.log
	stdin, err := k.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := k.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, k.cmd.Start())
	go func() {
		defer close(k.told)
		decoder := json.NewDecoder(stdout)
		if decoder.Decode(new(ready)) != nil {
			return
		}
		close(k.ready)
		for {
			var m mark
			if decoder.Decode(&m) != nil {
				return
			}
			c.add(m)
		}
	}()
	t.Cleanup(func() {
		if !k.ended {
			_ = k.cmd.Process.Kill()
			<-k.told
			_ = k.cmd.Wait()
		}
		_ = stdin.Close()
	})
	return k
}

func (k *child) signal(sig syscall.Signal) {
	k.t.Helper()
	require.NoError(k.t, k.cmd.Process.Signal(sig))
}

// end ends the process by SIGTERM, as systemd and Kubernetes do, or by SIGKILL, as the kernel does when it runs out of
// memory, and waits until it has gone.
func (k *child) end(sig syscall.Signal) {
	k.t.Helper()
	if sig == syscall.SIGTERM {
		harness.Receive(k.t, k.ready, "the daemon is not ready for it")
	}
	k.signal(sig)
	err := k.wait()
	if sig == syscall.SIGTERM {
		require.NoError(k.t, err)
		return
	}
	require.ErrorContains(k.t, err, "signal: killed")
}

// wait waits for the end of the process.
func (k *child) wait() error {
	k.t.Helper()
	harness.Receive(k.t, k.told, "the daemon has not ended") // first: Wait closes the pipe
	k.ended = true
	return k.cmd.Wait()
}
