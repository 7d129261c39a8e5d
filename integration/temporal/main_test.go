package temporal_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// The servers of all tests that do them no harm.
var (
	zookeeper testbed.Shared
	temporals devserver.Shared
)

func TestMain(m *testing.M) {
	if os.Getenv(workerProcess) != "" {
		os.Exit(beWorker())
	}
	if text := os.Getenv(postVariable); text != "" {
		os.Exit(occupy(text))
	}
	run := runner(func() int { return withoutProgram(func() int { return zookeeper.Main(m) }) })
	os.Exit(temporals.Main(run, func() error { return goleak.Find() }))
}

type runner func() int

func (r runner) Run() int { return r() }

// dial returns a client of the shared Temporal server, in a namespace of its own.
func dial(t *testing.T) client.Client {
	t.Helper()
	return temporals.Server(t).Client(t)
}

// startWorker runs a worker until the end of the test, on a queue of its own.
func startWorker(t *testing.T, c client.Client, options worker.Options, register func(worker.Registry)) (queue string) {
	t.Helper()
	queue = devserver.Name(t)
	w := worker.New(c, queue, options)
	register(w)
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	return queue
}

// guard returns a guard on the shared ZooKeeper, under a root of its own unless
// one of the functions says otherwise.
func guard(t *testing.T, change ...func(*recipes.Config)) *lockguard.Guard {
	t.Helper()
	config := recipes.Config{Servers: []string{zookeeper.Server(t).Addr()}, Chroot: testbed.Root(t)}
	for _, f := range change {
		f(&config)
	}
	locks, err := recipes.NewClient(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, locks.Close(context.Background())) })
	g, err := lockguard.New(locks)
	require.NoError(t, err)
	return g
}
