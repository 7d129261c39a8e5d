package timings

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// A Key says whose timings they are.
type Key struct {
	Owner string // of the requests: the job
	Scope string
}

// A Series is what was seen of one owner on one scope.
type Series struct {
	// Wait is how long requests waited that were granted.
	Wait Histogram `json:"wait,omitzero"`

	// Hold is how long the lock was held by work that ended by itself.
	Hold Histogram `json:"hold,omitzero"`

	// Cleanup is how long the holder took to release, from the start of its grace
	// period until work and hooks had returned: that is what cleanup_timeout is
	// for. The grace period begins when the holder is preempted; after a shutdown
	// or a timeout of its own, with its hooks.
	Cleanup Histogram `json:"cleanup,omitzero"`

	// GiveWay is how long requests that preempted waited for the holder's release, from
	// their first request to it to the grant: that is what waiting_timeout is for.
	GiveWay Histogram `json:"give_way,omitzero"`

	// LongestExpired is the longest time for which the work had held the lock
	// when it was preempted because its lease was over: it would have needed
	// more.
	LongestExpired time.Duration `json:"longest_expired_ns,omitzero"`

	Expired   uint64 `json:"expired,omitzero"`   // holds preempted because the lease was over
	Lost      uint64 `json:"lost,omitzero"`      // holds lost, for whatever reason
	Overran   uint64 `json:"overran,omitzero"`   // cleanups that were not done when the grace was over
	Pending   uint64 `json:"pending,omitzero"`   // requests whose waiting timeout was over before the holder had gone
	Preempted uint64 `json:"preempted,omitzero"` // holds preempted by a more important request
	Refused   uint64 `json:"refused,omitzero"`   // requests that were not granted, Pending included
	// of Cleanup: the lock was lost before it was done, which would have taken longer
	Unfinished uint64 `json:"unfinished,omitzero"`
}

// Merge adds all that other has.
func (s *Series) Merge(other Series) {
	s.Wait.Merge(other.Wait)
	s.Hold.Merge(other.Hold)
	s.Cleanup.Merge(other.Cleanup)
	s.GiveWay.Merge(other.GiveWay)
	s.LongestExpired = max(s.LongestExpired, other.LongestExpired)
	s.Expired += other.Expired
	s.Lost += other.Lost
	s.Overran += other.Overran
	s.Pending += other.Pending
	s.Preempted += other.Preempted
	s.Refused += other.Refused
	s.Unfinished += other.Unfinished
}

// Kept is how many cleanups were done within their grace.
func (s *Series) Kept() uint64 {
	return s.Cleanup.Count() - min(s.Cleanup.Count(), s.Overran+s.Unfinished)
}

func (s *Series) clone() Series {
	c := *s
	c.Wait, c.Hold, c.Cleanup, c.GiveWay = s.Wait.Clone(), s.Hold.Clone(), s.Cleanup.Clone(), s.GiveWay.Clone()
	return c
}

// Stats are the timings of several owners and scopes.
type Stats map[Key]*Series

// Merge adds all that other has.
func (s Stats) Merge(other Stats) {
	for key, series := range other {
		if s[key] == nil {
			s[key] = &Series{}
		}
		s[key].Merge(*series)
	}
}

// weeks of what is kept: this one and the four before it.
const weeks = 5

// weekOf numbers weeks from 1970 on.
func weekOf(t time.Time) int64 { return t.Unix() / (7 * 24 * 60 * 60) }

// A ledger has the series of each week.
type ledger map[Key]map[int64]*Series

// at returns the series of a week. It is nil when there are too many.
func (l ledger) at(key Key, week int64) *Series {
	kept := l[key]
	if kept == nil {
		if len(l) >= maxSeries {
			return nil
		}
		kept = make(map[int64]*Series, 1)
		l[key] = kept
	}
	if kept[week] == nil {
		kept[week] = &Series{}
	}
	return kept[week]
}

// forget drops the weeks that are too old, and those that are yet to come: a
// clock was wrong.
func (l ledger) forget(now time.Time) {
	for key, kept := range l {
		maps.DeleteFunc(kept, func(week int64, _ *Series) bool { return week <= weekOf(now)-weeks || week > weekOf(now)+1 })
		if len(kept) == 0 {
			delete(l, key)
		}
	}
}

// stats adds up the weeks.
func (l ledger) stats() Stats {
	stats := make(Stats, len(l))
	for key, kept := range l {
		sum := &Series{}
		for _, series := range kept {
			sum.Merge(*series)
		}
		stats[key] = sum
	}
	return stats
}

func (l ledger) clone() ledger {
	c := make(ledger, len(l))
	for key, kept := range l {
		c[key] = make(map[int64]*Series, len(kept))
		for week, series := range kept {
			c[key][week] = new(series.clone())
		}
	}
	return c
}

// keys returns the keys in order.
func (l ledger) keys() []Key {
	return slices.SortedFunc(maps.Keys(l), func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Scope, b.Scope))
	})
}
