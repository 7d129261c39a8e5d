package prometheus

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/metrics"
)

// A check looks at an answer.
type check func(t *testing.T, lines []line)

// A span is what a value may be.
type span struct {
	least, most float64
	absent      bool // the line may be missing
}

// slack is how far apart, in seconds, the first and the last scrape in a window may
// be from its ends: three scrapes.
const slack = 1.5

// about is what may come out for a value that is counted. Prometheus sees it at
// scrapes alone, and adds what it guesses of the time before the first and after the
// last one in the window: slack at most, when it is late.
func (p *play) about(v float64) span {
	w := p.window().Seconds()
	return between(v*0.99-0.003, v*w/(w-slack)+0.003)
}

// ratio is what may come out for the ratio of two such, each of processes that are
// scraped at different times.
func (p *play) ratio(v float64) span {
	w := p.window().Seconds()
	return between(v*(w-slack)/w-0.003, v*w/(w-slack)+0.003)
}

func exactly(v float64) span           { return between(v, v) }
func between(least, most float64) span { return span{least: least, most: most} }

// perhaps is of what may be too short for a scrape.
func perhaps(most float64) span { return span{most: most, absent: true} }

// key names a line by its labels: "lock_class=db,outcome=timeout".
func (l line) key() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(l.Labels)) {
		all = append(all, name+"="+l.Labels[name])
	}
	return strings.Join(all, ",")
}

// last wants exactly these lines, by their last values. Lines that are not named
// have to be 0, or nothing at all: classes and outcomes of which there were none.
func last(want map[string]span) check { return compare(want, line.last) }

// peak is last for the greatest values that there were.
func peak(want map[string]span) check {
	return compare(want, func(l line) float64 { return slices.Max(l.Values) })
}

// low is last for the smallest values that there were.
func low(want map[string]span) check {
	return compare(want, func(l line) float64 { return slices.Min(l.Values) })
}

func compare(want map[string]span, value func(line) float64) check {
	return func(t *testing.T, lines []line) {
		t.Helper()
		got := make(map[string]float64)
		for _, l := range lines {
			require.NotContains(t, got, l.key())
			got[l.key()] = value(l)
		}
		for key, v := range got {
			bounds, named := want[key]
			if !named && (v == 0 || math.IsNaN(v)) {
				continue
			}
			require.True(t, named, "unexpected {%s} %g of %v", key, v, got)
			require.True(t, v >= bounds.least && v <= bounds.most, "{%s} is %g, not between %g and %g, of %v", key, v, bounds.least, bounds.most, got)
		}
		for key, bounds := range want {
			if !bounds.absent {
				require.Contains(t, got, key)
			}
		}
	}
}

// all wants these of several checks.
func all(checks ...check) check {
	return func(t *testing.T, lines []line) {
		t.Helper()
		for _, c := range checks {
			c(t, lines)
		}
	}
}

// each wants one line at least, all last values of which are within bounds, and
// all of which have these labels.
func each(bounds span, labels ...string) check {
	return func(t *testing.T, lines []line) {
		t.Helper()
		require.NotEmpty(t, lines)
		for _, l := range lines {
			require.ElementsMatch(t, labels, slices.Collect(maps.Keys(l.Labels)))
			require.True(t, l.last() >= bounds.least && l.last() <= bounds.most, "{%s} is %g, not between %g and %g", l.key(), l.last(), bounds.least, bounds.most)
		}
	}
}

// nothing wants no line.
func nothing(t *testing.T, lines []line) {
	t.Helper()
	require.Empty(t, lines)
}

// rows is the shape of an answer by one label.
func rows(label string, bounds map[string]span) map[string]span {
	out := make(map[string]span)
	for value, b := range bounds {
		out[label+"="+value] = b
	}
	return out
}

func one(bounds span) map[string]span { return map[string]span{"": bounds} }

// buckets are the upper bounds of an instrument's.
func buckets(name string) []float64 {
	for _, i := range metrics.Instruments() {
		if i.Name == name {
			return i.Buckets
		}
	}
	return nil
}

// quantile is what a quantile of the buckets of sorted durations may be: anything in
// the buckets in which it can be. Prometheus makes all buckets of one process grow by
// the same factor (see primer), but those of different processes, scraped at different
// times, by different ones: one duration may weigh as much more than another as about
// allows for.
func (p *play) quantile(instrument string, q float64, sorted []float64) span {
	bounds := buckets(instrument)
	w := p.window().Seconds()
	heavy := w / (w - slack)
	// bucket is the first one that has the share q, when what is in it and in those
	// before weighs so much, and what is above them so much.
	bucket := func(below, above float64) int {
		for n, bound := range bounds {
			lower := 0.0
			for _, v := range sorted {
				if v <= bound {
					lower++
				}
			}
			if lower*below >= q*(lower*below+(float64(len(sorted))-lower)*above) {
				return n
			}
		}
		return len(bounds)
	}
	least := 0.0
	if n := bucket(heavy, 1); n > 0 {
		least = bounds[n-1]
	}
	return between(least, bounds[min(bucket(1, heavy), len(bounds)-1)])
}

// cumulative wants the buckets of durations as Prometheus has them, up to each bound.
func (p *play) cumulative(instrument string, durations []float64) check {
	return func(t *testing.T, lines []line) {
		t.Helper()
		require.Len(t, lines, len(buckets(instrument))+1)
		for _, l := range lines {
			bound, err := strconv.ParseFloat(l.Labels["le"], 64)
			require.NoError(t, err)
			n := 0
			for _, d := range durations {
				if d <= bound {
					n++
				}
			}
			want := p.about(float64(n))
			require.True(t, l.last() >= want.least && l.last() <= want.most, "%d took at most %gs, it says %g", n, bound, l.last())
		}
	}
}
