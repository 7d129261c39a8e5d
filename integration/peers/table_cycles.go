package peers

import (
	"fmt"
	"time"
)

func (r Run) machineTable() Table {
	t := Table{Title: "The machine", Columns: []string{"", ""}}
	for _, f := range r.Machine.Facts {
		t.Rows = append(t.Rows, []string{f[0], f[1]})
	}
	if r.Took > 0 {
		t.Rows = append(t.Rows, []string{
			"the run", fmt.Sprintf("%s, %d rounds of turns of %s", r.Took.Round(time.Second), r.Options.Rounds, r.Options.Turn),
		})
	}
	if r.Short > 0 {
		t.Rows = append(t.Rows, []string{
			"short of processors", fmt.Sprintf("%.0f %% of the time somebody on the machine waited for one", 100*r.Short),
		})
	}
	return t
}

func (r Run) cycleTable(s Site) Table {
	t := Table{
		Title: fmt.Sprintf("Cycles of acquire and release on %s: %s", s.Name, s.About),
		Notes: []string{"ours / its: how many times as many cycles ours did in the same round, median (min–max); " +
			"latency is acquire and release together, " +
			"the work left out; per cycle: processor of the contestant's process, and what ZooKeeper's servers counted"},
		Columns: []string{
			"work", "contestant", "cycles/s", "ours / its", "p50 µs", "p99 µs", "cpu µs", "requests", "writes", "errors",
			"excludes",
		},
	}
	work := ""
	for _, l := range r.Lines() {
		if l.Site != s.Name {
			continue
		}
		name := ""
		if l.Work != work {
			name, work = l.Work, l.Work
		}
		t.Rows = append(t.Rows, []string{
			name, l.Kind, number(l.Rate), l.Ours.String(), number(l.P50), number(l.P99), number(l.CPU),
			counted(l.Kind, l.Counters.Requests), counted(l.Kind, l.Counters.Writes), errorsOf(l), checked(l.Check),
		})
	}
	return t
}

// String is "1.25 (1.10–1.31)".
func (o Ratio) String() string {
	if o.Rounds == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", o.Median, o.Min, o.Max)
}

func counted(kind string, n float64) string {
	if k, _ := kindOf(kind); k.Family != ZooKeeper {
		return ""
	}
	return fmt.Sprintf("%.2f", n)
}

func errorsOf(l Line) string {
	if l.Errors == 0 {
		return ""
	}
	return fmt.Sprintf("%d: %s", l.Errors, l.FirstError)
}

func checked(c *Check) string {
	switch {
	case c == nil:
		return ""
	case c.Violations > 0:
		return fmt.Sprintf("BROKEN %d of %d", c.Violations, c.Cycles)
	default:
		return fmt.Sprintf("yes, %d", c.Cycles)
	}
}
