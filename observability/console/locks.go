package console

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/observability/live"
)

// perPage is how many rows a page has.
const perPage = 100

// locksModel is the live table.
type locksModel struct {
	Left     left // what cannot be read
	Totals   live.Totals
	Blockers []blocker
	More     int // blockers that are not shown
	Circles  []circle
	Rows     []lockRow
	Pages    pages
	Sort     string
	Sorts    []option
	States   []option
	Query    string
	State    string

	Approvals int // that wait for a decision
	Overrides int // in force
	Filtered  bool
}

// An option is a link of which one is current.
type option struct {
	Title, URL string
	Current    bool
}

// pages lead through a long list.
type pages struct {
	From, To, Total int // from 1
	Previous, Next  string
}

// A lockRow is one lock in the table.
type lockRow struct {
	live.Lock
	Path    string
	Holder  *live.Holder // the first one
	Others  int          // holders beside it
	Since   template.HTML
	Lease   template.HTML
	Over    bool // the lease is over
	Leaving bool // preempted
	Oldest  template.HTML
	Root    *live.Ref
	Here    bool // the root blocker is a holder of this lock
}

// A blocker is a request at the end of what others wait for.
type blocker struct {
	live.Ref
	Path    string
	Waiters int
	Locks   int
	Since   time.Time
	Holding template.HTML
	Longest template.HTML
	Lease   template.HTML
	Over    bool
	Leaving *live.Preemptor
	LeftIn  template.HTML
}

// A circle is who waits for each other.
type circle struct{ Parties [][]live.GraphNode }

func drawLocks(v *visit) (any, error) {
	m := &locksModel{Totals: v.snap.Totals, Left: left{v.snap.Unreadable}}
	sorting := v.choice("sort", "blocked", "scope", "waiters", "oldest", "since", "lease")
	m.State = v.choice("state", "all", "waiting", "held", "free", "trouble")
	m.Query = v.text("q")
	at := int(v.number("from", 0, 0, 1_000_000))
	if len(v.problems) > 0 {
		return m, nil
	}
	m.Sort = sorting
	var total map[string]int
	m.Blockers, total = v.blockers()
	const few = 5
	if n := len(m.Blockers); n > few {
		m.More, m.Blockers = n-few, m.Blockers[:few]
	}
	m.Circles = circlesOf(v.snap.Waits)
	rows := wantedLocks(v.snap.Locks, m.Query, m.State)
	m.Filtered = m.Query != "" || m.State != "all"
	sortLocks(rows, sorting, total)
	rows, m.Pages = paged(v, rows, at, perPage)
	for _, l := range rows {
		m.Rows = append(m.Rows, v.lockRow(l))
	}
	for _, s := range []struct{ key, title string }{
		{"blocked", "who blocks most"},
		{"oldest", "longest wait"},
		{"waiters", "most waiters"},
		{"since", "longest hold"},
		{"lease", "lease"},
		{"scope", "name"},
	} {
		m.Sorts = append(m.Sorts, option{s.title, v.With("sort", unless(s.key, "blocked"), "from", ""), s.key == sorting})
	}
	for _, s := range []string{"all", "waiting", "held", "free", "trouble"} {
		m.States = append(m.States, option{s, v.With("state", unless(s, "all"), "from", ""), s == m.State})
	}
	for _, a := range v.c.approvals.get(v.ctx).Is {
		if a.Decision == nil {
			m.Approvals++
		}
	}
	m.Overrides = len(v.c.overrides.get(v.ctx).Is)
	return m, nil
}

func unless(s, usual string) string {
	if s == usual {
		return ""
	}
	return s
}

// paged cuts a list into pages.
func paged[T any](v *visit, all []T, at, size int) ([]T, pages) {
	at = min(at, len(all))
	end := min(at+size, len(all))
	p := pages{From: at + 1, To: end, Total: len(all)}
	if at > 0 {
		p.Previous = v.With("from", unless(fmt.Sprint(max(0, at-size)), "0"))
	}
	if end < len(all) {
		p.Next = v.With("from", fmt.Sprint(end))
	}
	return all[at:end], p
}

// wantedLocks are those that fit.
func wantedLocks(all []live.Lock, text, state string) []*live.Lock {
	text = strings.ToLower(text)
	var wanted []*live.Lock
	for i := range all {
		l := &all[i]
		if fitsState(l, state) && (text == "" || fitsText(l, text)) {
			wanted = append(wanted, l)
		}
	}
	return wanted
}

func fitsState(l *live.Lock, state string) bool {
	switch state {
	case "held":
		return len(l.Holders) > 0
	case "waiting":
		return len(l.Waiters) > 0
	case "free":
		return len(l.Holders) == 0
	case "trouble":
		return l.Damage != "" || l.InCircle || len(l.Delays) > 0 || len(l.Foreign) > 0 || isOver(l) && len(l.Waiters) > 0
	}
	return true
}

func isOver(l *live.Lock) bool {
	return slices.ContainsFunc(l.Holders, func(h live.Holder) bool { return h.LeaseTimeout > 0 && h.LeaseLeft <= 0 })
}

// fitsText reports whether a text is part of the scope, or of the name or host of
// somebody who holds or waits.
func fitsText(l *live.Lock, text string) bool {
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	return has(l.Scope) ||
		slices.ContainsFunc(l.Holders, func(h live.Holder) bool { return has(h.Owner) || has(h.Host) }) ||
		slices.ContainsFunc(l.Waiters, func(w live.Waiter) bool { return has(w.Owner) || has(w.Host) })
}

// sortLocks puts first what is asked for; of what is alike, by name. blocked is how
// many wait for each root blocker.
func sortLocks(all []*live.Lock, by string, blocked map[string]int) {
	weight := func(l *live.Lock) int {
		switch {
		case l.InCircle:
			return 1 << 30
		case l.RootBlocker != nil && len(l.Waiters) > 0:
			return blocked[l.RootBlocker.ID]
		}
		return 0
	}
	less := func(a, b *live.Lock) int {
		switch by {
		case "waiters":
			return cmp.Compare(len(b.Waiters), len(a.Waiters))
		case "oldest":
			return live.Earlier(a.OldestWait, b.OldestWait)
		case "since":
			return live.Earlier(oldestHold(a), oldestHold(b))
		case "lease":
			return cmp.Compare(leaseLeft(a), leaseLeft(b))
		case "scope":
			return 0
		}
		root := func(l *live.Lock) string {
			if l.RootBlocker == nil {
				return ""
			}
			return l.RootBlocker.ID
		}
		return cmp.Or(
			cmp.Compare(weight(b), weight(a)),
			cmp.Compare(root(b), root(a)),
			cmp.Compare(boolean(b.RootBlocker != nil && b.RootBlocker.Scope == b.Scope),
				boolean(a.RootBlocker != nil && a.RootBlocker.Scope == a.Scope)),
			live.Earlier(a.OldestWait, b.OldestWait), cmp.Compare(boolean(len(b.Holders) > 0), boolean(len(a.Holders) > 0)),
		)
	}
	slices.SortStableFunc(all, func(a, b *live.Lock) int { return cmp.Or(less(a, b), strings.Compare(a.Scope, b.Scope)) })
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

func oldestHold(l *live.Lock) *time.Time {
	var oldest *time.Time
	for i := range l.Holders {
		if since := &l.Holders[i].Since; oldest == nil || since.Before(*oldest) {
			oldest = since
		}
	}
	return oldest
}

func leaseLeft(l *live.Lock) int64 {
	left := int64(1) << 62
	for _, h := range l.Holders {
		left = min(left, h.LeaseLeft)
	}
	return left
}

// leaseEnd is when a lease is over, as seen when the lock was looked at.
func leaseEnd(l *live.Lock, h *live.Holder) time.Time {
	end := l.At.Add(millis(h.LeaseLeft))
	if h.LeaseLeft <= 0 {
		end = h.Since.Add(millis(h.LeaseTimeout))
		if end.After(l.At) {
			end = l.At
		}
	}
	return end
}

func (v *visit) lockRow(l *live.Lock) lockRow {
	row := lockRow{Lock: *l, Path: scopePath(l.Scope), Root: l.RootBlocker}
	if len(l.Holders) > 0 {
		h := &l.Holders[0]
		row.Holder, row.Others = h, len(l.Holders)-1
		row.Since = v.Ago(h.Since)
		end := leaseEnd(l, h)
		row.Lease, row.Over = v.Until(end), !end.After(v.now)
		row.Leaving = slices.ContainsFunc(l.Holders, func(h live.Holder) bool { return len(h.PreemptedBy) > 0 })
	}
	if l.OldestWait != nil {
		row.Oldest = v.Ago(*l.OldestWait)
	}
	row.Here = row.Root != nil && row.Root.Scope == l.Scope
	return row
}

// blockers are those at the end of what others wait for, the worst first, and how
// many wait for each.
func (v *visit) blockers() ([]blocker, map[string]int) {
	found := map[string]*blocker{}
	total := map[string]int{}
	oldest := map[string]time.Time{}
	for i := range v.snap.Locks {
		l := &v.snap.Locks[i]
		if l.RootBlocker == nil || len(l.Waiters) == 0 {
			continue
		}
		id := l.RootBlocker.ID
		b := found[id]
		if b == nil {
			b = &blocker{Ref: *l.RootBlocker, Path: scopePath(l.RootBlocker.Scope)}
			found[id] = b
		}
		b.Waiters += len(l.Waiters)
		b.Locks++
		total[id] += len(l.Waiters)
		if l.OldestWait != nil && (oldest[id].IsZero() || l.OldestWait.Before(oldest[id])) {
			oldest[id] = *l.OldestWait
		}
	}
	all := make([]blocker, 0, len(found))
	for id, b := range found {
		b.Longest, b.Since = v.Ago(oldest[id]), oldest[id]
		if l := v.lock(b.Scope); l != nil {
			for i := range l.Holders {
				h := &l.Holders[i]
				if h.ID != id {
					continue
				}
				end := leaseEnd(l, h)
				b.Holding, b.Lease, b.Over = v.Ago(h.Since), v.Until(end), !end.After(v.now)
				if len(h.PreemptedBy) > 0 {
					b.Leaving, b.LeftIn = &h.PreemptedBy[0], v.Until(h.PreemptedBy[0].Until)
				}
			}
		}
		all = append(all, *b)
	}
	slices.SortFunc(all, func(a, b blocker) int {
		return cmp.Or(cmp.Compare(b.Waiters, a.Waiters), a.Since.Compare(b.Since), strings.Compare(a.ID, b.ID))
	})
	return all, total
}

// lock returns a lock of the snapshot, nil when there is none of that name.
func (v *visit) lock(scope string) *live.Lock {
	i, ok := slices.BinarySearchFunc(v.snap.Locks, scope, func(l live.Lock, scope string) int {
		return strings.Compare(l.Scope, scope)
	})
	if !ok {
		return nil
	}
	return &v.snap.Locks[i]
}

func circlesOf(g live.Graph) []circle {
	nodes := map[string]live.GraphNode{}
	for _, n := range g.Nodes {
		nodes[n.ID] = n
	}
	var all []circle
	for _, parties := range g.Parties() {
		var c circle
		for _, ids := range parties {
			var does []live.GraphNode
			for _, id := range ids {
				if n, ok := nodes[id]; ok {
					does = append(does, n)
				}
			}
			if len(does) > 0 {
				c.Parties = append(c.Parties, does)
			}
		}
		all = append(all, c)
	}
	return all
}
