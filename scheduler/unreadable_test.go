package scheduler

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// spoiled is a ledger in which the record of the job "bad" is none while it is
// spoiled.
type spoiled struct {
	*ledger
	mended atomic.Bool
}

func (l *spoiled) why(job string) error {
	if job != "bad" || l.mended.Load() {
		return nil
	}
	return &recipes.RecordError{Node: "/lockkeeper/ticks/bad", Err: errors.New("it is empty")}
}

func (l *spoiled) Begin(ctx context.Context, job string, first time.Time) (time.Time, error) {
	if err := l.why(job); err != nil {
		return time.Time{}, err
	}
	return l.ledger.Begin(ctx, job, first)
}

func (l *spoiled) RecordSkip(ctx context.Context, job, reason string, instants ...time.Time) (int, error) {
	if err := l.why(job); err != nil {
		return 0, err
	}
	return l.ledger.RecordSkip(ctx, job, reason, instants...)
}

func (l *spoiled) Claim(ctx context.Context, job string, instant time.Time, ask recipes.TickAsk) (recipes.TickClaim, error) {
	if err := l.why(job); err != nil {
		return recipes.TickClaim{}, err
	}
	return l.ledger.Claim(ctx, job, instant, ask)
}

func TestAJobWhoseRecordCannotBeReadIsToldOnceAndOthersRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &spoiled{ledger: newCluster().daemon("a")}
		d := start(t, l.ledger, []jobs.Job{job("bad", "* * * * * *", 0), job("good", "* * * * * *", 0)}, func(c *Config) { c.Ledger = l })

		<-time.After(5 * time.Minute)

		require.Equal(t, 1, d.log.lines("level=ERROR", "job=bad", "/lockkeeper/ticks/bad"), d.log)
		require.Zero(t, d.log.lines("level=WARN", "job=bad"), "not each tick")
		require.Zero(t, d.stats("bad").Ran)
		require.Greater(t, d.stats("good").Ran, uint64(250))

		l.mended.Store(true)
		<-time.After(5 * time.Minute)
		require.Equal(t, 1, d.log.lines("job=bad", "can be read again"))
		require.NotZero(t, d.stats("bad").Ran)
	})
}
