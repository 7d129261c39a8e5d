package peers

import (
	"io"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

const (
	rounds        = 12
	sequence      = 20 // locks of one workflow, alone
	crowd, locked = 10, 10
)

// BenchmarkUncontended: one workflow takes one lock after the other. The
// contestants take turns, in one order and then in the other: what a lock adds is the difference to
// the same work without one in the same round.
func BenchmarkUncontended(b *testing.B) {
	for b.Loop() {
		compare(b, uncontended, 1, sequence)
	}
}

// BenchmarkContended: ten workflows want one resource, ten times each.
func BenchmarkContended(b *testing.B) {
	for b.Loop() {
		compare(b, contended, crowd, locked)
	}
}

func compare(b *testing.B, table func(out io.Writer, lines []line), workflows, locks int) {
	b.Helper()
	var lanes []*lane
	for _, c := range contestants() {
		l := c.start(b)
		l.run(b, 1, 2) // warm
		lanes = append(lanes, l)
	}
	turns := rounds
	if workflows > 1 {
		turns = 1
	}
	sums := make([]figures, len(lanes))
	order := make([]int, len(lanes))
	for i := range order {
		order[i] = i
	}
	for range turns {
		for _, i := range order {
			f := lanes[i].run(b, workflows, locks)
			f.rounds = []time.Duration{f.perLock()}
			sums[i] = sums[i].plus(f)
		}
		slices.Reverse(order)
	}
	var lines []line
	for i, l := range lanes {
		f := sums[i]
		if i > 0 && workflows == 1 {
			f = f.more(sums[0])
		}
		lines = append(lines, line{name: l.name, figures: f})
		b.ReportMetric(float64(f.perLock().Microseconds())/1e3, "ms/lock:"+strings.ReplaceAll(l.name, " ", "-"))
	}
	b.ReportMetric(0, "ns/op")
	var text strings.Builder
	out := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	table(out, lines)
	_ = out.Flush()
	b.Log(text.String())
}

func (f figures) plus(g figures) figures {
	return figures{
		Locks: f.Locks + g.Locks, Caller: f.Caller + g.Caller, Others: f.Others + g.Others, Signals: f.Signals + g.Signals, Tasks: f.Tasks + g.Tasks,
		Failed: f.Failed + g.Failed, Bytes: f.Bytes + g.Bytes, Took: f.Took + g.Took, Longest: max(f.Longest, g.Longest),
		around: append(f.around, g.around...), rounds: append(f.rounds, g.rounds...),
	}
}
