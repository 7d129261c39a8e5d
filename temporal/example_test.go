package temporal_test

import (
	"fmt"
	"log"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/temporal"
)

func ExampleNewPlugin() {
	client, err := recipes.NewClient(recipes.Config{Servers: []string{"localhost:2181"}})
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
			Scope:          "cluster/{{.Cluster}}/resource/{{arg 1}}",
			CleanupTimeout: 30 * time.Second,
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
		Requirements: []lockguard.Requirement{{Scope: "cluster/orders", CleanupTimeout: 30 * time.Second}},
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
