package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// An observatory watches all locks of the cluster, for whatever shows them. It has a
// session of its own: what it watches is not in the way of the daemon's own locks. nil
// sees nothing.
type observatory struct {
	board   *live.Board
	client  *lock.Client
	stop    context.CancelFunc
	running sync.WaitGroup
	over    atomic.Pointer[error] // why it sees nothing any more
}

// openObservatory begins to look, until end.
func openObservatory(ctx context.Context, cfg *config.Config, logger *slog.Logger) (*observatory, error) {
	client, err := lock.NewClient(cfg.Client)
	if err != nil {
		return nil, err
	}
	o := &observatory{client: client}
	lookout, err := client.Lookout(lock.LookoutOptions{})
	if err == nil {
		o.board, err = live.New(live.Options{Source: lookout, Now: client.Now, Logger: logger})
	}
	if err != nil {
		closeClient(client)
		return nil, err
	}
	ctx, o.stop = context.WithCancel(context.WithoutCancel(ctx)) // also while the daemon drains
	o.running.Go(func() {
		err := o.board.Run(ctx)
		o.over.Store(&err)
		if ctx.Err() == nil {
			logger.Error("the locks of the cluster are not watched any more", "error", err)
		}
	})
	return o, nil
}

// now is what is seen; nil when nothing is seen any more.
func (o *observatory) now() *live.Snapshot {
	if o == nil || o.over.Load() != nil {
		return nil
	}
	return o.board.Now()
}

// ready reports why not all locks are known. That they may not be watched is logged,
// and no reason not to work.
func (o *observatory) ready() error {
	if s := o.now(); s != nil && !s.Complete {
		return errors.New("not all locks of the cluster have been looked at yet")
	}
	return nil
}

func (o *observatory) end() {
	if o == nil {
		return
	}
	o.stop()
	o.running.Wait()
	closeClient(o.client)
}
