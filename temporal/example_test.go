package temporal_test

import (
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/temporal"
)

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
