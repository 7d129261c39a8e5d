package temporal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/internal/process"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// workerVariable makes this binary a worker, as it says.
const workerVariable = "LOCKKEEPER_TEMPORAL_WORKER"

// A workerProcess says where such a worker is.
type workerProcess struct {
	Name, Downstream           string
	Temporal, Namespace, Queue string
	ZooKeeper, Root            string
	Session                    time.Duration
}

// beWorker is the life of such a process.
func beWorker(text string) int {
	var p workerProcess
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		err = p.run()
	}
	fmt.Fprintln(os.Stderr, "the worker ends:", err)
	return 1
}

func (p workerProcess) run() error {
	locks, err := lock.NewClient(lock.Config{Servers: []string{p.ZooKeeper}, Root: p.Root, SessionTimeout: p.Session})
	if err != nil {
		return err
	}
	guard, err := lockguard.New(locks)
	if err != nil {
		return err
	}
	lock := temporal.Lock{Requirement: lockguard.Requirement{Scope: scope}}
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	plugin, err := temporal.NewPlugin(guard,
		temporal.Declare("labour", lock), temporal.Declare("linger", lock), temporal.WithLogger(logger))
	if err != nil {
		return err
	}
	c, err := client.NewLazyClient(client.Options{
		HostPort: p.Temporal, Namespace: p.Namespace, Logger: log.NewStructuredLogger(logger),
	})
	if err != nil {
		return err
	}
	w := worker.New(c, p.Queue, worker.Options{Plugins: []worker.Plugin{plugin}})
	reporter := newReporter(p.Downstream, p.Name)
	reporter.register(w)
	if err := w.Start(); err != nil {
		return err
	}
	if _, err := reporter.send(context.Background(), report{What: "works"}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin) // until the test is gone
	return err
}

// process starts a worker that is a process of its own, and returns when it works.
func (f *fixture) process(name string, session time.Duration, change ...func(*workerProcess)) *process.Process {
	f.Helper()
	p := workerProcess{
		Name: name, Downstream: f.url, Temporal: temporals.Server(f).Addr(), Namespace: f.namespace, Queue: f.queue,
		ZooKeeper: f.Server.Addr(), Root: f.Root, Session: session,
	}
	for _, change := range change {
		change(&p)
	}
	text, err := json.Marshal(p)
	require.NoError(f, err)
	cmd, log := exec.Command(os.Args[0]), &harness.Output{}
	cmd.Env = append(os.Environ(), workerVariable+"="+string(text))
	cmd.Stderr = log
	stdin, err := cmd.StdinPipe()
	require.NoError(f, err)
	worker, err := process.Start(cmd)
	require.NoError(f, err)
	f.Cleanup(func() {
		require.NoError(f, worker.Kill())
		_ = stdin.Close()
		if f.Failed() {
			f.Logf("log of worker %s:\n%s", name, log)
		}
	})
	f.awaits("works", by(name))
	return worker
}
