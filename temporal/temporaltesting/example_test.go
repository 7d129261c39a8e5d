package temporaltesting_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/temporal"
	"github.com/lockkeeper/lockkeeper/temporal/temporaltesting"
)

// tables are what the activity of the example changes.
var tables = map[string]string{}

// Import is an activity that puts right what it has begun when it is preempted.
func Import(ctx context.Context, table string) error {
	hold, _ := lockguard.FromContext(ctx)
	tables[table] = "half imported"
	err := hold.OnCleanup(func(context.Context) error {
		tables[table] = "as before"
		return nil
	})
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Minute): // work
		tables[table] = "imported"
		return nil
	}
}

var importLock = temporal.Lock{Requirement: lockguard.Requirement{Scope: "table/{{.}}", Terms: priority.Terms{CleanupTimeout: 30 * time.Second}}}

func TestImportPutsTheTableBack(t *testing.T) {
	locks := temporaltesting.New(t)
	env := locks.NewActivityEnvironment(temporal.Declare("Import", importLock))
	env.RegisterActivity(Import)
	locks.During("Import", func() { locks.Preempt(lockguard.Requirement{Scope: "table/orders"}) })

	_, err := env.ExecuteActivity(Import, "orders")

	require.ErrorContains(t, err, `preempted by "rival"`)
	require.Equal(t, "as before", tables["orders"])
}

// A program registers the same activity with its worker.
func Example_worker() {
	client, err := lock.NewClient(lock.Config{Servers: []string{"localhost:2181"}})
	if err != nil {
		log.Fatal(err)
	}
	guard, err := lockguard.New(client)
	if err != nil {
		log.Fatal(err)
	}
	service, err := temporal.NewClient(temporal.Options{Address: "temporal.example.com:7233", Namespace: "orders"})
	if err != nil {
		log.Fatal(err)
	}
	plugin, err := temporal.NewPlugin(guard, temporal.Declare("Import", importLock))
	if err != nil {
		log.Fatal(err)
	}
	w := worker.New(service, "orders", worker.Options{Plugins: []worker.Plugin{plugin}})
	w.RegisterActivity(Import)
	log.Fatal(w.Run(worker.InterruptCh()))
}

func TestDocumentationShowsThisTest(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	code, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, shown, ok := strings.Cut(string(doc), "//\tfunc TestImport")
	require.True(t, ok)
	shown, _, _ = strings.Cut(shown, "//\n// The one idea")
	var lines []string
	for line := range strings.Lines("//\tfunc TestImport" + shown) {
		line = strings.TrimPrefix(strings.TrimPrefix(line, "//"), "\t")
		lines = append(lines, line)
	}
	require.Contains(t, string(code), strings.Join(lines, ""))
}

// Move is a workflow that moves data under a lock, and moves it back when it has to
// go before it is done.
func Move(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	need := lockguard.Requirement{Scope: "cluster/orders", Terms: priority.Terms{CleanupTimeout: 30 * time.Second}}
	return temporal.WithLock(ctx, need, func(ctx workflow.Context, _ temporal.WorkflowHold) error {
		if err := workflow.ExecuteActivity(ctx, "Copy").Get(ctx, nil); err != nil {
			return err
		}
		if err := workflow.Sleep(ctx, time.Hour); err != nil { // for readers of the old place
			return err
		}
		return workflow.ExecuteActivity(ctx, "Delete").Get(ctx, nil)
	}, temporal.OnPreempt(func(ctx workflow.Context, why temporal.Preemption) error {
		return workflow.ExecuteActivity(ctx, "Uncopy", why.By).Get(ctx, nil)
	}))
}

// A workflow is preempted after ten minutes, and compensates under its lock. The hour
// that it waits takes no time.
func Example_workflow() {
	t := &fakeT{} // *testing.T, in a test
	defer t.end()

	locks := temporaltesting.New(t)
	env := locks.NewWorkflowEnvironment()
	env.RegisterActivityWithOptions(func(context.Context) error { fmt.Println("copy"); return nil }, activity.RegisterOptions{Name: "Copy"})
	env.RegisterActivityWithOptions(func(context.Context) error { fmt.Println("delete"); return nil }, activity.RegisterOptions{Name: "Delete"})
	env.RegisterActivityWithOptions(func(ctx context.Context, by string) error {
		hold, _ := lockguard.FromContext(ctx)
		fmt.Println("uncopy for", by, "under the lock:", hold.Check() == nil)
		return nil
	}, activity.RegisterOptions{Name: "Uncopy"})

	var hotfix *temporaltesting.Rival
	env.RegisterDelayedCallback(func() {
		hotfix = locks.Preempt(lockguard.Requirement{Scope: "cluster/orders", Owner: "hotfix"})
	}, 10*time.Minute)
	env.ExecuteWorkflow(Move)

	hotfix.AwaitAcquired()
	why, preempted := temporal.PreemptionOf(env.GetWorkflowError())
	fmt.Println("preempted:", preempted, why.Reason)
	// Output:
	// copy
	// uncopy for hotfix under the lock: true
	// preempted: true outranked
}
