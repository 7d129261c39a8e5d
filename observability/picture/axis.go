package picture

import "time"

// An axis maps times to places.
type axis struct {
	from, to    time.Time
	left, width float64
}

// newAxis makes one that is never empty.
func newAxis(from, to time.Time, left, width float64) axis {
	if !to.After(from) {
		to = from.Add(time.Second)
	}
	return axis{from: from, to: to, left: left, width: width}
}

// at returns the place of a time; what is outside is at the edge.
func (a axis) at(t time.Time) float64 {
	switch {
	case !t.After(a.from):
		return a.left
	case !t.Before(a.to):
		return a.left + a.width
	}
	return a.left + a.width*float64(t.Sub(a.from))/float64(a.to.Sub(a.from))
}

// A tick is a time that is written at the axis.
type tick struct {
	at    time.Time
	label string
	day   bool // the label is a date
}

var steps = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// ticks returns round times, at least gap apart.
func (a axis) ticks(gap float64) []tick {
	whole := a.to.Sub(a.from)
	fits := func(step time.Duration) bool { return float64(step)/float64(whole)*a.width >= gap }
	step := steps[len(steps)-1]
	for _, s := range steps {
		if fits(s) {
			step = s
			break
		}
	}
	for !fits(step) && step <= whole/2 {
		step *= 2
	}
	layout := "15:04"
	switch {
	case step >= 24*time.Hour:
		layout = "Jan 2"
	case step < time.Second:
		layout = "15:04:05.000"
	case step < time.Minute:
		layout = "15:04:05"
	}
	var ticks []tick
	day := a.from.UTC().YearDay()
	for t := a.from.UTC().Truncate(step); !t.After(a.to); t = t.Add(step) {
		if t.Before(a.from) {
			continue
		}
		n := tick{at: t, label: t.Format(layout)}
		if t.YearDay() != day && step < 24*time.Hour {
			n.label, n.day = t.Format("Jan 2"), true
			day = t.YearDay()
		}
		ticks = append(ticks, n)
	}
	return ticks
}
