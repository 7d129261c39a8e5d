package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A tally counts what became of one job.
type tally struct {
	runs      int
	done      int
	preempted int
	cleaned   int // of those that were preempted
	skipped   int
	onDaemon  map[string]int // runs
}

func tallies(runs []*jobRun, steps []step) map[string]*tally {
	all := make(map[string]*tally)
	of := func(job string) *tally {
		if all[job] == nil {
			all[job] = &tally{onDaemon: make(map[string]int)}
		}
		return all[job]
	}
	for _, r := range runs {
		t := of(r.job)
		if r.started.IsZero() {
			continue
		}
		t.runs++
		t.onDaemon[r.daemon]++
		if r.kinds[done] {
			t.done++
		}
		if r.kinds[preempted] {
			t.preempted++
			if r.kinds[cleaned] {
				t.cleaned++
			}
		}
	}
	for _, s := range steps {
		if s.Kind == skipped {
			of(s.Job).skipped++
		}
	}
	return all
}

// cleanups counts the preemptions whose cleanup has put things right.
func cleanups(all map[string]*tally) int {
	n := 0
	for _, t := range all {
		n += t.cleaned
	}
	return n
}

// table shows the tallies, one row for each job.
func table(all map[string]*tally, daemons []string, paint palette) string {
	head := []string{fmt.Sprintf("  %-10s%6s%8s%12s%14s%10s", "job", "runs", "done", "preempted", "and cleaned", "skipped")}
	for _, d := range daemons {
		head = append(head, fmt.Sprintf("%8s", "on "+d))
	}
	var b strings.Builder
	b.WriteString(paint.paint(bold, strings.Join(head, "")) + "\n")
	for _, job := range slices.Sorted(maps.Keys(all)) {
		t := all[job]
		fmt.Fprintf(&b, "  %-10s%6d%8d%12d%14d%10d", job, t.runs, t.done, t.preempted, t.cleaned, t.skipped)
		for _, d := range daemons {
			fmt.Fprintf(&b, "%8d", t.onDaemon[d])
		}
		b.WriteByte('\n')
	}
	return b.String()
}
