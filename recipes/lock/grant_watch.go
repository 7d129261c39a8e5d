package lock

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// watchLater arms the holder's watch unless the hold ends before. Where others
// wait, it first learns who is next.
func (g *Grant) watchLater() {
	lateWatchesOf(g.s).add(g)
	if g.line.isBehind() {
		return // it is passed on
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state != stateHeld || g.mode == priority.Shared || g.req.Hold != "" ||
		g.lock.cache.hints.get(g.lock.path).busy == 0 {
		return // one of several holders cannot know whether it will be the last
	}
	after := prepareAfter
	if g.next != nil { // until it is too old
		after = max(after, g.next.seen.Add(freshFor-time.Millisecond).Sub(g.born))
	}
	g.timer = time.AfterFunc(after, g.prepare)
}

// changed reads the own node, once at a time.
func (g *Grant) changed() {
	g.mu.Lock()
	if g.state != stateHeld || g.looking {
		g.again = true
		g.mu.Unlock()
		return
	}
	g.looking = true
	g.mu.Unlock()
	for {
		g.mu.Lock()
		g.again = false
		g.mu.Unlock()
		err := g.inspect(g.lock.c.Closing())
		g.mu.Lock()
		if g.state != stateHeld || !g.again && !errors.Is(err, zkclient.ErrAmbiguous) {
			g.looking = false
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
	}
}

// inspect reads the own node, arms its watch, and takes note of what it says.
func (g *Grant) inspect(ctx context.Context) error {
	if !g.held() {
		return ErrReleased
	}
	g.mu.Lock()
	blinks := g.blinks
	g.mu.Unlock()
	data, stat, err := g.s.Look(ctx, g.path, &g.watch)
	if !g.held() {
		g.s.Unwatch(g.path, &g.watch)
		return ErrReleased
	}
	switch {
	case errors.Is(err, zkclient.ErrNoNode):
		loss := g.whyGone(ctx)
		g.lose(loss)
		return loss
	case err != nil:
		return err
	}
	rec, err := decodeContender(data)
	if err != nil || !rec.Granted || !g.s.Owns(stat) {
		return g.overwritten(errOverwritten)
	}
	if g.grantedAgain(rec.token(stat)) {
		return g.overwritten(errGrantedAgain)
	}
	g.absorb(&rec, stat)
	g.mu.Lock()
	if g.blinks == blinks {
		g.blindTo = 0
	}
	g.mu.Unlock()
	return nil
}

// absorb takes note of the own node's data: the token, and who asks.
func (g *Grant) absorb(rec *contenderRecord, stat *zkclient.Stat) {
	now := g.s.Now()
	g.mu.Lock()
	g.at.learn(stat)
	if g.token == 0 {
		g.token = rec.token(stat)
	}
	if g.stamp.At == 0 {
		g.stamp.At = stat.Ctime
	}
	g.leaseTo = now.Add(rec.leaseLeft(stat, g.stamp.NotBehind(now)))
	var news []Notice
	standing := make(map[askKey]zkclient.Instant, len(rec.Preempt))
	for _, n := range rec.Preempt {
		key := askKey{n.ID, n.Reason, n.at(stat), n.Grace, n.Forceful}
		end, known := g.asked[key]
		if !known {
			// Counted on the server's clock, and never longer than the grace.
			grace := znode.Milliseconds(n.Grace)
			gone := time.Duration(g.stamp.NotBehind(now)-n.at(stat)) * time.Millisecond
			left := max(0, min(grace, grace-gone))
			end = now.Add(left)
			news = append(news, PreemptRequested{
				By: n.author(), Reason: n.Reason, Grace: grace, Deadline: time.Now().Add(left),
				Forceful: n.Forceful, Trace: n.Trace, Override: n.Override,
			})
		}
		standing[key] = end
	}
	if len(standing) == 0 && len(g.asked) > 0 {
		news = append(news, PreemptionWithdrawn{})
	}
	g.asked = standing
	attend := len(standing) > 0 && !g.attending && g.state == stateHeld && g.around != nil
	g.attending = g.attending || attend
	g.graceTo = 0
	for _, end := range standing {
		if g.graceTo == 0 || end < g.graceTo {
			g.graceTo = end
		}
	}
	g.mu.Unlock()
	if attend {
		g.lock.c.Background(g.attend)
	}
	for _, n := range news {
		g.notices.Send(n)
	}
}
