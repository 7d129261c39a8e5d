package main

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestDaemonTellsThatOthersHaveAccess(t *testing.T) {
	server := zktest.RunT(t)
	told := func(cfg lock.Config) string {
		t.Helper()
		var log bytes.Buffer
		cfg.Servers = []string{server.Addr()}
		client, err := lock.NewClient(cfg)
		require.NoError(t, err)
		defer closeClient(client)
		tellAccess(t.Context(), client, slog.New(slog.NewTextHandler(&log, nil)))
		return log.String()
	}
	secured := lock.Config{Auth: ana}
	require.Empty(t, told(secured), "there is no root yet")

	client := connect(t, server, nil)
	_, _, err := client.Locks(t.Context())
	require.NoError(t, err)
	require.NoError(t, acquire(t, client, "users", lock.Request{}).Release(t.Context()))

	log := told(secured)
	for _, node := range []string{"node=/lockkeeper ", "node=/lockkeeper/locks "} {
		require.Contains(t, log, node)
	}
	require.Contains(t, log, `level=WARN msg="others have access"`)
	require.Contains(t, log, "entry=world:anyone:cdrwa")
	require.Empty(t, told(lock.Config{}), "an open deployment")
}
