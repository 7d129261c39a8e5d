package classic

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

func anyone(p recipes.Permission) []recipes.ACL {
	return []recipes.ACL{{Permissions: p, Scheme: "world", ID: "anyone"}}
}

// Curator A1, A2
func TestEachLevelThatAMutexCreatesHasItsOwnACL(t *testing.T) {
	t.Parallel()
	for name, naming := range namings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			shell := h.shell()
			rights := map[string]recipes.Permission{
				"/locks":       recipes.PermissionAll,
				"/locks/users": recipes.PermissionAll &^ recipes.PermissionAdmin,
			}
			m := h.mutex(h.client(), naming, func(o *recipes.MutexOptions) {
				o.ACL = func(path string) []recipes.ACL {
					if p, ok := rights[path]; ok {
						return anyone(p)
					}
					return anyone(recipes.PermissionRead | recipes.PermissionWrite)
				}
			})

			u := h.hold("ann", m.Acquire)

			rights[u.grant.Path()] = recipes.PermissionRead | recipes.PermissionWrite
			for path, p := range rights {
				acl, _, err := shell.GetACL(h.at(path))
				require.NoError(t, err)
				require.Equal(t, []zk.ACL{{Perms: int32(p), Scheme: "world", ID: "anyone"}}, acl, path)
			}
			u.release()
		})
	}
}

func TestMutexWithoutACLsOfItsOwnUsesThoseOfTheClient(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	shell := h.shell()
	require.NoError(t, shell.AddAuth("digest", []byte("ann:secret")))
	c := h.client(func(cfg *recipes.Config) { cfg.Auth = &recipes.Digest{User: "ann", Password: "secret"} })
	m := h.mutex(c, func(o *recipes.MutexOptions) { o.ACL = func(string) []recipes.ACL { return nil } })
	u := h.hold("ann", m.Acquire)
	for _, path := range []string{"/locks", users, u.grant.Path()} {
		acl, _, err := shell.GetACL(h.at(path))
		require.NoError(t, err)
		require.Len(t, acl, 1)
		require.Equal(t, "digest", acl[0].Scheme)
		require.Contains(t, acl[0].ID, "ann:")
	}
	_, err := h.mutex(h.client()).TryAcquire(t.Context())
	var denied *recipes.AccessError
	require.ErrorAs(t, err, &denied)
	require.Contains(t, denied.Node, users)
	u.release()
}

// Curator L1
func TestMutexWhoseLineCannotBeListedSaysSoAndLeavesNothing(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	shell := h.shell()
	h.make(shell, users, nil, 0)
	_, err := shell.SetACL(h.at(users), zk.WorldACL(zk.PermCreate|zk.PermDelete|zk.PermAdmin), -1)
	require.NoError(t, err)

	_, err = h.mutex(h.client()).Acquire(t.Context())

	var denied *recipes.AccessError
	require.ErrorAs(t, err, &denied)
	require.Equal(t, h.at(users), denied.Node)
	h.nobodyThere()
}

// Curator L2
func TestMutexWhoseServerDiesDuringTheListingIsNotStuckAndLeavesNothing(t *testing.T) {
	t.Parallel()
	h := ownHouse(t)
	wire := &wire{}
	c := h.client(through(wire))
	require.NoError(t, c.Ready(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	wire.before(opGetChildren2, 0, func() {
		if err := h.server.Kill(); err != nil {
			t.Error(err)
		}
	})

	before := time.Now()
	_, err := h.mutex(c).Acquire(ctx)

	require.True(t, wire.unset())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(before), soon)

	// and what it leaves is removed as soon as there is a server, in whatever session
	require.NoError(t, h.server.Restart(t.Context()))
	h.nobodyThere()
	require.NoError(t, c.Ready(t.Context()))
	h.hold("ann", h.mutex(c).Acquire)
}

func TestReleaseThatIsRefusedSaysWhichNodeHoldsOthersUp(t *testing.T) {
	t.Parallel()
	for name, lasting := range map[string]bool{"of a session": false, "persistent": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			shell := h.shell()
			u := h.hold("ann", h.mutex(h.client(), func(o *recipes.MutexOptions) { o.Persistent = lasting }).Acquire)
			_, err := shell.SetACL(h.at(users), zk.WorldACL(zk.PermAll&^zk.PermDelete), -1)
			require.NoError(t, err)

			err = u.grant.Release(t.Context())

			var refused *recipes.NotRemovedError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, u.grant.Path(), refused.Path)
			require.Equal(t, lasting, refused.Lasting)
			require.ErrorAs(t, err, new(*recipes.AccessError))
			require.True(t, h.exists(shell, u.grant.Path()))
			require.ErrorIs(t, u.grant.Check(), recipes.ErrReleased)
		})
	}
}
