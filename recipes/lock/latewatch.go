package lock

import (
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// watchAfter is how long a hold lasts before its own node is watched. A hold
// that ends sooner does not need to learn that it is preempted.
const watchAfter = 10 * time.Millisecond

// lateWatches arms the watches of a session's holders. All share one timer,
// which each first young hold puts off: in a busy program it hardly ever fires,
// where a timer for each hold would cost more than the hold.
type lateWatches struct {
	mu    sync.Mutex
	queue []*Grant // by birth; without late, it is not waited for any more
	live  int      // those with late
	timer *time.Timer
}

func lateWatchesOf(s *zkclient.Session) *lateWatches {
	return zkclient.Attached(s, func() *lateWatches { return new(lateWatches) })
}

func (w *lateWatches) add(g *Grant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = append(w.queue, g)
	g.late = true
	if w.live++; w.live > 1 {
		return
	}
	if w.timer == nil {
		w.timer = time.AfterFunc(watchAfter, func() { w.arm(g.s) })
		return
	}
	w.timer.Reset(watchAfter)
}

// drop forgets a hold that has ended.
func (w *lateWatches) drop(g *Grant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !g.late {
		return
	}
	g.late = false
	if w.live--; w.live == 0 {
		clear(w.queue)
		w.queue = w.queue[:0]
	}
}

func (w *lateWatches) arm(s *zkclient.Session) {
	now := s.Now()
	var grants []*Grant
	w.mu.Lock()
	due := 0
	for ; due < len(w.queue); due++ {
		g := w.queue[due]
		if !g.late {
			continue
		}
		if left := watchAfter - now.Sub(g.born); left > 0 {
			w.timer.Reset(left)
			break
		}
		g.late = false
		w.live--
		grants = append(grants, g)
	}
	w.queue = slices.Delete(w.queue, 0, due)
	w.mu.Unlock()
	for _, g := range grants {
		go g.changed()
	}
}
