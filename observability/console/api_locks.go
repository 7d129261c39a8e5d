package console

import (
	"net/http"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// aboutLocks is what every answer about locks begins with.
type aboutLocks struct {
	At       time.Time   `json:"at"`
	Version  uint64      `json:"version"`
	Complete bool        `json:"complete"` // all locks have been looked at
	Blind    *live.Blind `json:"blind"`    // null: ZooKeeper answers

	Unreadable []lock.Unreadable `json:"unreadable,omitempty"` // nodes in the place of locks, or of lists of locks
}

func about(s *live.Snapshot) aboutLocks {
	return aboutLocks{s.At, s.Version, s.Complete, s.Blind, s.Unreadable}
}

// locksPage are locks in JSON.
type locksPage struct {
	aboutLocks
	Totals live.Totals `json:"totals"` // of all locks
	Total  int         `json:"total"`  // locks that fit
	Offset int         `json:"offset"`
	Locks  []lockItem  `json:"locks"`
}

// lockItem is a lock with a part of its holders and of its queue.
type lockItem struct {
	live.Lock
	HolderCount int `json:"holder_count"`
	HoldersMore int `json:"holders_more"` // that are not listed
	WaiterCount int `json:"waiter_count"`
	WaitersMore int `json:"waiters_more"` // that are not listed, behind those that are
}

// newLockItem lists some of who holds a lock, and of who waits, from a place on.
func newLockItem(l *live.Lock, holders, waiters, from int) lockItem {
	item := lockItem{Lock: *l, HolderCount: len(l.Holders), WaiterCount: len(l.Waiters)}
	item.Holders = listed(l.Holders[:min(holders, len(l.Holders))])
	rest := l.Waiters[min(from, len(l.Waiters)):]
	item.Waiters = listed(rest[:min(waiters, len(rest))])
	item.HoldersMore, item.WaitersMore = len(l.Holders)-len(item.Holders), len(rest)-len(item.Waiters)
	return item
}

const (
	// maxLocks is how many locks one answer has, and how many holders or waiters of a
	// lock it lists.
	maxLocks = 1000

	// maxListed is how many holders and waiters of all its locks it lists.
	maxListed = 5000
)

func (c *Console) apiLocks(w http.ResponseWriter, r *http.Request) {
	v := c.visit(r)
	by := v.choice("sort", "scope", "blocked", "waiters", "oldest", "since", "lease")
	state := v.choice("state", "all", "waiting", "held", "free", "trouble")
	text := v.text("q")
	queue, holders := int(v.number("waiters", 1, 0, maxLocks)), int(v.number("holders", 10, 0, maxLocks))
	limit, offset := int(v.number("limit", 100, 1, maxLocks)), int(v.number("offset", 0, 0, 1_000_000))
	if all := v.done(); len(all) > 0 {
		writeProblem(w, *badFields(all))
		return
	}
	rows := wantedLocks(v.snap.Locks, text, state)
	_, blocked := v.blockers()
	sortLocks(rows, by, blocked)
	answer := locksPage{
		aboutLocks: about(v.snap), Totals: v.snap.Totals, Total: len(rows), Offset: min(offset, len(rows)),
		Locks: []lockItem{},
	}
	room := maxListed
	for _, l := range rows[answer.Offset:min(answer.Offset+limit, len(rows))] {
		some := min(holders, room, len(l.Holders))
		item := newLockItem(l, some, min(queue, room-some), 0)
		room -= len(item.Holders) + len(item.Waiters)
		answer.Locks = append(answer.Locks, item)
	}
	writeJSON(w, answer)
}

// lockAnswer is one lock in JSON.
type lockAnswer struct {
	aboutLocks
	Lock lockItem `json:"lock"`
}

func (c *Console) apiLock(w http.ResponseWriter, r *http.Request) {
	v := c.visit(r)
	scope := r.PathValue("scope")
	if v.lock(scope) == nil {
		if rest, ok := strings.CutSuffix(scope, "/timeline"); ok { // its slashes were not escaped
			r.SetPathValue("scope", rest)
			c.apiTimeline(w, r)
			return
		}
	}
	queue, holders := int(v.number("waiters", 100, 0, maxLocks)), int(v.number("holders", 100, 0, maxLocks))
	from := int(v.number("offset", 0, 0, 1_000_000))
	if all := v.done(); len(all) > 0 {
		writeProblem(w, *badFields(all))
		return
	}
	if _, err := lock.EscapeScope(scope); err != nil {
		writeProblem(w, *problemOf(err))
		return
	}
	l := v.lock(scope)
	if l == nil {
		l = &live.Lock{Scope: scope, State: "free"} // it was never locked
	}
	item := newLockItem(l, holders, queue, from)
	item.Frozen = v.frozen(scope)
	item.Frozen = item.Frozen[:min(maxLocks, len(item.Frozen))]
	writeJSON(w, lockAnswer{about(v.snap), item})
}

func (c *Console) apiTimeline(w http.ResponseWriter, r *http.Request) {
	v := c.visit(r)
	back, _, _ := v.timeRange()
	scope := r.PathValue("scope")
	if all := v.done(); len(all) > 0 {
		writeProblem(w, *badFields(all))
		return
	}
	if _, err := lock.EscapeScope(scope); err != nil {
		writeProblem(w, *problemOf(err))
		return
	}
	t := c.o.Board.Timeline(scope, v.now.Add(-back), v.now)
	t.Rows, t.Marks = listed(t.Rows), listed(t.Marks)
	writeJSON(w, t)
}

// waitsAnswer is the graph in JSON.
type waitsAnswer struct {
	aboutLocks
	Waits live.Graph `json:"waits"`
}

func (c *Console) apiWaits(w http.ResponseWriter, r *http.Request) {
	v := c.visit(r)
	most := int(v.number("limit", 200, 1, live.MaxGraphNodes))
	if all := v.done(); len(all) > 0 {
		writeProblem(w, *badFields(all))
		return
	}
	g := v.snap.Waits.Cut(most)
	g.Nodes, g.Edges, g.Circles = listed(g.Nodes), listed(g.Edges), listed(g.Circles)
	writeJSON(w, waitsAnswer{about(v.snap), g})
}

func (c *Console) apiHeat(w http.ResponseWriter, r *http.Request) {
	v := c.visit(r)
	back, _, _ := v.timeRange()
	columns := int(v.number("columns", heatColumns, 1, 500))
	if all := v.done(); len(all) > 0 {
		writeProblem(w, *badFields(all))
		return
	}
	h := c.o.Board.Heat(v.now.Add(-back), v.now, columns)
	h.Rows = listed(h.Rows)
	writeJSON(w, h)
}
