package live

import (
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/inspect"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// How much is shown of a long queue.
const (
	// ManyWaiters is of how many waiters of a lock it is foreseen what becomes of
	// them.
	ManyWaiters = 100

	// ManyBlockers is how many of those that a waiter waits for are named.
	ManyBlockers = 20
)

// NewLocks explains locks that were seen: all that there are, so that what depends
// on others is there as well.
func NewLocks(states []lock.State) []Lock { return newWaits(states).explain(states) }

// NewSnapshot is all locks that there are, as they were seen at one time, for those
// who look once and need no Board.
func NewSnapshot(states []lock.State, now time.Time) *Snapshot {
	g := newWaits(states)
	s := &Snapshot{At: now.UTC(), Version: 1, Complete: true, Locks: g.explain(states), Waits: g.graph()}
	s.Totals = totalsOf(s.Locks, len(s.Waits.Circles))
	return s
}

// A Part is what was seen of one of several ensembles.
type Part struct {
	Ensemble string
	Seen     *Snapshot
}

// Together joins what was seen of several ensembles in one snapshot: each of its locks
// says on which it is. It is blind as soon as one of them is, and its time is the latest.
func Together(parts []Part) *Snapshot {
	s := &Snapshot{Complete: true, Locks: []Lock{}}
	circles := 0
	for _, p := range parts {
		seen := p.Seen
		if seen.At.After(s.At) {
			s.At = seen.At
		}
		s.Version += seen.Version
		s.Entries += seen.Entries
		s.Complete = s.Complete && seen.Complete
		if b := seen.Blind; b != nil {
			reason := "ensemble " + p.Ensemble + ": " + b.Reason
			if s.Blind == nil {
				s.Blind = &Blind{Since: b.Since, Reason: reason}
			} else {
				s.Blind.Since, s.Blind.Reason = earliest(s.Blind.Since, b.Since), s.Blind.Reason+"; "+reason
			}
		}
		s.Unreadable = append(s.Unreadable, seen.Unreadable...)
		for _, l := range seen.Locks {
			l.Ensemble = p.Ensemble
			s.Locks = append(s.Locks, l)
		}
		s.Waits.Nodes = append(s.Waits.Nodes, seen.Waits.Nodes...)
		s.Waits.Edges = append(s.Waits.Edges, seen.Waits.Edges...)
		s.Waits.Circles = append(s.Waits.Circles, seen.Waits.Circles...)
		s.Waits.Hidden += seen.Waits.Hidden
		circles += seen.Totals.Circles
	}
	slices.SortStableFunc(s.Locks, func(a, b Lock) int { return strings.Compare(a.Scope, b.Scope) })
	s.Totals = totalsOf(s.Locks, circles)
	return s
}

func (g waits) explain(states []lock.State) []Lock {
	locks := make([]Lock, len(states))
	for i, s := range states {
		locks[i] = Explain(s)
		g.finish(&locks[i])
	}
	return locks
}

// Explain is NewLock, and says of each waiter why it waits and for whom, as far as
// that follows from this lock.
func Explain(s lock.State) Lock {
	v := NewLock(s)
	if s.At.IsZero() {
		return v
	}
	v.At = s.At.UTC()
	for _, w := range s.Waiters {
		if v.OldestWait == nil || w.Joined.Before(*v.OldestWait) {
			v.OldestWait = new(w.Joined.UTC())
		}
	}
	blockers := blockersOf(s)
	for i := range v.Waiters {
		v.Waiters[i].Blockers = blockers(i)
	}
	front := s
	front.Waiters = s.Waiters[:min(len(s.Waiters), ManyWaiters)]
	words := Words{State: front, Absolute: true}
	for i, p := range inspect.Outlook(front) {
		v.Waiters[i].Why = strings.Join(words.why(p), "; ")
	}
	for i := len(front.Waiters); i < len(v.Waiters); i++ {
		v.Waiters[i].Why = words.far(i)
	}
	return v
}

// why says what a waiter waits for, and what is next.
func (v Words) why(p inspect.Prospect) []string {
	var parts []string
	if p.Waiter.Position == 1 {
		for _, d := range v.State.Delays {
			if !d.Mode.Admits(p.Waiter.Mode) {
				parts = append(parts, v.Delay(d))
			}
		}
		var names []string
		for _, h := range v.State.Holders {
			if !p.Waiter.Mode.Admits(h.Mode) {
				names = append(names, h.Owner)
			}
		}
		if len(names) > 0 {
			parts = append(parts, "held by "+few(names))
		}
		parts = append(parts, v.Bars(p.Waiter)...)
	}
	return append(parts, v.Next(p))
}

// far is why one waits that stands far behind.
func (v Words) far(before int) string {
	return v.behindMany(before) + "; " + undecided
}

// few names the first of many.
func few(names []string) string {
	const most = 5
	if len(names) <= most+1 {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + " and " + words.Count(len(names)-most, "other")
}

// blockersOf returns a function that names those that a waiter waits for directly:
// the holders in its way, then the nearest of those before it, as in a WaitGraph.
func blockersOf(s lock.State) func(i int) []string {
	var all, exclusive []string // IDs of the holders in the way: of an exclusive request, of a shared one
	for _, h := range s.Holders {
		if len(all) < ManyBlockers {
			all = append(all, h.ID)
		}
		if !priority.Shared.Admits(h.Mode) && len(exclusive) < ManyBlockers {
			exclusive = append(exclusive, h.ID)
		}
	}
	alone := -1 // the last one before that wants the lock for itself
	next := 0
	return func(i int) []string {
		for ; next < i; next++ {
			if s.Waiters[next].Mode != priority.Shared {
				alone = next
			}
		}
		holders := all
		if s.Waiters[i].Mode == priority.Shared {
			holders = exclusive
		}
		ids := slices.Clone(holders)
		if s.Waiters[i].Mode != priority.Shared {
			for j := i - 1; j > alone && len(ids) < ManyBlockers; j-- {
				ids = append(ids, s.Waiters[j].ID)
			}
		}
		if alone >= 0 && len(ids) < ManyBlockers {
			ids = append(ids, s.Waiters[alone].ID)
		}
		return ids
	}
}

// AsOf returns the lock as it is at a later time if nothing has happened since:
// what is left of leases, and delays that are over. Words stay as they are.
func (v Lock) AsOf(now time.Time) Lock {
	d := now.Sub(v.At)
	if v.At.IsZero() || d <= 0 || len(v.Holders)+len(v.Delays) == 0 {
		return v
	}
	v.At = now.UTC()
	v.Holders = slices.Clone(v.Holders)
	for i := range v.Holders {
		h := &v.Holders[i]
		h.LeaseLeft, h.MinLeft = max(0, h.LeaseLeft-d.Milliseconds()), max(0, h.MinLeft-d.Milliseconds())
	}
	if len(v.Delays) > 0 {
		v.Delays = slices.DeleteFunc(slices.Clone(v.Delays), func(d Delay) bool {
			return d.Until != nil && !d.Until.After(now)
		})
		if len(v.Delays) == 0 && v.State == "delayed" {
			v.State = "free"
		}
		if len(v.Delays) == 0 {
			v.Waiters = slices.Clone(v.Waiters)
			for i := range v.Waiters {
				v.Waiters[i].State = Waiting // it is about to get it
			}
		}
	}
	return v
}

// AsOf returns the snapshot as it is at a later time if nothing has happened
// since, see Lock.AsOf: what is shown long after the last change.
func (s *Snapshot) AsOf(now time.Time) *Snapshot {
	if !now.After(s.At) {
		return s
	}
	later := *s
	later.At = now.UTC()
	later.Locks = make([]Lock, len(s.Locks))
	for i, l := range s.Locks {
		later.Locks[i] = l.AsOf(now)
	}
	later.Totals = totalsOf(later.Locks, later.Totals.Circles)
	return &later
}

func totalsOf(locks []Lock, circles int) Totals {
	t := Totals{Locks: len(locks), Circles: circles}
	for _, l := range locks {
		switch l.State {
		case "held":
			t.Held++
		case "delayed":
			t.Delayed++
		}
		t.Holders += len(l.Holders)
		t.Waiters += len(l.Waiters)
		t.OldestWait = earlier(t.OldestWait, l.OldestWait)
		for i := range l.Holders {
			t.OldestHold = earlier(t.OldestHold, &l.Holders[i].Since)
		}
	}
	return t
}

func earlier(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.Before(*a) {
		return b
	}
	return a
}
