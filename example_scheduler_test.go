package lockkeeper_test

import (
	"context"
	"fmt"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A scheduler runs each tick of a job once in the cluster, on whatever machine, under
// the locks that the job needs.
func Example_scheduler() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	zk, err := zktest.Start()
	if err != nil {
		panic(err)
	}
	defer zk.Close()

	client, err := lockkeeper.Connect(zk.Addr())
	if err != nil {
		panic(err)
	}
	defer client.Close(context.Background())
	guard, err := lockkeeper.NewGuard(client)
	if err != nil {
		panic(err)
	}

	compact := lockkeeper.Job{
		Name:         "compact",
		Schedule:     "* * * * * *", // every second; at 2:30 it would be "30 2 * * *"
		TimeZone:     "UTC",
		Requirements: []lockkeeper.Requirement{{Scope: "cluster/orders"}},
		Work: lockkeeper.Func(func(ctx context.Context, run lockkeeper.Run) error {
			stop() // one tick is enough for an example
			hold, _ := lockkeeper.FromContext(ctx)
			fmt.Println(run.Job, "runs under", hold.Info().Requirement.Scope, "for a tick:", !run.Scheduled.IsZero())
			return nil
		}),
	}

	scheduler, err := lockkeeper.NewScheduler(client, guard, compact)
	if err != nil {
		panic(err)
	}
	if err := scheduler.Run(ctx); err != nil { // returns when ctx has ended and the runs have drained
		panic(err)
	}
	fmt.Println("ran", scheduler.Stats()["compact"].Ran)
	// Output:
	// compact runs under cluster/orders for a tick: true
	// ran 1
}
