package main

import (
	"context"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestDaemonTakesEachLockWhereTheFileSays(t *testing.T) {
	near, far := zktest.RunT(t), zktest.RunT(t)
	cfg := &config.Config{
		Client:    lock.Config{Servers: []string{near.Addr()}, Root: "/here"},
		Ensembles: []config.Ensemble{{Name: "far", Servers: []string{far.Addr()}, Root: "/there", Prefixes: []string{"far", "other/deep"}}},
	}
	home, err := lock.NewClient(cfg.Client)
	require.NoError(t, err)
	defer closeClient(home)
	router, end, err := route(home, cfg)
	require.NoError(t, err)
	defer end()

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for scope, where := range map[string]struct {
		server *zktest.Server
		root   string
		node   string
	}{
		"far/a":        {far, "/there", "far%2Fa"},
		"other/deep/b": {far, "/there", "other%2Fdeep%2Fb"},
		"other/b":      {near, "/here", "other%2Fb"},
	} {
		l, err := router.PriorityLock(scope)
		require.NoError(t, err)
		grant, err := l.Acquire(ctx, lock.Request{Terms: priority.Terms{LeaseTimeout: time.Hour}})
		require.NoError(t, err)
		there := slices.ContainsFunc(where.server.Tree(where.root), func(n zktest.Node) bool { return path.Base(n.Path) == where.node })
		require.True(t, there, "%s on the server that has it", scope)
		require.NoError(t, grant.Release(ctx))
	}
}

func TestNoEnsemblesIsHomeAlone(t *testing.T) {
	home, err := lock.NewClient(lock.Config{Servers: []string{"localhost:1"}})
	require.NoError(t, err)
	defer closeClient(home)
	router, end, err := route(home, &config.Config{})
	require.NoError(t, err)
	defer end()
	require.Equal(t, []*lock.Client{home}, router.Clients())
}

func TestEnsembleThatCannotBeReachedByItsSettingsIsRefused(t *testing.T) {
	home, err := lock.NewClient(lock.Config{Servers: []string{"localhost:1"}})
	require.NoError(t, err)
	defer closeClient(home)
	_, _, err = route(home, &config.Config{Ensembles: []config.Ensemble{
		{Name: "a", Servers: []string{"localhost:1"}, Prefixes: []string{"a"}},
		{Name: "b", Servers: []string{"localhost:1"}, Root: "no", Prefixes: []string{"b"}},
	}})
	require.ErrorAs(t, err, new(*lock.RequestError))
}
