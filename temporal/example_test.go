package temporal_test

import (
	"fmt"
	"log"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/temporal"
)

func ExampleNewPlugin() {
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

	plugin, err := temporal.NewPlugin(guard, temporal.Declare("Migrate", temporal.Lock{
		Requirement: lockguard.Requirement{
			Scope: "cluster/{{.Cluster}}/resource/{{arg 1}}",
			Terms: priority.Terms{CleanupTimeout: 30 * time.Second},
		},
	}))
	if err != nil {
		log.Fatal(err)
	}
	w := worker.New(service, "orders", worker.Options{Plugins: []worker.Plugin{plugin}})
	w.RegisterActivityWithOptions(migrate, activity.RegisterOptions{Name: "Migrate"})
	log.Fatal(w.Run(worker.InterruptCh()))
}

func ExampleStartWorkflow() {
	service, err := temporal.NewClient(temporal.Options{Address: "temporal.example.com:7233", Namespace: "orders"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()

	job := jobs.Job{
		Name:         "nightly",
		Schedule:     "30 7 * * *",
		Requirements: []lockguard.Requirement{{Scope: "cluster/orders", Terms: priority.Terms{CleanupTimeout: 30 * time.Second}}},
		Work: &temporal.StartWorkflow{
			Client:    service,
			Workflow:  "Rebalance",
			TaskQueue: "orders",
			Args:      []any{"all"},
			Wait:      true,
		},
	}
	fmt.Println(job.Validate())
	// Output: <nil>
}

func ExampleStartWorkflow_Validate() {
	work := &temporal.StartWorkflow{Workflow: "Rebalance", Terminate: true}
	fmt.Println(work.Validate())
	// Output:
	// lockkeeper: temporal: has no client; say where the Temporal server is
	// lockkeeper: task_queue: is missing; write one such as orders
	// lockkeeper: terminate: has no meaning without wait; write wait: true, or leave it out
}

func ExampleWithLock() {
	requirement := lockguard.Requirement{Scope: "cluster/orders", Terms: priority.Terms{Priority: 5, CleanupTimeout: time.Minute}}
	migrate := func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Minute})
		err := temporal.WithLock(ctx, requirement, func(ctx workflow.Context, hold temporal.WorkflowHold) error {
			for _, step := range []string{"Export", "Import"} { // under one lock, with one token
				if err := workflow.ExecuteActivity(ctx, step, hold.Token()).Get(ctx, nil); err != nil {
					return err
				}
			}
			return nil
		}, temporal.OnPreempt(func(ctx workflow.Context, p temporal.Preemption) error {
			return workflow.ExecuteActivity(ctx, "Restore").Get(ctx, nil) // still under the lock
		}))
		if p, ok := temporal.PreemptionOf(err); ok {
			workflow.GetLogger(ctx).Info("another time", "by", p.By, "priority", p.Priority)
		}
		return err
	}

	// A worker needs the plugin, of temporal.NewPlugin(guard), and runs the workflow.
	register := func(w worker.Worker) {
		w.RegisterWorkflowWithOptions(migrate, workflow.RegisterOptions{Name: "Migrate"})
	}
	_ = register
}
