package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/priority"
)

// adviseScopes warns of polite jobs that would give up before a job they
// outrank has cleaned up.
func (r *reader) adviseScopes(entries []jobEntry) {
	byScope := map[string][]lockOfJob{}
	for _, e := range entries {
		for _, lock := range e.locks {
			byScope[lock.scope] = append(byScope[lock.scope],
				lockOfJob{lock, e.Name, slices.ContainsFunc(e.locks, lockEntry.isTry)})
		}
	}
	for _, scope := range slices.Sorted(maps.Keys(byScope)) {
		all := byScope[scope]
		slices.SortStableFunc(all, func(a, b lockOfJob) int { return cmp.Compare(a.priority.v.level, b.priority.v.level) })
		var slowest, slowestOfLevel slowestLocks // of those below, of those at the same priority
		for i, l := range all {
			if i > 0 && l.priority.v.level != all[i-1].priority.v.level {
				slowest = slowest.and(slowestOfLevel.any).and(slowestOfLevel.exclusive)
			}
			slowestOfLevel = slowestOfLevel.and(l)
			if l.mode.v == priority.Shared { // shared requests do not wait for each other
				r.advisePatience(l, slowest.exclusive)
			} else {
				r.advisePatience(l, slowest.any)
			}
		}
	}
}

type lockOfJob struct {
	lockEntry
	job   string
	tries bool // the job waits for none of its locks
}

// slowestLocks are those that need most time to clean up.
type slowestLocks struct{ any, exclusive lockOfJob }

func (s slowestLocks) and(l lockOfJob) slowestLocks {
	s.any = slower(s.any, l)
	if l.mode.v == priority.Exclusive {
		s.exclusive = slower(s.exclusive, l)
	}
	return s
}

func slower(a, b lockOfJob) lockOfJob {
	if b.cleanup.v > a.cleanup.v {
		return b
	}
	return a
}

func (r *reader) advisePatience(l, below lockOfJob) {
	waiting := l.waiting
	if l.priority.v.neverPreempts || l.priority.v.level-below.priority.v.level < priority.Level(r.preemptDelta) {
		return // it preempts no holder
	}
	if waiting.v == nil || waiting.bad || l.forceful.v || *waiting.v >= below.cleanup.v || l.tries {
		return
	}
	at := l.at
	if waiting.given {
		at = waiting.at
	}
	r.warn(at, fmt.Sprintf("waiting_timeout (%s%s) is shorter than the cleanup_timeout (%s) of the job %s, "+
		"which has the same scope: this one would give up first",
		words.Duration(*waiting.v), waiting.origin(), words.Duration(below.cleanup.v), quote(below.job)),
		fmt.Sprintf("write %s or more", words.Duration(below.cleanup.v)))
}

func (l lockEntry) isTry() bool { return l.acquire.v != nil && *l.acquire.v == 0 }

// adviseTogether warns of an acquire timeout that does nothing beside that of
// another lock of the same job.
func (r *reader) adviseTogether(locks []lockEntry) {
	var shortest *lockEntry
	for i, l := range locks {
		if v := l.acquire.v; v != nil && !l.acquire.bad && (shortest == nil || *v < *shortest.acquire.v) {
			shortest = &locks[i]
		}
	}
	for _, l := range locks {
		acquire := l.acquire
		if shortest == nil || !acquire.given || acquire.bad || acquire.v != nil && *acquire.v == *shortest.acquire.v {
			continue
		}
		length := unset
		if acquire.v != nil {
			length = words.Duration(*acquire.v)
		}
		r.warn(acquire.at, fmt.Sprintf(
			"acquire_timeout (%s) does nothing: that of %s is shorter (%s%s), and the shortest counts for all locks of a job",
			length, quote(shortest.scope), words.Duration(*shortest.acquire.v), shortest.acquire.origin()),
			"remove it, or write the same for all")
	}
}
