package schedulers

import (
	"bytes"
	"context"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// fillHistories makes the jobs known to the ledger, as those of a cluster that
// has run them for a while: every write of a tick carries the history, so the
// first ones alone would be cheap. One job runs as often as its history is
// long; the others get what that has left.
func fillHistories(ctx context.Context, client *lock.Client, s settings) error {
	const model = "job-model"
	const runs = 40 // the ring is shorter
	ledger := client.TickLedger("")
	now := time.Now().Truncate(time.Second)
	for i := range runs {
		at := now.Add(time.Duration(i-runs) * periodOf(s))
		claim, err := ledger.Claim(ctx, model, at, ticks.Ask{})
		if err != nil {
			return err
		}
		if _, err := ledger.Finish(ctx, claim.Run, ticks.End{Outcome: ticks.Ran, Took: time.Millisecond}); err != nil {
			return err
		}
	}
	if _, err := ledger.RecordSkip(ctx, model, "missed", now); err != nil { // up to now
		return err
	}
	conn, _, err := zk.Connect([]string{s.Server}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		return err
	}
	defer conn.Close()
	const ticks = "/lockkeeper/ticks/"
	data, _, err := conn.Get(ticks + model)
	if err != nil {
		return err
	}
	copies, _ := errgroup.WithContext(ctx)
	copies.SetLimit(64)
	for i := range s.Jobs {
		copies.Go(func() error {
			own := bytes.Replace(data, []byte(strconv.Quote(model)), []byte(strconv.Quote(jobName(i))), 1)
			_, err := conn.Create(ticks+jobName(i), own, 0, zk.WorldACL(zk.PermAll))
			return err
		})
	}
	return copies.Wait()
}
