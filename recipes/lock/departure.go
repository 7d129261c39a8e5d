package lock

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// leave is T8: it takes the request out of the queue, however long that takes.
// Found granted, it goes the way of a release.
func (p *place) leave() {
	if p.s.IsOver() {
		return
	}
	ctx := context.Background()
	p.withdraw(ctx)
	if p.granted.Load() && p.isGranted(ctx) {
		p.releaseUnused(ctx)
		return
	}
	granted, err := p.depart(ctx)
	switch {
	case granted:
		p.releaseUnused(ctx)
		return
	case err != nil:
		p.a.l.c.Log().Error("cannot leave the queue; the request stays until the session ends", "node", p.path, "error", err)
	}
	if p.sawG {
		p.a.l.cache.fireIdle(ctx, p.s, p.a.l.path)
	}
}

// isGranted reports whether the own node, which was written to, says that it
// was granted: another program may have written there.
func (p *place) isGranted(ctx context.Context) bool {
	for {
		data, _, err := p.s.Get(ctx, p.path)
		if errors.Is(err, zkclient.ErrAmbiguous) {
			continue
		}
		rec, bad := decodeContender(data)
		return err == nil && bad == nil && rec.Granted
	}
}

// releaseUnused gives back what was granted to a request that leaves.
func (p *place) releaseUnused(ctx context.Context) {
	g := p.newGrant()
	g.version, g.born = -1, p.s.Now()
	_ = g.Release(ctx)
}

// depart deletes the node, however often it takes. A request with a lock-delay
// that was granted meanwhile must not: that would look like the unclean end of
// a hold.
func (p *place) depart(ctx context.Context) (granted bool, err error) {
	if p.a.req.LockDelay == 0 {
		return false, p.s.DeleteSurely(ctx, p.path)
	}
	for look := p.adopted; ; look = true {
		err := zkclient.ErrBadVersion
		if !look || p.known {
			err = p.s.Delete(ctx, p.path, p.version) // 0 when it was not read yet: as it was created
		}
		switch {
		case err == nil, errors.Is(err, zkclient.ErrNoNode), errors.Is(err, zkclient.ErrSessionOver):
			return false, nil
		case errors.Is(err, zkclient.ErrAmbiguous):
			continue
		case !errors.Is(err, zkclient.ErrBadVersion):
			return false, err
		}
		data, stat, err := p.s.Get(ctx, p.path)
		switch {
		case errors.Is(err, zkclient.ErrNoNode), errors.Is(err, zkclient.ErrSessionOver):
			return false, nil
		case errors.Is(err, zkclient.ErrAmbiguous):
			continue
		case err != nil:
			return false, err
		}
		p.version, p.known = stat.Version, true
		if rec, err := decodeContender(data); err == nil && rec.Granted {
			return true, nil
		}
	}
}
