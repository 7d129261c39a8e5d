package lock

import (
	"context"
	"errors"
	"slices"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// grantSelf is T3: every holder in G is dead, or admits this request and is
// kept.
func (p *place) grantSelf(
	ctx context.Context, stat *zkclient.Stat, g lockRecord, children, keep []child,
) (*Grant, error) {
	if err := p.a.vouch(ctx, &p.a.req); err != nil {
		return nil, err
	}
	if p.a.outdated() {
		return nil, errAgain
	}
	next := lockRecord{Evicted: g.Evicted, Walked: g.Walked && len(keep) > 0, Delays: p.remains(stat, g, children)}
	for _, c := range keep {
		if slices.Contains(g.Holders, c.guid) { // else it has walked in
			next.Holders = append(next.Holders, c.guid)
		}
	}
	// planted-bug self-grant-without-version: stat = &zkclient.Stat{Version: -1}
	r, _, err := p.s.Multi(ctx,
		&zkclient.SetDataRequest{Path: p.path, Data: p.grantedData(), Version: p.version}, // planted-bug dead-waiter-goes-on:
		&zkclient.SetDataRequest{Path: p.a.l.path, Data: p.joining(next).encode(), Version: stat.Version})
	if err == nil {
		// planted-bug dead-waiter-goes-on: r = p.mark(ctx, r)
		p.makePeace()
	}
	return p.ownGrant(r, 0, next, err)
}

// joining is G with this request as one holder more.
func (p *place) joining(g lockRecord) lockRecord { return g.with(p.guid, p.rec.delayNotes(p.guid)) }

func (p *place) grantedData() []byte {
	rec := p.rec
	rec.Granted = true
	return rec.encode()
}

// ownGrant reads the reply of a transaction in which the request granted
// itself, beside those of kept: ops own and own+1 wrote its node and the
// lock node.
func (p *place) ownGrant(r []zkclient.MultiResponse, own int, kept lockRecord, err error) (*Grant, error) {
	switch {
	case err == nil:
		p.a.l.cache.hints.crowded(p.a.l.path)
		g := p.newGrant()
		g.at.learn(r[own].Stat)
		g.token, g.version, g.epoch, g.evicted = Token(r[own].Stat.Mzxid), r[own+1].Stat.Version, p.a.epoch, kept.Evicted
		// planted-bug token-of-the-place: g.token = Token(r[own].Stat.Czxid)
		if kept.occupied() {
			g.version = -1 // at which the lock is not idle when this one leaves
		}
		return p.a.granted(g)
	case errors.Is(err, zkclient.ErrBadVersion), errors.Is(err, zkclient.ErrNoNode):
		p.stale.Store(true)
		p.beaten = !p.knocked
		return nil, errAgain
	}
	return nil, err
}
