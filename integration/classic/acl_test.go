package classic

import (
	"context"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/classic"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func anyone(p zkclient.Permission) []zkclient.ACL {
	return []zkclient.ACL{{Permissions: p, Scheme: "world", ID: "anyone"}}
}

// Curator A1, A2
func TestEachLevelThatAMutexCreatesHasItsOwnACL(t *testing.T) {
	eachNaming(t, func(t *testing.T, f *fixture, naming func(*classic.MutexOptions)) {
		const others = zkclient.PermissionRead | zkclient.PermissionWrite
		rights := map[string]zkclient.Permission{
			"/locks":       zkclient.PermissionAll,
			"/locks/users": zkclient.PermissionAll &^ zkclient.PermissionAdmin,
		}
		r := f.hold("ann", f.mutex(f.client(), naming, func(o *classic.MutexOptions) {
			o.ACL = func(path string) []zkclient.ACL {
				if p, ok := rights[path]; ok {
					return anyone(p)
				}
				return anyone(others)
			}
		}).Acquire)

		for path, p := range map[string]zkclient.Permission{"/locks": rights["/locks"], users: rights[users], r.Path(): others} {
			acl, _, err := f.Shell().GetACL(f.Root + path)
			require.NoError(t, err)
			require.Equal(t, zk.WorldACL(int32(p)), acl, path)
		}
		r.Release()
	})
}

func TestMutexWithoutACLsOfItsOwnUsesThoseOfTheClient(t *testing.T) {
	t.Parallel()
	f := share(t)
	require.NoError(t, f.Shell().AddAuth("digest", []byte("ann:secret")))
	c := f.client(func(cfg *lock.Config) { cfg.Auth = &lock.Digest{User: "ann", Password: "secret"} })
	r := f.hold("ann", f.mutex(c, func(o *classic.MutexOptions) { o.ACL = func(string) []zkclient.ACL { return nil } }).Acquire)
	for _, path := range []string{"/locks", users, r.Path()} {
		acl, _, err := f.Shell().GetACL(f.Root + path)
		require.NoError(t, err)
		require.Len(t, acl, 1)
		require.Equal(t, "digest", acl[0].Scheme)
		require.Contains(t, acl[0].ID, "ann:")
	}
	_, err := f.mutex(f.client()).TryAcquire(t.Context())
	var denied *lock.AccessError
	require.ErrorAs(t, err, &denied)
	require.Contains(t, denied.Node, users)
}

// Curator L1
func TestMutexWhoseLineCannotBeListedSaysSoAndLeavesNothing(t *testing.T) {
	t.Parallel()
	f := share(t)
	f.Create(users, nil, 0)
	f.permit(users, zk.PermCreate|zk.PermDelete|zk.PermAdmin)

	_, err := f.mutex(f.client()).Acquire(t.Context())

	var denied *lock.AccessError
	require.ErrorAs(t, err, &denied)
	require.Equal(t, f.Root+users, denied.Node)
	f.NoEphemerals()
}

// Curator L2
func TestMutexWhoseServerDiesDuringTheListingIsNotStuckAndLeavesNothing(t *testing.T) {
	t.Parallel()
	f := alone(t)
	c, proxy := f.proxied()
	ctx, cancel := context.WithCancel(t.Context())
	listing := proxy.On(f.on(zktest.GetChildren, users).Nth(1)).Hold()
	r := f.ask("ann", func(context.Context) (*classic.Grant, error) { return f.mutex(c).Acquire(ctx) })
	reached(t, listing)
	require.NoError(t, f.Server.Kill())
	listing.Release()

	// when the caller gives up
	cancel()
	require.ErrorIs(t, r.Refused(), context.Canceled)

	// then what it leaves is removed as soon as there is a server, in whatever session
	require.NoError(t, f.Server.Restart(t.Context()))
	f.NoEphemerals()
	require.NoError(t, c.Ready(t.Context()))
	f.hold("ann", f.mutex(c).Acquire)
}

func TestReleaseThatIsRefusedSaysWhichNodeHoldsOthersUp(t *testing.T) {
	t.Parallel()
	for name, lasting := range map[string]bool{"of a session": false, "persistent": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := share(t)
			r := f.hold("ann", f.mutex(f.client(), func(o *classic.MutexOptions) { o.Persistent = lasting }).Acquire)
			f.permit(users, zk.PermAll&^zk.PermDelete)

			err := r.Granted().Release(t.Context())

			var refused *classic.NotRemovedError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, r.Path(), refused.Path)
			require.Equal(t, lasting, refused.Lasting)
			require.ErrorAs(t, err, new(*lock.AccessError))
			require.True(t, f.Exists(r.Path()))
			require.ErrorIs(t, r.Granted().Check(), lock.ErrReleased)
		})
	}
}
