package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// adviseScopes warns of polite jobs that would give up before a job they
// outrank has cleaned up.
func (r *reader) adviseScopes(entries []jobEntry) {
	byScope := map[string][]jobEntry{}
	for _, e := range entries {
		if len(e.Requirements) == 1 {
			scope := e.Requirements[0].Scope
			byScope[scope] = append(byScope[scope], e)
		}
	}
	for _, scope := range slices.Sorted(maps.Keys(byScope)) {
		all := byScope[scope]
		slices.SortStableFunc(all, func(a, b jobEntry) int {
			return cmp.Compare(a.Requirements[0].Priority, b.Requirements[0].Priority)
		})
		var slowest, slowestOfLevel jobEntry // of those below, of those at the same priority
		for i, e := range all {
			if i > 0 && e.Requirements[0].Priority != all[i-1].Requirements[0].Priority {
				slowest = slower(slowest, slowestOfLevel)
			}
			slowestOfLevel = slower(slowestOfLevel, e)
			r.advisePatience(e, slowest)
		}
	}
}

func slower(a, b jobEntry) jobEntry {
	if b.lock.cleanup.v > a.lock.cleanup.v {
		return b
	}
	return a
}

func (r *reader) advisePatience(e, below jobEntry) {
	waiting := e.lock.waiting
	if waiting.v == nil || waiting.bad || e.lock.forceful.v || *waiting.v >= below.lock.cleanup.v || isTry(e.lock.acquire) {
		return
	}
	at := e.lockAt
	if waiting.given {
		at = waiting.at
	}
	r.warn(at, fmt.Sprintf("waiting_timeout (%s%s) is shorter than the cleanup_timeout (%s) of the job %s, which has the same scope: this one would give up first",
		formatDuration(*waiting.v), waiting.origin(), formatDuration(below.lock.cleanup.v), quote(below.Name)),
		fmt.Sprintf("write %s or more", formatDuration(below.lock.cleanup.v)))
}

func isTry(acquire setting[*time.Duration]) bool { return acquire.v != nil && *acquire.v == 0 }
