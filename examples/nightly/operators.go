package nightly

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/audit"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// operators is what the operators of a daemon have to say to its jobs: the
// overrides that they post in ZooKeeper are obeyed, and carried out; and what
// jobs do to each other by force is put on record.
type operators struct {
	auditor  *audit.Auditor
	client   *lock.Client
	desk     *emergency.Desk
	executor *emergency.Executor
	logger   *slog.Logger

	running sync.WaitGroup
	stop    context.CancelFunc // nil before start
}

// newOperators starts nothing.
func newOperators(client *lock.Client, limits override.Limits, logger *slog.Logger) (*operators, error) {
	trail, err := client.AuditLog(0)
	if err != nil {
		return nil, err
	}
	auditor, err := audit.New(audit.Config{Logger: logger, Trail: trail})
	if err != nil {
		return nil, err
	}
	desk, err := emergency.NewDesk(emergency.DeskConfig{
		Board: emergency.FromBoard(client.Overrides()), Limits: limits, Logger: logger, Now: client.Now,
	})
	return &operators{auditor: auditor, client: client, desk: desk, logger: logger}, err
}

// options make the jobs of a guard obey.
func (o *operators) options() []lockguard.Option {
	return []lockguard.Option{
		lockguard.WithAuditor(o.auditor), lockguard.WithObserver(o.auditor.Observe), lockguard.WithOverrides(o.desk),
	}
}

// carryOut has the guard take locks for operators.
func (o *operators) carryOut(guard *lockguard.Guard) (err error) {
	o.executor, err = emergency.NewExecutor(emergency.ExecutorConfig{
		Auditor: o.auditor, Client: o.client, Desk: o.desk, Guard: guard, Logger: o.logger,
	})
	return err
}

// firstLook is how long the first jobs wait until it is known what is in force.
const firstLook = 5 * time.Second

// start begins. When ctx ends, locks that are held for operators are given back.
func (o *operators) start(ctx context.Context) {
	always, stop := context.WithCancel(context.WithoutCancel(ctx))
	o.stop = stop
	o.running.Go(func() { o.desk.Run(always) })
	o.running.Go(func() { o.executor.Run(ctx) })
	waiting, cancel := context.WithTimeout(ctx, firstLook)
	defer cancel()
	_ = o.desk.Ready(waiting) // the jobs run all the same
}

// end is called when no job runs any more, and the context of start has ended.
func (o *operators) end(ctx context.Context) error {
	if o.stop == nil {
		return o.auditor.Close(ctx)
	}
	o.stop()
	ended := make(chan struct{})
	go func() {
		o.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return o.auditor.Close(ctx)
	case <-ctx.Done():
		return errors.Join(ctx.Err(), o.auditor.Close(ctx))
	}
}
