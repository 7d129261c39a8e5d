package assignment

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// InvalidError is returned for an assignment that must not be applied.
type InvalidError struct {
	Problems []string // at least one, locks in natural order
}

// shown is how many problems the text of an InvalidError tells.
const shown = 10

func (e *InvalidError) Error() string {
	problems, more := e.Problems, ""
	if len(problems) > shown {
		problems, more = problems[:shown], fmt.Sprintf("; and %d more", len(problems)-shown)
	}
	return "assignment refused: " + strings.Join(problems, "; ") + more
}

// Validate returns an *InvalidError with everything that is wrong with an
// assignment: a lock that is not declared, more than Holders for a lock, a
// holder that is not live, a holder twice on one lock, and a member with more
// locks than Limit. Fewer holders are fine.
func Validate(a Assignment, locks, live []string, hints Hints) error {
	var problems []string
	report := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }

	known := set(locks)
	if len(known) < len(locks) {
		report("%d locks are declared twice", len(locks)-len(known))
	}
	alive := set(live)
	most := max(hints.Holders, 1)
	counts := map[string]int{}
	for _, lock := range slices.SortedFunc(maps.Keys(a), Compare) {
		if !known[lock] {
			report("lock %q is not declared", lock)
			continue
		}
		holders := slices.Sorted(slices.Values(a[lock]))
		if len(holders) > most {
			report("lock %q is given to %d members (%s); the limit is %d",
				lock, len(holders), strings.Join(holders, ", "), most)
		}
		for i, member := range holders {
			counts[member]++
			switch {
			case i > 0 && holders[i-1] == member:
				report("lock %q is given twice to %q", lock, member)
			case !alive[member]:
				report("lock %q is given to %q, who is not live", lock, member)
			}
		}
	}
	for _, member := range slices.SortedFunc(maps.Keys(counts), Compare) {
		if n := counts[member]; hints.Limit > 0 && n > hints.Limit {
			report("%q is given %d locks; the limit is %d", member, n, hints.Limit)
		}
	}
	if problems == nil {
		return nil
	}
	return &InvalidError{Problems: problems}
}

func set(names []string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, name := range names {
		m[name] = true
	}
	return m
}
