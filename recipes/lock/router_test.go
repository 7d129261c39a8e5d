package lock

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

func TestLongestPrefixOfWholeSegmentsHasTheScope(t *testing.T) {
	home, eu, orders := unconnected(t), unconnected(t), unconnected(t)
	r, err := NewRouter(home, map[string]*Client{"cluster/eu": eu, "cluster/eu/orders": orders, "cluster/us": home, "jobs": eu})
	require.NoError(t, err)

	for scope, want := range map[string]struct {
		client *Client
		prefix string
	}{
		"cluster/eu":               {eu, "cluster/eu"},
		"cluster/eu/users":         {eu, "cluster/eu"},
		"cluster/europe":           {home, ""},
		"cluster/eu/orders":        {orders, "cluster/eu/orders"},
		"cluster/eu/orders/a":      {orders, "cluster/eu/orders"},
		"cluster/eu/orders-of-old": {eu, "cluster/eu"},
		"cluster/us/a":             {home, "cluster/us"},
		"jobs/nightly":             {eu, "jobs"},
		"cluster":                  {home, ""},
		"a/jobs":                   {home, ""},
	} {
		client, prefix := r.Route(scope)
		require.Same(t, want.client, client, scope)
		require.Equal(t, want.prefix, prefix, scope)
		lock, err := r.PriorityLock(scope)
		require.NoError(t, err)
		require.Same(t, want.client, lock.c, scope)
	}
	require.Same(t, home, r.Home())
	require.Len(t, r.Clients(), 3, "each once")
	require.Same(t, home, r.Clients()[0])
}

func TestRouterRefusesWhatIsNoPrefix(t *testing.T) {
	_, err := NewRouter(nil, map[string]*Client{"a/": {}, "": {}, "a//b": {}, "good": nil})
	require.ErrorContains(t, err, "home: is nil")
	require.ErrorContains(t, err, `prefixes: "a/" ends with a slash; write "a"`)
	require.ErrorContains(t, err, "prefixes: is empty")
	require.ErrorContains(t, err, `prefixes: "a//b" has an empty part`)
	require.ErrorContains(t, err, `prefixes: the client of "good" is nil`)

	r, err := NewRouter(unconnected(t), nil)
	require.NoError(t, err)
	_, err = r.PriorityLock("a/")
	require.ErrorAs(t, err, new(*zkclient.RequestError))
}
