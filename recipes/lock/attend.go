package lock

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// prepareAfter is how long a hold of a busy lock lasts before it looks for its
// successor, off the path of the release.
const prepareAfter = 200 * time.Microsecond

// A preparation is a look who would be granted, which may be under way when the lock is released.
type preparation struct {
	begun zkclient.Instant
	done  chan struct{} // what follows is there
	heir  *heir         // nil: it cannot be told
}

// prepare reads who would be granted if the lock were released now.
func (g *Grant) prepare() {
	p := &preparation{begun: g.s.Now(), done: make(chan struct{})}
	defer close(p.done)
	g.mu.Lock()
	known := g.next
	g.preparing = p
	g.mu.Unlock()
	next, err := g.successors(g.lock.c.Closing(), known, 1)
	if err != nil || len(next.heirs) != 1 {
		return
	}
	p.heir = next.heirs[0]
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state != stateHeld || g.attending { // that knows better
		return
	}
	g.next = p.heir
	g.timer = time.AfterFunc(freshFor-time.Millisecond, g.attend) // when that is too old
}

// underWayLocked returns the look that a release waits for in place of one of its own: in a queue of
// thousands each takes longer than many a hold. It was begun so shortly before that it is as good.
func (g *Grant) underWayLocked(now zkclient.Instant) *preparation {
	p := g.preparing
	if p == nil || now.Sub(p.begun) > freshFor || g.mode == priority.Shared || g.req.Hold != "" ||
		len(g.asked) > 0 || !g.s.Usable() {
		return nil
	}
	select {
	case <-p.done:
		return nil // it is known what it has found
	default:
		return p
	}
}

const (
	// attendAfter is how long a holder waits, after the first request came or
	// went, until it lists who is next. Before each further list it waits twice
	// as long, up to maxAttendAfter.
	attendAfter    = 5 * time.Millisecond
	maxAttendAfter = time.Second
	// attendShare bounds the time that these looks take: one part in so many.
	attendShare = 20
)

// attend prepares the hand-over of a long hold, or of one that cleans up for
// its preemptor. It lists who is next and watches who comes and goes, so that
// the release grants without a list. A request that comes after the last event
// waits for one hold, as behind any holder that listed a moment ago.
func (g *Grant) attend() {
	g.mu.Lock()
	known, events := g.next, g.events
	wanted := g.state == stateHeld && (len(g.asked) > 0 || known != nil) && g.mode == priority.Exclusive &&
		g.req.Hold == ""
	g.attending = wanted
	g.mu.Unlock()
	if !wanted {
		return
	}
	ctx, path := g.lock.c.Closing(), g.lock.path
	start := g.s.Now()
	var listed *zkclient.Stat
	next, err := g.successorsAmong(ctx, known, 1, func() (c company, err error) {
		names, stat, err := g.s.LookAtChildren(ctx, path, &g.around)
		if err == nil {
			listed, c.stat = stat, stat
			c.children, c.foreign = parseChildren(names)
		}
		return c, err
	})
	took := g.s.Now().Sub(start)
	if listed != nil && g.rewritten(listed) {
		g.verify(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pause = max(attendAfter, attendShare*took, min(2*g.pause, maxAttendAfter))
	switch {
	case g.state != stateHeld:
		g.unattendLocked()
	case listed == nil:
		g.attending = false
		g.s.UnwatchChildren(path, &g.around)
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
	g.s.UnwatchChildren(g.lock.path, &g.around)
	g.lock.c.Background(func() { g.s.FireIdleChildren(context.Background(), g.lock.path) })
}

// stir is called when a request came or went.
func (g *Grant) stir(zkclient.WatchKind) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.events++
	g.attended = nil
	if g.attending {
		g.timer = time.AfterFunc(max(attendAfter, g.pause), g.attend)
	}
}
