package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.opentelemetry.io/otel"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/traces"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/temporal"
)

const queue = "orders"

// repair is what cannot wait: more important than the migration, and forceful,
// after the time that the migration needs to clean up.
var repair = lockguard.Requirement{
	Scope: migration.Scope, Owner: "repair", Terms: priority.Terms{Priority: 90, Forceful: true},
	Message: "customers are charged twice",
}

// An ending is what became of it all.
type ending struct {
	store    *store
	workflow string // its id
	events   int    // of the run that completed
	waited   time.Duration
}

// play plays the story.
func play(ctx context.Context, zk lock.Config, service client.Client, out io.Writer) (end ending, err error) {
	tell := newNarrator(out)
	end.store = newStore()

	// The worker is one process, the repair another: each has a client of its own.
	workers, err := lock.NewClient(zk)
	if err != nil {
		return end, err
	}
	defer func() { err = errors.Join(err, closeIn(ctx, workers)) }()
	stop, err := work(service, workers, &activities{store: end.store, tell: tell, batch: 300 * time.Millisecond})
	if err != nil {
		return end, err
	}
	defer stop()

	run, err := service.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: fmt.Sprintf("migrate-orders-%d", time.Now().Unix()), TaskQueue: queue,
		RetryPolicy: &sdk.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 1, MaximumAttempts: 5},
	}, Migrate)
	if err != nil {
		return end, err
	}
	end.workflow = run.GetID()
	tell.say("you", "start workflow %s", run.GetID())

	if err := tell.await(ctx, "copy", interrupted); err != nil {
		return end, err
	}
	if end.waited, err = end.store.mend(ctx, zk, tell); err != nil {
		return end, err
	}
	if err := run.Get(ctx, nil); err != nil {
		return end, err
	}
	tell.say("migration", "is done: %s", end.store.state())
	end.events, err = count(ctx, service, run.GetID())
	return end, err
}

// work runs a worker whose plugin takes the locks.
func work(service client.Client, locks *lock.Client, a *activities) (stop func(), err error) {
	spans := traces.New(otel.GetTracerProvider()) // a no-op, unless the program sets one
	guard, err := lockguard.New(locks, spans.Options()...)
	if err != nil {
		return nil, err
	}
	plugin, err := temporal.NewPlugin(guard)
	if err != nil {
		return nil, err
	}
	w := worker.New(service, queue, worker.Options{Plugins: []worker.Plugin{plugin}})
	w.RegisterWorkflow(Migrate)
	w.RegisterActivity(a)
	return w.Stop, w.Start()
}

// mend is the emergency: it is no workflow, and knows nothing of Temporal.
func (s *store) mend(ctx context.Context, zk lock.Config, tell *narrator) (waited time.Duration, err error) {
	client, err := lock.NewClient(zk)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, closeIn(ctx, client)) }()
	guard, err := lockguard.New(client, lockguard.WithObserver(tell.observe))
	if err != nil {
		return 0, err
	}
	began := time.Now()
	return waited, guard.Do(ctx, repair, func(ctx context.Context) error {
		waited = time.Since(began)
		token, err := token(ctx)
		if err != nil {
			return err
		}
		if err := s.repair(token); err != nil {
			return err
		}
		tell.say("repair", "mends the orders: %s", s.state())
		return nil
	})
}

// count returns how many events the history of a workflow's last run has.
func count(ctx context.Context, service client.Client, workflow string) (events int, err error) {
	history := service.GetWorkflowHistory(ctx, workflow, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		if _, err := history.Next(); err != nil {
			return 0, err
		}
		events++
	}
	return events, nil
}

// closeIn ends a client, also when ctx has ended.
func closeIn(ctx context.Context, what interface{ Close(context.Context) error }) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return what.Close(ctx)
}
