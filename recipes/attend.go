package recipes

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
)

// prepareAfter is how long a hold of a busy lock lasts before it looks for its
// successor, off the path of the release.
const prepareAfter = 200 * time.Microsecond

// prepare reads who would be granted if the lock were released now.
func (g *Grant) prepare() {
	g.mu.Lock()
	known := g.next
	g.mu.Unlock()
	next, err := g.successors(g.lock.c.closing, known, 1)
	if err != nil || len(next.heirs) != 1 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.attending { // else that knows better
		g.next = next.heirs[0]
	}
}

const (
	// attendAfter is how long a holder that was asked to go waits, after somebody
	// came or went, until it looks who is next.
	attendAfter = 5 * time.Millisecond
	// attendShare bounds the time that these looks take: one part in so many.
	attendShare = 20
)

// attend prepares the hand-over of a holder that was asked to go, while it cleans
// up: it looks who is next and watches who comes and goes, so that the release
// grants without a look. Whoever comes after the last event waits for one hold, as
// behind any holder that looked a moment ago.
func (g *Grant) attend() {
	g.mu.Lock()
	known, events := g.next, g.events
	wanted := g.state == stateHeld && len(g.asked) > 0 && g.mode == priority.Exclusive && g.req.Hold == ""
	g.attending = wanted
	g.mu.Unlock()
	if !wanted {
		return
	}
	ctx, path := g.lock.c.closing, g.lock.path
	start := g.s.clock.now()
	next, err := g.successorsAmong(ctx, known, 1, func() (c company, err error) {
		names, stat, err := g.s.lookAtChildren(ctx, path, &g.around)
		if err == nil {
			c.stat = stat
			c.children, c.foreign = parseChildren(names)
		}
		return c, err
	})
	took := g.s.clock.now().sub(start)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pause = max(attendAfter, attendShare*took)
	switch {
	case g.state != stateHeld:
		g.unattendLocked()
	case err == nil && len(next.heirs) == 1 && g.events == events:
		g.next = next.heirs[0]
		g.attended = g.next
	}
}

// unattendLocked ends the watch on the list. It is left at the server if it was armed after
// the holder had gone: then it is made to fire.
func (g *Grant) unattendLocked() {
	if !g.attending {
		return
	}
	g.attending = false
	g.s.unwatchChildren(g.lock.path, &g.around)
	g.lock.c.backlog.Go(func() { g.s.fireIdleChildren(context.Background(), g.lock.path) })
}

// stir is told that somebody came or went.
func (g *Grant) stir(watchKind) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.events++
	g.attended = nil
	if g.attending {
		time.AfterFunc(max(attendAfter, g.pause), g.attend)
	}
}
