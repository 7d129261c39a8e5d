package group

import (
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/assignment"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// What a controller decides is here, apart from how it learns and writes: pure
// functions of what it has read.

// A peer is a participant as the controller has read it.
type peer struct {
	groupChild
	record memberRecord
	read   bool // record is known
}

// peers are the participants whose nodes are there, by guid.
type peers map[string]*peer

// standing returns the participants that count, by name: for each name the one
// that came first, unless it leaves.
func (ps peers) standing(participants []string) map[string]*peer {
	byName := make(map[string]*peer, len(ps))
	for _, p := range ps {
		if first := byName[p.name]; first == nil || p.seq-first.seq < 0 {
			byName[p.name] = p
		}
	}
	for name, p := range byName {
		if !p.read || p.record.Leaving || len(participants) > 0 && !slices.Contains(participants, name) {
			delete(byName, name)
		}
	}
	return byName
}

// deserted reports that all participants leave.
func (ps peers) deserted() bool {
	for _, p := range ps {
		if !p.read || !p.record.Leaving {
			return false
		}
	}
	return true
}

// A groupLeave is a grant that its participant has released.
type groupLeave struct {
	guid  string
	token lock.Token
	lock  string
}

// released are the grants that participants have written that they released. One
// that had all locks may have released thousands by one token.
func (ps peers) released() map[groupLeave]struct{} {
	all := map[groupLeave]struct{}{}
	for guid, p := range ps {
		for token, locks := range p.record.Released {
			for _, lock := range locks {
				all[groupLeave{guid, token, lock}] = struct{}{}
			}
		}
	}
	return all
}

// reap takes out the entries that hold nothing any more: their participants have
// released them, or are gone. Both reasons are for ever.
func (a *groupAssignment) reap(ps peers) {
	released := ps.released()
	for name, l := range a.locks {
		l.holders = slices.DeleteFunc(l.holders, func(e groupEntry) bool {
			if _, there := ps[e.guid]; !there {
				return true
			}
			_, let := released[groupLeave{e.guid, e.token, name}]
			return let
		})
	}
}

// orphans returns the locks that fewer live participants are planned for than
// could be.
func (a *groupAssignment) orphans(spec *Spec, live map[string]*peer) []string {
	var locks []string
	want := min(spec.Holders, len(live))
	for _, lock := range spec.Locks {
		n := 0
		if l := a.locks[lock]; l != nil {
			for _, name := range l.plan {
				if live[name] != nil {
					n++
				}
			}
		}
		if n < want {
			locks = append(locks, lock)
		}
	}
	return locks
}

// adopt replaces the plan, and counts how many locks change hands by it.
func (a *groupAssignment) adopt(spec *Spec, next assignment.Assignment) {
	changes, moves := assignment.Moves(a.planned(), next), 0
	for _, m := range changes {
		if m.From != "" && m.To != "" {
			moves++
		}
	}
	declared := spec.declared()
	for lock := range declared {
		if a.locks[lock] == nil {
			a.locks[lock] = &groupLock{}
		}
	}
	for lock, l := range a.locks {
		l.plan = nil
		if declared[lock] {
			l.plan = slices.Sorted(slices.Values(next[lock]))
		}
	}
	if len(changes) > 0 {
		a.generation++
		a.moved, a.total = moves, a.total+int64(moves)
	}
}

// advance takes each lock the steps further that can be taken: a holder that is
// not planned is asked to release, and a planned participant gets a place that
// is free. No participant is ever put beside one that still holds beyond the
// declared number, nor gets more than the limit while it still releases others.
// It reports whether anything changed, and whether all is as planned.
func (a *groupAssignment) advance(
	spec *Spec, declared map[string]bool, live map[string]*peer,
) (changed, complete bool) {
	complete = true
	held := map[string]int{} // by guid; what is being released counts
	for _, l := range a.locks {
		for _, e := range l.holders {
			held[e.guid]++
		}
	}
	for lock, l := range a.locks {
		for i := range l.holders {
			e := &l.holders[i]
			if !e.revoking && !slices.Contains(l.plan, e.name) {
				e.revoking, changed = true, true
			}
			if e.revoking {
				complete = false
			}
		}
		if !declared[lock] && len(l.plan) == 0 {
			if len(l.holders) == 0 {
				delete(a.locks, lock)
				changed = true
			}
			continue
		}
		for _, name := range l.plan {
			p := live[name]
			if p == nil || slices.ContainsFunc(l.holders, func(e groupEntry) bool { return e.guid == p.guid }) {
				continue
			}
			if len(l.holders) >= spec.Holders || !spec.allows(held[p.guid]) {
				complete = false
				continue
			}
			held[p.guid]++
			l.holders = append(l.holders, groupEntry{guid: p.guid, name: name})
			changed = true
		}
	}
	return changed, complete
}

// --- when to plan ------------------------------------------------------------------

// patience is what a controller remembers of how the participants come and go.
type patience struct {
	live    []string  // as last seen
	quiet   time.Time // since when they are these
	pending time.Time // since when they are not those of the plan; zero: they are
	orphans time.Time // since when locks lack a live participant meanwhile; zero: none does
	tried   []string  // the participants for which a plan for orphans alone was made last
}

type planKind uint8

const (
	planNothing planKind = iota
	planOrphans          // only locks without a holder
	planAll
)

// observe notes who is there.
func (p *patience) observe(now time.Time, live, planned []string, orphans bool) {
	if p.quiet.IsZero() || !slices.Equal(p.live, live) {
		p.live, p.quiet = live, now
	}
	since := func(t *time.Time, is bool) {
		switch {
		case !is:
			*t = time.Time{}
		case t.IsZero():
			*t = now
		}
	}
	since(&p.pending, !slices.Equal(live, planned))
	since(&p.orphans, orphans && !p.pending.IsZero())
}

// planned notes that a plan is in force: what is amiss from here on is new.
func (p *patience) planned() { p.pending, p.orphans = time.Time{}, time.Time{} }

// verdict says what to plan now, and when to ask again. wanted is set when a
// plan is due though the participants are those of the last one.
func (p *patience) verdict(now time.Time, debounce time.Duration, wanted bool) (planKind, time.Duration) {
	if p.pending.IsZero() && !wanted {
		return planNothing, 0
	}
	at := p.quiet.Add(debounce)
	if !p.pending.IsZero() {
		if limit := p.pending.Add(DebounceLimit * debounce); limit.Before(at) {
			at = limit
		}
	}
	if !now.Before(at) {
		return planAll, 0
	}
	wait := at.Sub(now)
	if !p.orphans.IsZero() && !slices.Equal(p.tried, p.live) {
		early := p.orphans.Add(debounce)
		if !now.Before(early) {
			return planOrphans, 0
		}
		wait = min(wait, early.Sub(now))
	}
	return planNothing, wait
}

// fill returns the plan with nothing changed but orphans, which get the
// participants that the strategy named as far as the limit allows.
func (a *groupAssignment) fill(
	orphans []string, live map[string]*peer, full assignment.Assignment, spec *Spec,
) assignment.Assignment {
	next := a.planned()
	counts := next.Counts() // no participant gives anything up
	for _, lock := range orphans {
		kept := slices.DeleteFunc(slices.Clone(next[lock]), func(name string) bool { return live[name] == nil })
		for _, name := range full[lock] {
			if len(kept) < spec.Holders && !slices.Contains(kept, name) && spec.allows(counts[name]) {
				kept = append(kept, name)
				counts[name]++
			}
		}
		slices.Sort(kept)
		next[lock] = kept
	}
	return next
}
