package config_test

import (
	"context"
	"fmt"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/jobs"
)

// reindex is a Go function that jobs can run.
func reindex(context.Context, jobs.Run) error { return nil }

func Example() {
	text := `
version: 1
priorities: {classes: {batch: 20}}
jobs:
  reindex:
    schedule: "*/15 * * * *"
    run: go:reindex
    locks: [{scope: cluster/orders, priority: batch, lease_timeout: 10m}]
`
	cfg, err := config.Parse("lockkeeper.yaml", []byte(text), config.Options{
		Funcs: map[string]jobs.Work{"reindex": jobs.Func(reindex)},
	})
	if err != nil {
		fmt.Println(err) // one line for each problem
		return
	}
	for _, job := range cfg.Jobs {
		lock := job.Requirements[0]
		fmt.Printf("%s (%s) locks %s with priority %d for %s\n", job.Name, job.Schedule, lock.Scope, lock.Priority, lock.LeaseTimeout)
	}
	// Output:
	// reindex (*/15 * * * *) locks cluster/orders with priority 20 for 10m0s
}

func ExampleErrors() {
	text := `
version: 1
jobs:
  backup:
    schedule: "0 0 30 2 *"
    run: [/usr/bin/backup]
    timeout: 30 minutes
    locks:
      - scope: cluster/orders
        leese: 5m
        priority: 2147483647
`
	_, err := config.Parse("lockkeeper.yaml", []byte(text), config.Options{})
	fmt.Println(err)
	// Output:
	// lockkeeper.yaml:5:15 jobs[backup].schedule: "0 0 30 2 *": it is never due: no month has such a day; write for example "0 2 * * *" or "@every 5m"
	// lockkeeper.yaml:7:14 jobs[backup].timeout: "30 minutes" is not a duration; write "30m"
	// lockkeeper.yaml:10:9 jobs[backup].locks[0]: unknown field "leese"; did you mean "lease_timeout"?
	// lockkeeper.yaml:11:19 jobs[backup].locks[0].priority: priority 2147483647 is the emergency level, reserved for operators' overrides; write 2147483646 or less, and let an operator override in an emergency
}
