package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A jobRun is one run of a job, as the timeline tells it.
type jobRun struct {
	job      string
	daemon   string
	asked    time.Time // zero if it got the lock at once
	started  time.Time // zero if it never did
	cleaning time.Time // zero if it was not interrupted
	ended    time.Time
	kinds    map[kind]bool // of its steps
}

// runsOf puts the steps of each run together. Skips belong to no run.
func runsOf(steps []step, end time.Time) []*jobRun {
	var runs []*jobRun
	byID := make(map[string]*jobRun)
	for _, s := range steps {
		if s.Run == "" {
			continue
		}
		r := byID[s.Run]
		if r == nil {
			r = &jobRun{job: s.Job, daemon: s.Daemon, ended: end, kinds: make(map[kind]bool)}
			byID[s.Run] = r
			runs = append(runs, r)
		}
		r.kinds[s.Kind] = true
		switch {
		case s.Kind == waiting:
			r.asked = s.At
		case s.Kind == holding || s.Kind == running:
			r.started = s.At
		case s.Kind == cleaning:
			r.cleaning = s.At
		case s.Kind.ends():
			r.ended = s.At
		}
	}
	return runs
}

// at returns what the run did at a moment, as a character of the chart.
func (r *jobRun) at(moment time.Time) rune {
	began := func(t time.Time) bool { return !t.IsZero() && !moment.Before(t) }
	switch {
	case !moment.Before(r.ended):
		return ' '
	case began(r.cleaning):
		return '▒'
	case began(r.started):
		return '█'
	case began(r.asked):
		return '░'
	}
	return ' '
}

// chart draws one row for each job, from start to end.
func chart(runs []*jobRun, start, end time.Time, paint palette) string {
	const label, columns = 10, 80
	perColumn := end.Sub(start) / columns
	rows := make(map[string][]rune)
	for _, r := range runs {
		row := rows[r.job]
		if row == nil {
			row = []rune(strings.Repeat(" ", columns))
			rows[r.job] = row
		}
		for i := range row {
			if c := r.at(start.Add(time.Duration(i)*perColumn + perColumn/2)); c != ' ' {
				row[i] = c
			}
		}
	}

	var b strings.Builder
	fmt.Fprintf(&b, "%*s%s\n", label, "", scale(end.Sub(start), columns))
	for _, job := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(&b, "  %-*s%s\n", label-2, job, colourRow(rows[job], paint))
	}
	fmt.Fprintf(&b, "%*s%s works under the lock   %s cleans up, still under it   %s waits for it\n", label, "",
		colourRow([]rune("█"), paint), colourRow([]rune("▒"), paint), colourRow([]rune("░"), paint))
	return b.String()
}

// scale is the row above a chart.
func scale(length time.Duration, columns int) string {
	row := []rune(strings.Repeat(" ", columns+4))
	for s := 0; ; s += 5 {
		at := int(time.Duration(s) * time.Second * time.Duration(columns) / length)
		if at >= columns {
			return strings.TrimRight(string(row), " ")
		}
		copy(row[at:], []rune(fmt.Sprintf("%ds", s)))
	}
}

func colourRow(row []rune, paint palette) string {
	var b strings.Builder
	for len(row) > 0 {
		n := 1
		for n < len(row) && row[n] == row[0] {
			n++
		}
		style := map[rune]string{'█': green, '▒': magenta, '░': yellow}[row[0]]
		b.WriteString(paint.paint(style, string(row[:n])))
		row = row[n:]
	}
	return strings.TrimRight(b.String(), " ")
}
