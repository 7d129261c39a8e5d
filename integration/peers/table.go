package peers

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/integration/peers/contestant"
)

// A Table is part of what is printed.
type Table struct {
	Title   string
	Notes   []string
	Columns []string
	Rows    [][]string
}

// Tables returns what a run has shown.
func (r Run) Tables() []Table {
	tables := []Table{r.machineTable()}
	for _, s := range Sites() {
		tables = append(tables, r.cycleTable(s))
	}
	tables = append(tables, r.queueTable(), r.preemptTable(), r.failoverTable(), r.failureTable())
	return slices.DeleteFunc(tables, func(t Table) bool { return len(t.Rows) == 0 })
}

// number prints three digits, or all there are before the point.
func number(x float64) string {
	switch {
	case math.IsNaN(x):
		return ""
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	default:
		return fmt.Sprintf("%.3g", x)
	}
}

func (r Run) queueTable() Table {
	t := Table{
		Title: fmt.Sprintf("Hand-overs while others wait, %d ms inside", queueWork.Milliseconds()),
		Notes: []string{"hand-over: from the call that releases to the return of the call that acquires; growth: " +
			"p50 to that with the fewest waiters; read: in answers " +
			"and events, of all processes. One process of each contestant, its waiters on four connections, " +
			"the first of as many hand-overs as there are waiters, at most 100"},
		Columns: []string{
			"waiters", "contestant", "all stand after", "p50 µs", "p99 µs", "growth", "requests", "writes", "reads", "KiB read",
		},
	}
	least := map[string]float64{}
	for _, size := range r.Options.QueueSizes {
		for _, kind := range []string{Product, "zklock", "curator-mutex"} {
			own := r.samples(func(s Sample) bool {
				return s.Group == GroupQueue && s.Work == fmt.Sprintf("%d waiters", size) && s.Kind == kind
			})
			if len(own) == 0 {
				continue
			}
			of := func(f func(Sample) float64) float64 { return medianOf(own, f) }
			p50 := of(func(s Sample) float64 { return s.P50Micros })
			if _, known := least[kind]; !known {
				least[kind] = p50
			}
			each := func(f func(Counters) float64) string {
				return fmt.Sprintf("%.1f", of(func(s Sample) float64 { return f(s.Counters.each(float64(s.Cycles))) }))
			}
			t.Rows = append(t.Rows, []string{
				fmt.Sprint(size), kind, fmt.Sprintf("%.1f s",
					of(func(s Sample) float64 { return s.Series["joined"].P50Micros / 1e6 })),
				number(p50), number(of(func(s Sample) float64 { return s.P99Micros })), fmt.Sprintf("%.1f", p50/least[kind]),
				each(func(c Counters) float64 { return c.Requests }), each(func(c Counters) float64 { return c.Writes }),
				each(func(c Counters) float64 { return c.Reads }), each(func(c Counters) float64 { return c.Bytes / 1024 }),
			})
		}
	}
	return t
}

func (r Run) preemptTable() Table {
	t := Table{
		Title: "Preemption, which no peer has",
		Notes: []string{fmt.Sprintf("a round trip is the mean of a read and a write on the same server in the same turn; "+
			"the victim cleans up for %d ms; a tick is %s", cleanup.Milliseconds(), tick)},
		Columns: []string{
			"server", "from … to", "p50 round trips", "p99", "p50 ms", "p99 ms", "a read ms", "a write ms",
			"p99 in ticks",
		},
	}
	for _, s := range Sites() {
		for _, row := range []struct {
			what, do, series string
		}{
			{"the request … the victim's context is cancelled", contestant.Preempt, contestant.SeriesAsk},
			{"the victim's release … the preemptor runs", contestant.Preempt, contestant.SeriesStart},
			{"a forceful request … it runs, the victim does not go", contestant.Takeover, contestant.SeriesTakeover},
		} {
			own := r.samples(func(sample Sample) bool {
				return sample.Site == s.Name && sample.Group == GroupPreempt && sample.Work == row.do
			})
			if len(own) == 0 {
				continue
			}
			ping := func(series string) float64 {
				return medianOf(own, func(s Sample) float64 { return s.Series[series].P50Micros / 1000 })
			}
			trips := func(f func(contestant.Spread) float64) float64 {
				return medianOf(own, func(s Sample) float64 {
					return 2 * f(s.Series[row.series]) / (s.Series[contestant.SeriesRead].P50Micros +
						s.Series[contestant.SeriesWrite].P50Micros)
				})
			}
			p50 := func(s contestant.Spread) float64 { return s.P50Micros }
			p99 := func(s contestant.Spread) float64 { return s.P99Micros }
			plain := func(f func(contestant.Spread) float64) float64 {
				return medianOf(own, func(s Sample) float64 { return f(s.Series[row.series]) / 1000 })
			}
			t.Rows = append(t.Rows, []string{
				s.Name, row.what, fmt.Sprintf("%.1f", trips(p50)), fmt.Sprintf("%.1f", trips(p99)),
				fmt.Sprintf("%.2f", plain(p50)), fmt.Sprintf("%.2f", plain(p99)),
				fmt.Sprintf("%.2f", ping(contestant.SeriesRead)), fmt.Sprintf("%.2f", ping(contestant.SeriesWrite)),
				fmt.Sprintf("%.3f", plain(p99)/float64(tick.Milliseconds())),
			})
		}
	}
	return t
}

func (r Run) failoverTable() Table {
	t := Table{
		Title: "Fail-over: the process that holds the lock is killed while another one waits",
		Notes: []string{fmt.Sprintf("session timeout, or time to live, %s; a tick is %s; "+
			"a session's time counts from the last sign of life, so it may be over before "+
			"its timeout after the kill", r.Options.FailoverSession, tick)},
		Columns: []string{"contestant", "taken over after", "past the timeout, in ticks"},
	}
	for _, k := range Kinds() {
		var took []float64
		for _, f := range r.Fails {
			if f.Kind == k.Name {
				took = append(took, f.Took.Seconds())
			}
		}
		if len(took) == 0 {
			continue
		}
		past := (slices.Max(took) - r.Options.FailoverSession.Seconds()) / tick.Seconds()
		t.Rows = append(t.Rows, []string{
			k.Name, fmt.Sprintf("%.1f s (%.1f–%.1f)", median(took), slices.Min(took), slices.Max(took)),
			fmt.Sprintf("%.1f at most", past),
		})
	}
	return t
}

func (r Run) failureTable() Table {
	t := Table{
		Title: "Who could not take part, or not to the end", Columns: []string{"server", "contestant", "why", "works"},
	}
	for _, f := range r.Failures {
		at := slices.IndexFunc(t.Rows, func(row []string) bool {
			return row[0] == f.Site && row[1] == f.Kind && row[2] == oneLine(f.Why)
		})
		if at < 0 {
			t.Rows = append(t.Rows, []string{f.Site, f.Kind, oneLine(f.Why), f.Work})
		} else if !strings.Contains(t.Rows[at][3], f.Work) {
			t.Rows[at][3] += "; " + f.Work
		}
	}
	return t
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func (r Run) samples(is func(Sample) bool) []Sample {
	var own []Sample
	for _, s := range r.Samples {
		if is(s) {
			own = append(own, s)
		}
	}
	return own
}

func medianOf(samples []Sample, f func(Sample) float64) float64 {
	var all []float64
	for _, s := range samples {
		all = append(all, f(s))
	}
	return median(all)
}
