package identity

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// No real server's clock can be set here.
func TestOverridesEndByTheClockOfTheServers(t *testing.T) {
	t.Parallel()
	server := zktest.RunT(t)
	server.Advance(time.Hour)
	c := harness.NewClient(t, lock.Config{Servers: []string{server.Addr()}, Auth: &lock.Digest{User: "ana", Password: "secret"}})
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()

	_, err := c.Overrides().Apply(ctx, incident("over", time.Now().Add(50*time.Minute)))
	require.ErrorContains(t, err, "until: ")
	_, err = c.Overrides().Apply(ctx, incident("INC-1", time.Now().Add(70*time.Minute)))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(time.Hour), c.Now(), time.Minute)
	posted, err := c.Overrides().List(ctx)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(time.Hour), posted[0].PostedAt, time.Minute)
}

func TestNowIsLocalUntilTheServersHaveBeenAsked(t *testing.T) {
	t.Parallel()
	server := zktest.RunT(t)
	server.Advance(time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	client := func() *lock.Client {
		c := harness.NewClient(t, lock.Config{Servers: []string{server.Addr()}})
		require.NoError(t, c.Ready(ctx))
		return c
	}
	_, err := client().Time(ctx) // makes the root
	require.NoError(t, err)

	c := client()
	require.WithinDuration(t, time.Now(), c.Now(), time.Minute)
	harness.Eventually(t, func() bool { return c.Now().After(time.Now().Add(59 * time.Minute)) }, "the servers have been asked in the background")
}

// A latecomer is a context that ends when it is asked for the n-th time whether
// it has.
type latecomer struct {
	context.Context
	left atomic.Int64
	end  func()
}

func (l *latecomer) Err() error {
	if l.left.Add(-1) < 0 {
		l.end()
	}
	return l.Context.Err()
}

func TestWatchThatEndsTogetherWithAnAnswerSaysSo(t *testing.T) {
	t.Parallel()
	c := newFixture(t).client(keeper)
	for n := range int64(20) {
		ctx := &latecomer{}
		ctx.Context, ctx.end = context.WithCancel(context.Background())
		ctx.left.Store(n)
		err := c.Overrides().Watch(ctx, func([]opstore.PostedOverride, error) { ctx.end() })
		require.ErrorIs(t, err, context.Canceled, "it ends at question %d", n)
	}
}
