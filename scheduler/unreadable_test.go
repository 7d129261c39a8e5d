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
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func TestAJobWhoseRecordCannotBeReadIsToldOnceAndOthersRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given a ledger in which the record of one job is none
		l := newCluster().daemon("a")
		var mended atomic.Bool
		l.before = func(_ context.Context, job string) error {
			if job != "bad" || mended.Load() {
				return nil
			}
			return &lock.RecordError{Node: "/lockkeeper/ticks/bad", Err: errors.New("it is empty")}
		}
		d := start(t, l, []jobs.Job{job("bad", "* * * * * *", 0), job("good", "* * * * * *", 0)})

		<-time.After(5 * time.Minute)

		require.Equal(t, 1, d.log.lines("level=ERROR", "job=bad", "/lockkeeper/ticks/bad"), d.log)
		require.Zero(t, d.log.lines("level=WARN", "job=bad"), "not each tick")
		require.Zero(t, d.stats("bad").Ran)
		require.Greater(t, d.stats("good").Ran, uint64(250))

		mended.Store(true)
		<-time.After(5 * time.Minute)
		require.Equal(t, 1, d.log.lines("job=bad", "can be read again"))
		require.NotZero(t, d.stats("bad").Ran)
	})
}
