package lock

import (
	"context"
	"errors"
	"path"
	"slices"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A hold that lasts compares: it reads the grant record now and then, and ends
// when the record does not name it. No client of ours writes such a record
// while the holder's node is there (recipes/lock/model: "G forgot it"), so a foreign
// client has, and the one that the record names may hold the lock as well.
//
// It does so twice in three session timeouts, which costs a hold that is shorter
// nothing. A holder with waiters, which lists them anyway, sees the record's version in
// each list, and compares at once when that has changed.

// verifyDue reports whether it is time to compare.
func (g *Grant) verifyDue(now zkclient.Instant) bool {
	if own, ok := parseChild(path.Base(g.path)); !ok || own.walked {
		return false // its name says that it holds, whatever the record says
	}
	every := g.s.TimeoutNow() * 2 / 3
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state == stateHeld && now.Sub(max(g.born, g.named)) >= every
}

// rewritten reports whether the grant record has changed since it is known to name this grant.
func (g *Grant) rewritten(stat *zkclient.Stat) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	version := g.version
	if g.named != 0 {
		version = g.namedAt
	}
	return version >= 0 && stat.Version != version
}

// verify reads the grant record, and ends the grant if that does not name it. A
// record that says nothing is restored, as a waiter would.
func (g *Grant) verify(ctx context.Context) {
	at := g.s.Now()
	data, stat, err := g.s.Get(ctx, g.lock.path)
	var record lockRecord
	if err == nil {
		if record, err = decodeLock(data); err != nil && !znode.IsNewer(err) {
			record, err = g.lock.grants(ctx, g.s, data, stat.Version)
		}
	}
	switch {
	case errors.Is(err, zkclient.ErrAmbiguous), errors.Is(err, zkclient.ErrSessionOver):
		return // it stays due
	case errors.Is(err, zkclient.ErrNoNode): // and no child either
		g.changed()
		return
	case err == nil && !slices.Contains(record.Holders, g.guid):
		// A holder that was evicted is not named either, and its node is gone.
		if err := g.inspect(ctx); err == nil {
			g.unnamed(record)
		}
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.named = at
	if err == nil {
		g.namedAt = stat.Version
	} else { // restored by now, of a newer program, or not to be read
		g.namedAt = -1
	}
}

var errUnnamed = errors.New(
	"another program has overwritten the lock's node, which does not name this holder any more")

// unnamed ends a grant of which the record has nothing, though its node is there.
func (g *Grant) unnamed(record lockRecord) {
	if !g.held() {
		return
	}
	g.lose(&LostError{Scope: g.lock.scope, Reason: LossDeleted, Err: errUnnamed})
	g.s.Discard(g.path)
	g.lock.c.Log().Warn("the lock node was overwritten: it does not name its holder, which gives the lock up",
		"node", g.lock.path, "holder", g.guid, "names", record.Holders)
}
