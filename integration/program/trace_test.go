package program

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func TestCommandFindsTheTraceOfItsLockInItsEnvironment(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	client, err := lock.NewClient(lock.Config{Servers: []string{zookeeper.Server(t).Addr()}, Root: zkserver.Root(t), SessionTimeout: 4 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close(context.Background())) })
	guard, err := lockguard.New(client, lockguard.WithTrace(func(context.Context, lockguard.Subject) string { return trace }))
	require.NoError(t, err)

	var out strings.Builder
	command := &jobs.Command{Argv: []string{"/bin/sh", "-c", "echo $TRACEPARENT"}, Env: []string{"TRACEPARENT=another"}, Stdout: &out}
	err = guard.Do(t.Context(), lockguard.Requirement{Scope: "db"}, func(ctx context.Context) error { return command.Run(ctx, jobs.Run{}) })

	require.NoError(t, err)
	require.Equal(t, trace+"\n", out.String())
}
