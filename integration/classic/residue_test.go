package classic

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/classic"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// N8: tries, and waits that are cancelled. The client and the server keep nothing for them.
func TestTriesAndCancelledWaitsOnAHeldMutexCostNoMemory(t *testing.T) {
	f := share(t)
	f.hold("holder", f.mutex(f.client()).Acquire)
	c := f.client()
	try := func(ctx context.Context) error {
		_, err := f.mutex(c).TryAcquire(ctx)
		if _, busy := errors.AsType[*lock.NotAcquiredError](err); busy {
			return nil
		}
		return err
	}
	wait := func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		_, err := f.mutex(c, func(o *classic.MutexOptions) { o.Notify = func(lock.Notice) { cancel() } }).Acquire(ctx)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
	for name, play := range map[string]struct {
		call       func(context.Context) error
		warm, more int // the embedded server remembers 5,000 requests, and no more
		limit      int64
	}{
		"tries": {try, 5_000, 10_000, 256 << 10}, // 26 bytes or more each
		"waits": {wait, 400, 3_000, 512 << 10},   // 200 bytes or more each
	} {
		t.Run(name, func(t *testing.T) {
			call := func(n int) {
				harness.Together(t, 8, func(ctx context.Context, _ int) error {
					for range n / 8 {
						if err := play.call(ctx); err != nil {
							return err
						}
					}
					return nil
				})
			}
			call(play.warm)
			watches, goroutines := len(f.Watches()), goleak.IgnoreCurrent()

			harness.TakesLess(t, play.limit, func() { call(play.more) })

			harness.Eventually(t, func() bool { return len(f.Ephemerals()) == 1 }, "some who have left are still there")
			require.NoError(t, goleak.Find(goroutines))
			require.LessOrEqual(t, len(f.Watches()), watches)
		})
	}
}
