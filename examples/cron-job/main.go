// Command cron-job runs a scheduled job under a lock. Start it on several machines:
// each tick of the job runs on one of them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Getenv("LOCKKEEPER_ZK"), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// serve runs the job until ctx ends, and then waits for a run that still goes on.
func serve(ctx context.Context, servers string, out io.Writer) (err error) {
	client, err := lockkeeper.Connect(servers) // localhost:2181 if it is empty
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close(context.WithoutCancel(ctx))) }()
	guard, err := lockkeeper.NewGuard(client)
	if err != nil {
		return err
	}

	compact := lockkeeper.Job{
		Name:     "compact",
		Schedule: "@every 5s",
		Requirements: []lockkeeper.Requirement{{
			Scope: "cluster/orders",
			Terms: lockkeeper.Terms{Priority: 20, CleanupTimeout: 10 * time.Second},
		}},
		Work: lockkeeper.Func(func(ctx context.Context, _ lockkeeper.Run) error {
			hold, _ := lockkeeper.FromContext(ctx)
			_, err := fmt.Fprintln(out, "compacting, token", hold.Token())
			return err
		}),
	}
	scheduler, err := lockkeeper.NewScheduler(client, guard, compact)
	if err != nil {
		return err
	}
	return scheduler.Run(ctx)
}
