package nightly

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// table shows the tallies, one row for each job.
func table(all map[string]*tally, daemons []string, paint palette) string {
	head := []string{fmt.Sprintf("  %-10s%6s%6s%11s%12s%9s", "job", "runs", "done", "preempted", "cleaned up", "skipped")}
	for _, d := range daemons {
		head = append(head, fmt.Sprintf("%6s", "on "+d))
	}
	var b strings.Builder
	b.WriteString(paint.paint(bold, strings.Join(head, "")) + "\n")
	for _, job := range slices.Sorted(maps.Keys(all)) {
		t := all[job]
		fmt.Fprintf(&b, "  %-10s%6d%6d%11d%12d%9d", job, t.runs, t.done, t.preempted, t.cleaned, t.skipped)
		for _, d := range daemons {
			fmt.Fprintf(&b, "%6d", t.onDaemon[d])
		}
		b.WriteByte('\n')
	}
	return b.String()
}
