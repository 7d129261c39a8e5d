package lock

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// Downgrade makes an exclusive grant a shared one without giving it up (T10):
// shared requests that are first in line come to hold beside it. The token
// stays the same. A shared grant stays what it is.
//
// There is no way back: two that shared and both wanted to be alone would wait
// for each other for ever. A grant whose request had a Hold stays exclusive:
// *RequestError. Else it returns the *LostError when the lock is lost, and
// ErrReleased after Release. When ctx ends first, the grant may be either.
func (g *Grant) Downgrade(ctx context.Context) error {
	if g.req.Hold != "" && g.Mode() == priority.Exclusive {
		// A reader that came in beside it would get a younger token than the one that
		// a later member of the hold has.
		return &zkclient.RequestError{Field: "mode", Reason: fmt.Sprintf("the lock %s cannot be shared: "+
			"others may hold it by the same hold (%q); ask for shared mode from the beginning, or leave the hold out",
			g.lock.scope, g.req.Hold)}
	}
	_, err := zkclient.Promptly(ctx, g.lock.c.Client,
		func() (struct{}, error) { return struct{}{}, g.downgrade(ctx) }, nil)
	return err
}

//nolint:cyclop,funlen // all that a downgrade can meet stands in one place, as in the model
func (g *Grant) downgrade(ctx context.Context) error {
	g.mu.Lock()
	line := g.line
	g.mu.Unlock()
	line.quit(g) // no exclusive request follows on its node
	for {
		g.mu.Lock()
		state, loss := g.state, g.loss
		if state == stateHeld {
			g.mode = priority.Shared // for a release: it looks who else holds
		}
		g.mu.Unlock()
		switch state {
		case stateLost:
			return loss
		case stateReleased:
			return ErrReleased
		case stateHeld:
		}
		if own, _ := parseChild(path.Base(g.path)); own.walked { // it shares the lock, and G need not name it
			return nil
		}
		lock, at, err := g.s.Get(ctx, g.lock.path)
		if errors.Is(err, zkclient.ErrAmbiguous) {
			continue
		} else if err != nil {
			return g.lossOr(err)
		}
		record, err := g.lock.grants(ctx, g.s, lock, at.Version)
		if errors.Is(err, zkclient.ErrAmbiguous) || errors.Is(err, errAgain) {
			continue
		} else if err != nil {
			return g.lossOr(err)
		}
		data, stat, err := g.s.Look(ctx, g.path, &g.watch)
		if !g.held() { // released or lost meanwhile
			g.s.Unwatch(g.path, &g.watch)
			continue
		}
		switch {
		case errors.Is(err, zkclient.ErrAmbiguous):
			continue
		case errors.Is(err, zkclient.ErrNoNode):
			g.changed()
			if err := g.lossOr(nil); err != nil {
				return err
			}
			continue
		case err != nil:
			return g.lossOr(err)
		case !slices.Contains(record.Holders, g.guid):
			g.unnamed(record)
			continue
		}
		rec, err := decodeContender(data)
		if err != nil {
			return g.overwritten(errOverwritten)
		}
		g.absorb(&rec, stat)
		if rec.Mode == priority.Shared {
			return nil
		}
		rec.freeze(stat)
		rec.Mode = priority.Shared
		if len(record.Delays) > 0 {
			for i, n := range record.Delays {
				record.Delays[i].Shared = n.Shared || n.ID == g.guid
			}
			lock = record.encode()
		}
		_, _, err = g.s.Multi(ctx,
			&zkclient.SetDataRequest{Path: g.path, Data: rec.encode(), Version: stat.Version},
			&zkclient.SetDataRequest{Path: g.lock.path, Data: lock, Version: at.Version})
		switch {
		case err == nil:
			return nil
		case errors.Is(err, zkclient.ErrBadVersion), errors.Is(err, zkclient.ErrNoNode),
			errors.Is(err, zkclient.ErrAmbiguous):
		default:
			return fmt.Errorf("lock %q is not shared: %w", g.lock.scope, g.lossOr(err))
		}
	}
}
