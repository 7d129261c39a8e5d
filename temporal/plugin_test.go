package temporal_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/temporal"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// newGuard is a process of its own: a client of the server, and a guard.
func newGuard(t *testing.T, zk *zktest.Server, name string, options ...lockguard.Option) *lockguard.Guard {
	t.Helper()
	client, err := lock.NewClient(lock.Config{Dialer: zk.Dialer(name)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close(context.Background())) })
	guard, err := lockguard.New(client, options...)
	require.NoError(t, err)
	return guard
}

// activities returns an environment whose worker has these plugins.
func activities(plugins ...worker.Plugin) *testsuite.TestActivityEnvironment {
	env := new(testsuite.WorkflowTestSuite).NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{Plugins: plugins})
	env.SetTestTimeout(time.Minute)
	return env
}

func newPlugin(t *testing.T, guard *lockguard.Guard, options ...temporal.PluginOption) *temporal.Plugin {
	t.Helper()
	p, err := temporal.NewPlugin(guard, options...)
	require.NoError(t, err)
	return p
}

type order struct{ Cluster string }

// migrate is an activity that says which lock it has.
func migrate(ctx context.Context, o order, _ int) (string, error) {
	hold, ok := lockguard.FromContext(ctx)
	if !ok {
		return "", nil
	}
	return hold.Info().Requirement.Scope, nil
}

func TestActivityRunsUnderTheLockThatIsDeclaredForItsType(t *testing.T) {
	zk := zktest.RunT(t)
	p := newPlugin(t, newGuard(t, zk, "a"), temporal.Declare("migrate", temporal.Lock{
		Requirement: lockguard.Requirement{Scope: "cluster/{{.Cluster}}/shard/{{arg 1}}"},
	}))
	env := activities(p)
	env.RegisterActivity(migrate)
	for range 2 { // a test environment starts and stops the worker for each
		value, err := env.ExecuteActivity(migrate, order{"orders"}, 7)
		require.NoError(t, err)
		var scope string
		require.NoError(t, value.Get(&scope))
		require.Equal(t, "cluster/orders/shard/7", scope)
	}
}

func TestPluginInstalledTwiceLocksOnce(t *testing.T) {
	zk := zktest.RunT(t)
	p := newPlugin(t, newGuard(t, zk, "a"))

	// given a client that has the plugin, and a worker that has it as well
	service, err := client.NewLazyClient(client.Options{HostPort: "127.0.0.1:1", Plugins: []client.Plugin{p}})
	require.NoError(t, err)
	defer service.Close()
	options := worker.Options{Interceptors: []interceptor.WorkerInterceptor{&interceptor.WorkerInterceptorBase{}}, Plugins: []worker.Plugin{p, counting{t: t, want: 3}}}
	require.NotPanics(t, func() { worker.New(service, "orders", options) })

	// but another one of the same kind is refused
	options.Plugins = []worker.Plugin{newPlugin(t, newGuard(t, zk, "b"))}
	require.PanicsWithError(t, "temporal: two plugins of lockkeeper are installed; give both what they declare to one NewPlugin", func() {
		worker.New(service, "orders", options)
	})
}

// counting is a plugin that counts the interceptors which came before it.
type counting struct {
	worker.PluginBase
	t    *testing.T
	want int
}

func (counting) Name() string { return "counting" }

func (c counting) ConfigureWorker(_ context.Context, o worker.PluginConfigureWorkerOptions) error {
	require.Len(c.t, o.WorkerOptions.Interceptors, c.want)
	require.GreaterOrEqual(c.t, o.WorkerOptions.WorkerStopTimeout, temporal.DefaultStopTimeout)
	return nil
}
