package identity

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// No real server's clock can be set here.
func TestOverridesEndByTheClockOfTheServers(t *testing.T) {
	t.Parallel()
	server := zktest.RunT(t)
	server.Advance(time.Hour)
	c, err := recipes.NewClient(recipes.Config{Servers: []string{server.Addr()}, Auth: &recipes.Digest{User: "ana", Password: "secret"}})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	t.Cleanup(cancel)
	t.Cleanup(func() { require.NoError(t, c.Close(ctx)) })

	_, err = c.Overrides().Apply(ctx, incident("over", time.Now().Add(50*time.Minute)))
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
	c, err := recipes.NewClient(recipes.Config{Servers: []string{server.Addr()}})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	t.Cleanup(cancel)
	t.Cleanup(func() { require.NoError(t, c.Close(ctx)) })
	require.NoError(t, c.Ready(ctx))
	require.WithinDuration(t, time.Now(), c.Now(), time.Minute)
	eventually(t, func() bool { return c.Now().After(time.Now().Add(59 * time.Minute)) }, "the servers have been asked in the background")
}

// A latecomer is a context whose end nobody has noticed yet.
type latecomer struct{ context.Context }

func (latecomer) Err() error { return context.Canceled }

func TestWatchThatEndsTogetherWithAnAnswerSaysSo(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	err := h.client(keeper).Overrides().Watch(latecomer{h.context()}, func([]recipes.PostedOverride, error) {})
	require.ErrorIs(t, err, context.Canceled)
}
