package config

import (
	"fmt"
	"strings"
)

// suggester finds the name that was probably meant. It has a budget: a file
// with a hundred thousand typing errors must be refused as fast as any other.
type suggester struct{ budget int }

func newSuggester() *suggester { return &suggester{budget: 100_000} }

// didYouMean returns `did you mean "x"?` for the known name next to the one
// that was written, or "" when none is near.
func (s *suggester) didYouMean(written string, known []string) string {
	if name, ok := s.nearest(written, known); ok {
		return fmt.Sprintf("did you mean %q?", name)
	}
	return ""
}

func (s *suggester) nearest(written string, known []string) (string, bool) {
	const longest = 64
	if written == "" || len(written) > longest {
		return "", false
	}
	w := strings.ToLower(strings.ReplaceAll(written, "-", "_"))
	best, bestCost := "", 2*max(1, len(w)/3)+2
	for _, name := range known {
		if s.budget--; s.budget < 0 {
			return "", false
		}
		if len(name) > longest {
			continue
		}
		k := strings.ToLower(strings.ReplaceAll(name, "-", "_"))
		cost := 2 * distance(w, k)
		// "lease" and "leese" stand for lease_timeout: a first word counts,
		// but a whole name as near as that wins.
		if head, _, found := strings.Cut(k, "_"); found && len(head) >= 4 {
			cost = min(cost, 2*distance(w, head)+1)
		}
		if len(w) >= 4 && strings.HasPrefix(k, w) {
			cost = min(cost, 3)
		}
		if cost < bestCost {
			best, bestCost = name, cost
		}
	}
	return best, best != ""
}

// distance is the number of letters to insert, delete, change or swap with
// their neighbour to make b of a.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	before, last, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range row {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(y)]
}
