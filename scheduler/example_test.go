package scheduler_test

import (
	"context"
	"fmt"
	"time"
	_ "time/tzdata"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

func Example() {
	run := func(ctx context.Context, client *lock.Client) error {
		guard, err := lockguard.New(client)
		if err != nil {
			return err
		}
		s, err := scheduler.New(scheduler.Config{Guard: guard, Ledger: client.TickLedger("")})
		if err != nil {
			return err
		}
		err = s.Add(jobs.Job{
			Name:         "nightly",
			Schedule:     "30 2 * * *",
			TimeZone:     "Europe/Berlin",
			Requirements: []lockguard.Requirement{{Scope: "cluster/orders"}},
			Work:         &jobs.Command{Argv: []string{"/usr/local/bin/compact"}},
		})
		if err != nil {
			return err
		}
		return s.Run(ctx) // returns when ctx has ended and the runs have drained
	}
	_ = run // needs a ZooKeeper
}

// A daily job runs once on the day the clocks go forward, too.
func ExampleParse() {
	schedule, err := scheduler.Parse("30 2 * * *", "America/New_York")
	if err != nil {
		fmt.Println(err)
		return
	}
	at := time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC)
	for range 2 {
		at = schedule.Next(at)
		fmt.Println(at)
	}
	_, err = scheduler.Parse("0 0 30 2 *", "")
	fmt.Println(err)
	// Output:
	// 2026-03-08 03:30:00 -0400 EDT
	// 2026-03-09 02:30:00 -0400 EDT
	// schedule "0 0 30 2 *": it is never due: no month has such a day
}
