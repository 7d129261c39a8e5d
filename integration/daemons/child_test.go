package daemons

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

// childVariable holds the settings of the daemon that this test binary is to
// be.
const childVariable = "LOCKKEEPER_DAEMONS_CHILD"

// casts are the jobs that children can be told to run.
var casts = map[string]func(daemon string, tell func(mark)) []jobs.Job{
	"crowd and endless": func(daemon string, tell func(mark)) []jobs.Job {
		return append(crowd(daemon, tell), endless(daemon, tell))
	},
	"crowd":    crowd,
	"drain":    drainJobs,
	"soak 200": soak(200),
	"soak 500": soak(500),
}

// beChild is a daemon as a process: SIGTERM drains it, and it ends with its
// parent.
func beChild() error {
	var s settings
	if err := json.Unmarshal([]byte(os.Getenv(childVariable)), &s); err != nil {
		return err
	}
	cast, ok := casts[s.Cast]
	if !ok {
		return fmt.Errorf("no cast is named %q", s.Cast)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3) // the test has gone
	}()

	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	tell := func(m mark) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(m)
	}
	d, err := newDaemon(s, os.Stderr, tell, cast(s.Name, tell)...)
	if err != nil {
		return err
	}
	return d.run(ctx)
}

// A child is a daemon in a process of its own.
type child struct {
	t   *testing.T
	cmd *exec.Cmd
	log *logbook

	told  chan struct{} // closed when all that it told is in the chronicle
	ended bool
}

func startChild(t *testing.T, c *chronicle, s settings) *child {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	encoded, err := json.Marshal(s)
	require.NoError(t, err)
	k := &child{t: t, log: newLogbook(t, s.Name), cmd: exec.Command(self), told: make(chan struct{})}
	k.cmd.Env = append(os.Environ(), childVariable+"="+string(encoded))
	k.cmd.Stderr = k.log
	stdin, err := k.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := k.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, k.cmd.Start())
	go func() {
		defer close(k.told)
		for decoder := json.NewDecoder(stdout); ; {
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
			_ = k.wait()
		}
		_ = stdin.Close()
	})
	return k
}

// kill ends the process at once, as the kernel does when it runs out of memory.
func (k *child) kill() {
	k.t.Helper()
	require.NoError(k.t, k.cmd.Process.Kill())
	require.ErrorContains(k.t, k.wait(), "signal: killed")
}

// terminate asks the process to end, as systemd and Kubernetes do.
func (k *child) terminate() {
	k.t.Helper()
	require.NoError(k.t, k.cmd.Process.Signal(syscall.SIGTERM))
}

// wait waits for the end of the process.
func (k *child) wait() error {
	<-k.told // first: Wait closes the pipe
	k.ended = true
	return k.cmd.Wait()
}
