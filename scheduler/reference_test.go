package scheduler

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

// The reference: it walks through all minutes of a year, asks the time package
// what the clock on the wall shows, and asks a function that knows nothing of
// specs whether something is due then. It shares no code with the schedules.

// shown is what a clock on the wall shows. A minute is counted from the epoch
// as if the wall were UTC.
type shown struct {
	minute int64
	mon    time.Month
	d, h   int
	m      int
	wd     time.Weekday
}

func read(t time.Time) shown {
	y, mon, d := t.Date()
	h, m, _ := t.Clock()
	return shown{minute: time.Date(y, mon, d, h, m, 0, 0, time.UTC).Unix() / 60, mon: mon, d: d, h: h, m: m, wd: t.Weekday()}
}

// A reference is a spec and, in Go, when it is due.
type reference struct {
	spec    string
	grid    time.Duration // it is due at multiples of that alone
	elapsed bool
	seconds []int
	due     func(w shown) bool
}

var sharp = []int{0}

const (
	fives    = 5 * time.Minute
	quarters = 15 * time.Minute
)

var references = []reference{
	{"*/15 * * * *", quarters, true, sharp, func(w shown) bool { return w.m%15 == 0 }},
	{"30 * * * *", quarters, true, sharp, func(w shown) bool { return w.m == 30 }},
	{"* 2 * * *", time.Minute, true, sharp, func(w shown) bool { return w.h == 2 }},
	{"*/20 30 1,2 * * *", quarters, false, []int{0, 20, 40}, func(w shown) bool { return w.m == 30 && (w.h == 1 || w.h == 2) }},
	{"5/10 0-3 * * *", fives, false, sharp, func(w shown) bool { return w.h <= 3 && w.m%10 == 5 }},
	{"@hourly", quarters, true, sharp, func(w shown) bool { return w.m == 0 }},
	{"@daily", quarters, false, sharp, func(w shown) bool { return w.h == 0 && w.m == 0 }},
	{"@weekly", quarters, false, sharp, func(w shown) bool { return w.wd == time.Sunday && w.h == 0 && w.m == 0 }},
	{"@monthly", quarters, false, sharp, func(w shown) bool { return w.d == 1 && w.h == 0 && w.m == 0 }},
	{"@yearly", quarters, false, sharp, func(w shown) bool { return w.mon == time.January && w.d == 1 && w.h == 0 && w.m == 0 }},
	{"0 0 * * *", quarters, false, sharp, func(w shown) bool { return w.h == 0 && w.m == 0 }},
	{"30 0 * * *", quarters, false, sharp, func(w shown) bool { return w.h == 0 && w.m == 30 }},
	{"0 1 * * *", quarters, false, sharp, func(w shown) bool { return w.h == 1 && w.m == 0 }},
	{"45 1 * * 0", quarters, false, sharp, func(w shown) bool { return w.wd == time.Sunday && w.h == 1 && w.m == 45 }},
	{"15,45 2 * * *", quarters, false, sharp, func(w shown) bool { return w.h == 2 && (w.m == 15 || w.m == 45) }},
	{"30 2 8 3 *", quarters, false, sharp, func(w shown) bool { return w.mon == time.March && w.d == 8 && w.h == 2 && w.m == 30 }},
	{"30 1,2,3 * 3,4,10,11 7", quarters, false, sharp, func(w shown) bool {
		return slices.Contains([]time.Month{3, 4, 10, 11}, w.mon) && w.wd == time.Sunday && w.h >= 1 && w.h <= 3 && w.m == 30
	}},
	{"0 3 1,15 * mon", quarters, false, sharp, func(w shown) bool {
		return (w.d == 1 || w.d == 15 || w.wd == time.Monday) && w.h == 3 && w.m == 0
	}},
	{"45 23 28-31 * *", quarters, false, sharp, func(w shown) bool { return w.d >= 28 && w.h == 23 && w.m == 45 }},
	{"15 13 29 2 *", quarters, false, sharp, func(w shown) bool { return w.mon == time.February && w.d == 29 && w.h == 13 && w.m == 15 }},
	{"0 12 30 * *", quarters, false, sharp, func(w shown) bool { return w.d == 30 && w.h == 12 && w.m == 0 }},
}

// A wallYear is what the wall shows at each step from a few days before the
// start on, which is enough to know what was shown before.
type wallYear struct {
	zone       string
	start, end time.Time
	step       time.Duration
	moments    []int64 // Unix seconds
	walls      []shown
	missing    map[int][]shown // what the wall jumps over before a moment
	again      []bool          // the wall has shown it before
}

func watch(t testing.TB, zone string, start, end time.Time, step time.Duration) *wallYear {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	require.NoError(t, err)
	y := &wallYear{zone: zone, start: start, end: end, step: step, missing: map[int][]shown{}}
	latest := int64(-1 << 62)
	minutes := int64(step / time.Minute)
	for at := start.AddDate(0, 0, -3); !at.After(end); at = at.Add(step) {
		w := read(at.In(loc))
		if n := len(y.walls); n > 0 {
			for m := y.walls[n-1].minute + minutes; m < w.minute; m += minutes {
				y.missing[n] = append(y.missing[n], read(time.Unix(m*60, 0).UTC()))
			}
		}
		y.moments = append(y.moments, at.Unix())
		y.walls = append(y.walls, w)
		y.again = append(y.again, w.minute <= latest)
		latest = max(latest, w.minute)
	}
	return y
}

// found is when a reference is due, in Unix seconds.
type found struct {
	first []int64 // the wall shows it, for the first time
	again []int64 // the wall shows it once more
	moved []int64 // the wall jumps over it: as long after the jump as it would have been into the gap
}

// find lists what is due in (start, end].
func (y *wallYear) find(r reference) (f found) {
	add := func(to *[]int64, at int64) {
		for _, s := range r.seconds {
			if due := at + int64(s); due > y.start.Unix() && due <= y.end.Unix() {
				*to = append(*to, due)
			}
		}
	}
	for i, at := range y.moments {
		for n, w := range y.missing[i] {
			if r.due(w) {
				add(&f.moved, at+int64(n)*int64(y.step/time.Second))
			}
		}
		switch {
		case !r.due(y.walls[i]):
		case y.again[i]:
			add(&f.again, at)
		default:
			add(&f.first, at)
		}
	}
	return f
}

// with returns what is due by a policy.
func (f found) with(dst jobs.DST, elapsed bool) []int64 {
	all := slices.Clone(f.first)
	if !elapsed && dst.Gap != jobs.GapSkip {
		all = append(all, f.moved...)
	}
	if elapsed || dst.Overlap == jobs.FoldBoth {
		all = append(all, f.again...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

var policies = []jobs.DST{
	{Gap: jobs.GapRunAfter, Overlap: jobs.FoldFirst},
	{Gap: jobs.GapSkip, Overlap: jobs.FoldBoth},
	{Gap: jobs.GapRunAfter, Overlap: jobs.FoldBoth},
	{Gap: jobs.GapSkip, Overlap: jobs.FoldFirst},
}

func (y *wallYear) compare(t *testing.T, r reference) {
	dues := y.find(r)
	for i, dst := range policies {
		if r.elapsed && i > 0 && len(dues.first) > maxBacklog {
			continue // there is no policy for it
		}
		s := mustParseJob(t, jobs.Job{Name: "report", Schedule: r.spec, TimeZone: y.zone, DST: dst})
		at := y.start
		for _, want := range dues.with(dst, r.elapsed) {
			at = s.Next(at)
			if at.Unix() != want {
				t.Fatalf("%s %s %v: want %s, got %s", r.spec, y.zone, dst, time.Unix(want, 0).In(at.Location()), at)
			}
		}
		if at = s.Next(at); !at.After(y.end) { // each of them is due again
			t.Fatalf("%s %s %v: got %s, which is not due", r.spec, y.zone, dst, at)
		}
	}
}

func newYear(year int) time.Time { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC) }

func TestAYearOfSchedulesEqualsTheReference(t *testing.T) {
	cases := []struct {
		zone string
		year int
		step time.Duration
	}{
		{"America/New_York", 2026, time.Minute},
		{"America/New_York", 2025, fives}, // at 2:30 on 8 March: not in the year after
		{"Africa/Cairo", 2026, fives},
		{"Asia/Beirut", 2026, fives},
		{"America/Havana", 2026, fives},
		{"America/Asuncion", 2024, fives},    // the last change of the clocks
		{"Australia/Lord_Howe", 2026, fives}, // by half an hour
		{"Africa/Casablanca", 2026, fives},   // back for Ramadan
		{"Europe/Dublin", 2026, fives},       // winter time is the exception
		{"America/Nuuk", 2023, fives},        // another zone in the same year
		{"Pacific/Apia", 2011, fives},        // a day that never was
	}
	if testing.Short() {
		cases = cases[2:3]
	}
	for _, c := range cases {
		t.Run(c.zone, func(t *testing.T) {
			year := watch(t, c.zone, newYear(c.year), newYear(c.year+1), c.step)
			for _, r := range references {
				if r.grid >= c.step {
					year.compare(t, r)
				}
			}
		})
	}
}
