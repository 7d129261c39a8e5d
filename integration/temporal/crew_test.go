package temporal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// A laborer has the activities of a worker that writes to a downstream.
type laborer struct{ mouth mouth }

// register registers them, and the workflows that use them.
func (l laborer) register(r worker.Registry) {
	r.RegisterWorkflow(single)
	for name, a := range map[string]any{"labour": l.labour, "linger": l.linger} {
		r.RegisterActivityWithOptions(a, activity.RegisterOptions{Name: name})
	}
}

// lingering are those activities under a lock.
func lingering(lock temporal.Lock) []temporal.PluginOption {
	return []temporal.PluginOption{temporal.Declare("labour", lock), temporal.Declare("linger", lock)}
}

func (l laborer) wordOf(ctx context.Context, what string) word {
	info := activity.GetInfo(ctx)
	said := word{What: what, Key: info.WorkflowExecution.ID, Attempt: info.Attempt}
	if hold, ok := lockguard.FromContext(ctx); ok {
		said.Token = hold.Token()
	}
	return said
}

// labour writes a few times, and succeeds if nothing is refused.
func (l laborer) labour(ctx context.Context) error {
	for _, what := range []string{"enter", "write", "write", "write", "write", "leave"} {
		if refused, err := l.mouth.say(ctx, l.wordOf(ctx, what)); err != nil || refused {
			return fmt.Errorf("%s: refused: %t: %w", what, refused, err)
		}
	}
	return nil
}

// linger writes. In the first attempt it waits then until it has to go, says why
// that is, and leaves somebody behind who writes once more when the gate "late" is
// open. In the next ones it returns its token.
func (l laborer) linger(ctx context.Context) (lockguard.Token, error) {
	said := l.wordOf(ctx, "write")
	if _, err := l.mouth.say(ctx, said); err != nil {
		return 0, err
	}
	if said.Attempt > 1 {
		return said.Token, nil
	}
	<-ctx.Done()
	told := l.wordOf(ctx, "told")
	told.Cause = causeOf(ctx)
	go func() {
		background, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, _ = l.mouth.say(background, told)
		if l.mouth.pass(background, "late") == nil {
			_, _ = l.mouth.say(background, said)
		}
	}()
	return 0, ctx.Err()
}

// workerOn runs a worker with a guard that is there already.
func (f farm) workerOn(t *testing.T, g *lockguard.Guard, options []temporal.PluginOption, register func(worker.Registry), change ...func(*worker.Options)) worker.Worker {
	t.Helper()
	plugin, err := temporal.NewPlugin(g, options...)
	require.NoError(t, err)
	o := worker.Options{Plugins: []worker.Plugin{plugin}}
	for _, change := range change {
		change(&o)
	}
	w := worker.New(f.client, f.queue, o)
	register(w)
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	return w
}

// A post is where a worker that is a process of its own works.
type post struct {
	Name                        string
	Temporal, Namespace, Queue  string
	ZooKeeper, Root, Downstream string
	Session                     time.Duration
	Cleanup                     time.Duration
}

// postVariable says to a process that it is such a worker.
const postVariable = "LOCKKEEPER_TEMPORAL_POST"

// occupy is the life of such a process.
func occupy(text string) int {
	err := func() error {
		var p post
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			return err
		}
		locks, err := recipes.NewClient(recipes.Config{Servers: []string{p.ZooKeeper}, Chroot: p.Root, SessionTimeout: p.Session})
		if err != nil {
			return err
		}
		guard, err := lockguard.New(locks)
		if err != nil {
			return err
		}
		logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
		lock := temporal.Lock{Requirement: lockguard.Requirement{Scope: scope, CleanupTimeout: p.Cleanup}}
		plugin, err := temporal.NewPlugin(guard, append(lingering(lock), temporal.WithLogger(logger))...)
		if err != nil {
			return err
		}
		c, err := client.NewLazyClient(client.Options{HostPort: p.Temporal, Namespace: p.Namespace, Logger: log.NewStructuredLogger(logger)})
		if err != nil {
			return err
		}
		w := worker.New(c, p.Queue, worker.Options{Plugins: []worker.Plugin{plugin}})
		l := laborer{mouthAt(p.Downstream, p.Name)}
		l.register(w)
		if err := w.Start(); err != nil {
			return err
		}
		if _, err := l.mouth.say(context.Background(), word{What: "works"}); err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, os.Stdin) // until the test is gone
		return err
	}()
	fmt.Fprintln(os.Stderr, "the worker ends:", err)
	return 1
}

// A crewman is a worker that is a process of its own.
type crewman struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	log   *logbook
	done  chan struct{}
}

// process starts a worker and returns when it works.
func (f farm) process(t *testing.T, d *downstream, name string, change ...func(*post)) *crewman {
	t.Helper()
	p := post{
		Name: name, Temporal: temporals.Server(t).Addr(), Namespace: f.namespace, Queue: f.queue,
		ZooKeeper: zookeeper.Server(t).Addr(), Root: f.root, Downstream: d.url, Session: 4 * time.Second,
	}
	for _, change := range change {
		change(&p)
	}
	text, err := json.Marshal(p)
	require.NoError(t, err)
	c := &crewman{name: name, cmd: exec.Command(os.Args[0]), log: &logbook{}, done: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), postVariable+"="+string(text))
	c.cmd.Stderr = c.log
	c.stdin, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	go func() {
		defer close(c.done)
		_ = c.cmd.Wait()
	}()
	t.Cleanup(func() {
		c.kill()
		if t.Failed() {
			t.Logf("log of worker %s:\n%s", name, c.log.text.String())
		}
	})
	d.awaits(t, "works", by(name))
	return c
}

// kill ends the process as a failure of its machine would, and returns when it is
// gone.
func (c *crewman) kill() {
	_ = c.cmd.Process.Kill()
	<-c.done
	_ = c.stdin.Close()
}

func (c *crewman) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	require.NoError(t, c.cmd.Process.Signal(s))
}

// result waits for the end of a workflow.
func result[T any](t *testing.T, run client.WorkflowRun) (T, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	var v T
	err := run.Get(ctx, &v)
	require.NoError(t, ctx.Err(), "the workflow does not end")
	return v, err
}

// briskly are options of an activity that is attempted again as soon as its worker
// is known to be gone.
func briskly() workflow.ActivityOptions {
	return retrying(func(o *workflow.ActivityOptions) { o.HeartbeatTimeout = 2 * time.Second })
}

type registry = worker.Registry

// register registers an activity.
func register(r registry, name string, a any) {
	r.RegisterActivityWithOptions(a, activity.RegisterOptions{Name: name})
}
