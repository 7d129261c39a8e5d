package opstore

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A caller that leaves at any moment shares nothing with its request, which goes on. The race detector judges.
func TestCallersThatLeaveShareNothingWithTheirRequests(t *testing.T) {
	server := zktest.RunT(t, zktest.Pipe())
	c, err := zkclient.NewClient(zkclient.Config{
		Servers: []string{server.Addr()}, Dialer: server.Dial, Auth: &zkclient.Digest{User: "ann", Password: "secret"},
		Operators: []string{zkclient.DigestID("ann", "secret")},
	})
	require.NoError(t, err)
	_, err = c.Init(t.Context())
	require.NoError(t, err)
	b := NewOverrideBoard(c)
	o := override.Override{
		ID: "a", Kind: override.Freeze, Match: override.Match{Scope: "x"}, By: "ann", Reason: "disk is full",
		Until: time.Now().Add(time.Hour),
	}
	_, err = b.Apply(t.Context(), o)
	require.NoError(t, err)
	for i := range 300 {
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Duration(i%100)*10*time.Microsecond, leave)
		_, _ = b.Apply(ctx, o)
		_, _ = c.Identities(ctx)
		leave()
	}
	require.NoError(t, c.Close(t.Context()))
}
