package lock

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A lockCache is what a client remembers of its locks. Being wrong costs a request, never safety.
type lockCache struct {
	c         *Client
	epoch     atomic.Int32 // data version of the root, -1 when not known
	hints     hintTable
	requests  requestCache // what waiters ask for, as read
	strangers strangers
	lines     localLines
}

func cacheOf(c *Client) *lockCache {
	return zkclient.Attached(c.Client, func() *lockCache {
		k := &lockCache{c: c}
		k.epoch.Store(-1)
		return k
	})
}

// SessionBegins forgets the epoch: scopes may have been removed since the last session.
func (k *lockCache) SessionBegins() { k.epoch.Store(-1) }

// rootEpoch returns the data version of the root, which garbage collection
// raises when it removes lock nodes.
func (k *lockCache) rootEpoch(ctx context.Context, s *zkclient.Session) (int32, error) {
	if e := k.epoch.Load(); e >= 0 {
		return e, nil
	}
	for {
		_, stat, err := s.Get(ctx, k.c.Root())
		switch {
		case err == nil:
			if err := k.c.Introduce(ctx, s); err != nil { // the root may have come since
				return 0, err
			}
			k.epoch.Store(stat.Version)
			return stat.Version, nil
		case errors.Is(err, zkclient.ErrNoNode):
			if err := s.Ensure(ctx, k.c.Root()); err != nil {
				return 0, err
			}
		default:
			return 0, err
		}
	}
}

// fireIdle makes a watch on a lock node fire that is no longer needed: it
// writes the node's data unchanged. go-zookeeper cannot take a watch back, and
// a node that is never deleted may not change for long.
func (k *lockCache) fireIdle(ctx context.Context, s *zkclient.Session, path string) {
	const tries = 3 // each fails only if the node changes, and then the watch fires
	for try := 0; try < tries && s.WatchIdle(path); {
		switch err := k.rewrite(ctx, s, path); {
		case errors.Is(err, zkclient.ErrAmbiguous): // the watch is set again with the connection
		case err == nil, errors.Is(err, zkclient.ErrBadVersion):
			try++
		default:
			return
		}
	}
}

// rewrite writes a lock node so that it says the same.
func (k *lockCache) rewrite(ctx context.Context, s *zkclient.Session, path string) error {
	// The lock need not have requests of this client any more, so it may be
	// removed, and created anew with the version that is read here: the epoch
	// shows that.
	epoch, err := k.rootEpoch(ctx, s)
	if err != nil {
		return err
	}
	data, stat, err := s.Get(ctx, path)
	if err != nil {
		return err
	}
	_, failed, err := s.Multi(ctx,
		&zkclient.CheckVersionRequest{Path: s.Client().Root(), Version: epoch},
		&zkclient.SetDataRequest{Path: path, Data: again(data, stat), Version: stat.Version})
	if failed == 0 && errors.Is(err, zkclient.ErrBadVersion) {
		k.epoch.CompareAndSwap(epoch, -1)
	}
	return err
}
