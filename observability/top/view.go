package top

import (
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/observability/live"
)

// A View is what is on the screen, and what was typed. It is a value: its methods
// return the next one. The zero value is a terminal of no size that has seen nothing.
type View struct {
	width, height int

	seen    *live.Snapshot
	circled map[string]bool // scopes of those who wait for each other
	history live.Timeline   // of the open lock

	page   page
	behind page // of the help

	order    Order
	backward bool
	filter   string
	typing   bool // the filter is being typed

	rows   []*live.Lock // those that pass the filter, in order
	chosen string       // the scope of the row that was chosen; "": none was, the first is meant
	at     int          // its row
	first  int          // the first row on the screen

	open   string // the scope of the open lock
	scroll int    // its first line on the screen

	over bool
}

type page int

const (
	list page = iota
	lockPage
	help
)

// An Order is by what locks are sorted.
type Order int

// The orders, as the key s goes through them.
const (
	ByOldestWait Order = iota // the lock with the oldest waiter comes first
	ByWaiters                 // most come first
	ByState                   // what is worst comes first
	ByScope
	orders // how many there are
)

func (o Order) String() string {
	switch o {
	case ByWaiters:
		return "waiters"
	case ByState:
		return "state"
	case ByScope:
		return "scope"
	case ByOldestWait, orders:
	}
	return "oldest wait"
}

// See shows a snapshot. What was chosen stays chosen, wherever it is now.
func (v View) See(s *live.Snapshot) View {
	v.seen = s
	v.circled = circledIn(s)
	return v.arrange()
}

// circledIn are the scopes of those who wait for each other.
func circledIn(s *live.Snapshot) map[string]bool {
	scopes := map[string]bool{}
	for _, l := range s.Locks {
		if l.InCircle {
			scopes[l.Scope] = true
		}
	}
	if len(s.Waits.Circles) == 0 {
		return scopes
	}
	members := map[string]bool{}
	for _, ids := range s.Waits.Circles {
		for _, id := range ids {
			members[id] = true
		}
	}
	for _, n := range s.Waits.Nodes {
		if members[n.ID] {
			scopes[n.Scope] = true
		}
	}
	return scopes
}

// Recall shows what happened to the open lock; that of others is ignored.
func (v View) Recall(t live.Timeline) View {
	if v.open != "" && t.Scope == v.open {
		v.history = t
		return v.settle()
	}
	return v
}

// Resize says how large the terminal is, in columns and lines.
func (v View) Resize(width, height int) View {
	v.width, v.height = max(width, 0), max(height, 0)
	return v.settle()
}

// Over reports whether somebody wants to leave.
func (v View) Over() bool { return v.over }

// Open is the scope of the lock that is looked at, whose history is to be told; ""
// when all are.
func (v View) Open() string { return v.open }

// arrange puts the rows in order.
func (v View) arrange() View {
	v.rows = nil
	if v.seen != nil {
		for i := range v.seen.Locks {
			if l := &v.seen.Locks[i]; matches(l, v.filter) {
				v.rows = append(v.rows, l)
			}
		}
	}
	slices.SortStableFunc(v.rows, func(a, b *live.Lock) int {
		c := v.compare(a, b)
		if v.backward {
			c = -c
		}
		if c == 0 {
			return strings.Compare(a.Scope, b.Scope)
		}
		return c
	})
	return v.settle()
}

func (v View) compare(a, b *live.Lock) int {
	switch v.order {
	case ByScope:
		return strings.Compare(a.Scope, b.Scope)
	case ByWaiters:
		return len(b.Waiters) - len(a.Waiters)
	case ByState:
		if d := v.stateOf(a) - v.stateOf(b); d != 0 {
			return int(d)
		}
	case ByOldestWait, orders:
	}
	return live.Earlier(a.OldestWait, b.OldestWait)
}

// matches reports whether a lock has the text in its scope, or in the owner of one
// who holds it or waits for it.
func matches(l *live.Lock, text string) bool {
	if text == "" {
		return true
	}
	text = strings.ToLower(text)
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	return has(l.Scope) ||
		slices.ContainsFunc(l.Holders, func(h live.Holder) bool { return has(h.Owner) }) ||
		slices.ContainsFunc(l.Waiters, func(w live.Waiter) bool { return has(w.Owner) })
}

// settle keeps the chosen row where it is, and on the screen.
func (v View) settle() View {
	if i := slices.IndexFunc(v.rows, func(l *live.Lock) bool { return l.Scope == v.chosen }); v.chosen != "" && i >= 0 {
		v.at = i
	} else if v.chosen == "" {
		v.at = 0
	}
	v.at = max(0, min(v.at, len(v.rows)-1))
	room := v.room()
	v.first = max(0, min(v.first, v.at, len(v.rows)-room))
	if v.at >= v.first+room {
		v.first = v.at - room + 1
	}
	if v.page == lockPage || v.page == help {
		v.scroll = max(0, min(v.scroll, len(v.body(Look{}))-v.bodyRoom()))
	}
	return v
}

// find is the open lock; nil: there is none any more.
func (v View) find(scope string) *live.Lock {
	if v.seen == nil {
		return nil
	}
	i, found := slices.BinarySearchFunc(v.seen.Locks, scope, func(l live.Lock, scope string) int {
		return strings.Compare(l.Scope, scope)
	})
	if !found {
		return nil
	}
	return &v.seen.Locks[i]
}
