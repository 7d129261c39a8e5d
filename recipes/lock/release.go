package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
	"github.com/lockkeeper/lockkeeper/zkwire"
)

// Release gives the lock back: to the first in line if there is one (T4), in
// one transaction either way. No lock-delay follows. Of several shared holders,
// the last one does so. It returns ErrReleased when it was released before, the
// *LostError when it was lost, even if only Release found out, and ErrClosed
// when the client was closed while ZooKeeper did not answer: then the lock is
// free when the session has ended at the latest.
//
// When ctx ends first, Release returns an error and goes on in the background
// until the lock is free.
//
//nolint:cyclop,funlen // all ways in which a release can go stand in one place, as in the model
func (g *Grant) Release(ctx context.Context) error {
	g.mu.Lock()
	switch g.state {
	case stateReleased:
		g.mu.Unlock()
		return ErrReleased
	case stateLost:
		defer g.mu.Unlock()
		return g.loss
	case stateHeld:
	}
	g.state = stateReleased
	if g.timer != nil {
		g.timer.Stop()
	}
	now := g.s.Now()
	asked := len(g.asked) > 0
	known, at := g.next, g.at
	next := known
	prepared := g.attended != nil && g.attended == known // and no request came since
	if asked && !prepared || g.mode == priority.Shared || g.req.Hold != "" || !prepared && !known.fresh(now) ||
		known.followed || !g.s.Usable() {
		next = nil // a more important request may have come, or will have when there is a connection
	}
	var underWay *preparation
	if next == nil {
		underWay = g.underWayLocked(now)
	}
	g.mu.Unlock()
	g.s.Unhold((*grantTenant)(g))
	lateWatchesOf(g.s).drop(g)
	if g.watch != nil {
		g.s.Unwatch(g.path, &g.watch)
	}
	g.s.UnwatchChildren(g.lock.path, &g.around) // it fires when the node goes

	// A short hold of a lock that showed no other request leaves without a list: a
	// request that came meanwhile watches the holder's node, and takes over when
	// that is gone.
	look := asked || g.lock.cache.hints.get(g.lock.path).busy > 0 || now.Sub(g.born) >= watchAfter ||
		g.req.LockDelay > 0 && g.Mode() == priority.Shared || // of several, each has its note in G
		known != nil && known.followed ||
		g.req.Hold != "" // of a hold, each leaves G clean
	var first, t4or5 *zkclient.Parcel
	r := g.passOnAtOnce(at, asked)
	switch {
	case r != nil:
		first = r.sent
	case ctx.Done() != nil && (g.walkedIn.known || next != nil || !look && g.req.LockDelay == 0) && g.line.isLeft(g):
		t4or5 = g.leaveAtOnce(next)
		first = t4or5
	}
	leave := func() (struct{}, error) {
		passed, refused := g.passOn(context.Background(), at, asked, r) // T17
		if passed {
			return struct{}{}, nil
		}
		if underWay != nil && t4or5 == nil {
			if <-underWay.done; underWay.heir != nil && !underWay.heir.followed {
				next = underWay.heir
			}
		}
		return struct{}{}, g.depart(context.Background(), look || refused, next, known, t4or5)
	}
	var err error
	if first != nil && first.Arrives(ctx, g.s) && first.Succeeded() {
		_, err = leave() // which waits for nothing
	} else {
		_, err = zkclient.Promptly(ctx, g.lock.c.Client, leave, nil)
	}
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return fmt.Errorf("release of lock %q has not been confirmed and goes on in the background: %w", g.lock.scope, err)
	}
	return err
}

// leaveAtOnce sends the first transaction of depart, which does not look before it, if
// that does not block.
func (g *Grant) leaveAtOnce(next *heir) *zkclient.Parcel {
	var ops []any
	switch {
	case g.walkedIn.known:
		ops = g.walkingOut()
	case next == nil:
		return g.s.Post(zkwire.OpDelete, []any{&zkclient.DeleteRequest{Path: g.path, Version: -1}}, true)
	default:
		ops = g.handOverTo(g.known(next))
	}
	if zkclient.Fits(ops...) != nil {
		return nil
	}
	return g.s.Post(zkwire.OpMulti, ops, true)
}

// known is the succession of an heir that was seen before.
func (g *Grant) known(next *heir) succession {
	line := g.unseen()
	line.heirs = []*heir{next}
	if len(g.evicted) == 0 {
		line.evicted = next.evicted
	}
	return line
}

// depart removes the holder's node and grants the next, until that is certain.
// With next at hand, or without look, it does not look first; known was the
// first waiter a while ago. What was sent already, see leaveAtOnce, is first.
//
//nolint:cyclop,funlen // all that a release can meet stands in one place, as in the model
func (g *Grant) depart(ctx context.Context, look bool, next, known *heir, first *zkclient.Parcel) error {
	l := g.lock
	g.mu.Lock()
	token := g.token
	g.mu.Unlock()
	most := maxHeirs
	unsure := false // an earlier try may have done it
	gone := func(err error) error {
		switch {
		case unsure && errors.Is(err, zkclient.ErrClosed): // the client has not waited for the servers
			return fmt.Errorf("release of lock %q has not been confirmed, it ends with its session: %w",
				l.scope, zkclient.ErrClosed)
		case unsure && (errors.Is(err, zkclient.ErrNoNode) || errors.Is(err, zkclient.ErrSessionOver)):
			return nil
		case errors.Is(err, zkclient.ErrNoNode), errors.Is(err, zkclient.ErrSessionOver):
			loss := g.whyGone(ctx)
			loss.Token = token
			return loss
		}
		return err
	}
	if g.walkedIn.known {
		err := g.walkOut(ctx, first)
		first = nil
		switch {
		case err == nil:
			return nil
		case errors.Is(err, zkclient.ErrAmbiguous):
			unsure = true
		case !errors.Is(err, zkclient.ErrBadVersion): // else a request wants to be next, or is in its turn
			return gone(err)
		}
		look = true
	}
	line := g.unseen()
	if next != nil {
		line = g.known(next)
	}
	for {
		sent := first
		first = nil
		if !look && len(line.heirs) == 0 {
			version, err := g.vacate(ctx, line, sent)
			switch {
			case err == nil:
				l.cache.hints.update(l.path, func(h *hint) {
					if h.idle = version >= 0 && h.busy == 0 && len(line.evicted) == 0; h.idle {
						h.version, h.epoch, h.blind = version, g.epoch, min(h.blind+1, maxBlind)
					}
				})
				return nil
			case errors.Is(err, zkclient.ErrBadVersion): // of several holders, another was faster
				look = true
				continue
			case errors.Is(err, zkclient.ErrAmbiguous):
				look, unsure = true, true
				continue
			}
			return gone(err)
		}
		if len(line.heirs) == 0 {
			var err error
			line, err = g.successors(ctx, known, most)
			switch {
			case errors.Is(err, zkclient.ErrAmbiguous), errors.Is(err, errAgain):
				line = succession{}
				continue
			case isUnusable(err): // those who wait find out by themselves
				look, line.heirs = false, nil
				continue
			case err != nil:
				return gone(err)
			case !line.others && l.cache.hints.get(l.path).busy == busyLooks:
				// The requests that were here just now may be on their way back, and not
				// have reached the server that this client reads from.
				l.cache.hints.update(l.path, func(h *hint) { h.busy-- })
				_ = g.s.Sync(ctx, l.path) // the list fails as well
				continue
			case len(line.heirs) == 0:
				if !line.others { // else they hold as well, or this version does not understand them
					l.cache.hints.update(l.path, func(h *hint) { h.busy = max(0, h.busy-1) })
				}
				look = false
				continue
			}
		}
		err := g.handOver(ctx, line, sent) // T4
		switch {
		case err == nil:
			l.cache.hints.crowded(l.path)
			return nil
		case errors.Is(err, errHolderGone) && !unsure:
			return gone(err)
		case errors.Is(err, zkclient.ErrNoNode), errors.Is(err, zkclient.ErrBadVersion):
			// A successor left or was written to, or another came to hold: look again.
		case errors.Is(err, zkclient.ErrAmbiguous):
			unsure = true
		case isUnusable(err): // a successor, or the lock node, that must not be written
			look, line.heirs = false, nil
			continue
		default:
			return gone(err)
		}
		look, line, known = true, succession{}, suspect
		most = max(1, most/8) // of many that come and go, one may always have gone
	}
}

// errHolderGone: the node of the holder that hands over is not there.
var errHolderGone = fmt.Errorf("the holder is gone: %w", zkclient.ErrNoNode)

// vacate is T5: it removes the holder's node. One that has a lock-delay takes
// its note out of G with it: a note that stays tells of an unclean end. A
// member of a hold takes its guid out: one that stays can be resumed (T16), and
// of two that leave at once, each taking the other for alive, one fails and
// reads again. It returns the version from which on the lock has had no holder,
// or -1: after a hold, if G names no member any more.
func (g *Grant) vacate(ctx context.Context, line succession, sent *zkclient.Parcel) (version int32, err error) {
	remove := func() error {
		if sent != nil {
			return g.s.Deleted(sent, g.path)
		}
		return g.s.Delete(ctx, g.path, -1)
	}
	switch {
	case line.rest == nil && g.req.Hold != "": // its guid stays in G, and who else may be there is not known
		return -1, remove()
	case line.rest == nil || g.req.LockDelay == 0 && g.req.Hold == "":
		return g.version, remove()
	}
	r, _, err := g.s.Multi(ctx,
		&zkclient.DeleteRequest{Path: g.path, Version: -1},
		&zkclient.SetDataRequest{Path: g.lock.path, Data: line.rest.encode(), Version: line.version})
	switch {
	case err == nil && g.version >= 0 && !line.rest.occupied():
		return r[1].Stat.Version, nil
	case isUnusable(err): // the lock node must not be written: then its note stays
		return -1, g.s.Delete(ctx, g.path, -1)
	}
	return -1, err
}

// handOver is T4: it grants the heirs and removes the holder's node. The server
// sends events in this order: an heir that watches the holder learns of its
// grant first, and has nothing to look for.
func (g *Grant) handOver(ctx context.Context, line succession, sent *zkclient.Parcel) error {
	var failed int
	var err error
	if sent != nil {
		_, failed, err = g.s.Outcome(sent)
	} else {
		_, failed, err = g.s.Multi(ctx, g.handOverTo(line)...)
	}
	// planted-bug hand-over-without-own-node: if err == nil { err = g.s.DeleteSurely(ctx, g.path) }
	if failed == len(line.heirs) && errors.Is(err, zkclient.ErrNoNode) {
		return errHolderGone
	}
	return err
}

func (g *Grant) handOverTo(line succession) []any {
	ops := make([]any, 0, len(line.heirs)+2)
	next := lockRecord{Evicted: line.evicted}
	if line.rest != nil {
		next.Delays = slices.Clone(line.rest.Delays)
	}
	for _, h := range line.heirs {
		ops = append(ops, &zkclient.SetDataRequest{Path: h.path, Data: h.data, Version: h.version})
		next.Holders, next.Delays = append(next.Holders, h.guid), append(next.Delays, h.notes...)
	}
	// planted-bug readers-hand-over-without-version: line.version = -1
	return append(ops,
		&zkclient.DeleteRequest{Path: g.path, Version: -1}, // planted-bug hand-over-without-own-node:
		&zkclient.SetDataRequest{Path: g.lock.path, Data: next.encode(), Version: line.version})
}
