package nightly

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	chartLabel   = 10 // columns in front of a row
	chartColumns = width - chartLabel - 2
)

// at returns what the run did at a moment, as a character of the chart.
func (r *jobRun) at(moment time.Time) rune {
	began := func(t time.Time) bool { return !t.IsZero() && !moment.Before(t) }
	switch {
	case began(r.ended), began(r.cleaned): // a release may take its time
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
func chart(runs []*jobRun, start, end time.Time, unsafe bool, paint palette) string {
	if !end.After(start) {
		end = start.Add(time.Millisecond)
	}
	perColumn := end.Sub(start) / chartColumns
	rows := make(map[string][]rune)
	for _, r := range runs {
		row := rows[r.job]
		if row == nil {
			row = []rune(strings.Repeat(" ", chartColumns))
			rows[r.job] = row
		}
		for i := range row {
			if c := r.at(start.Add(time.Duration(i)*perColumn + perColumn/2)); c != ' ' {
				row[i] = c
			}
		}
	}

	var b strings.Builder
	fmt.Fprintf(&b, "%*s%s\n", chartLabel, "", scale(start, end))
	for _, job := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(&b, "  %-*s%s\n", chartLabel-2, job, colourRow(rows[job], paint))
	}
	legend := []any{colourRow([]rune("█"), paint), colourRow([]rune("▒"), paint), colourRow([]rune("░"), paint)}
	text := "%s works under the lock   %s cleans up, still under it   %s waits for it\n"
	if unsafe {
		text, legend = "%s works   %s cleans up\n", legend[:2]
	}
	fmt.Fprintf(&b, "%*s"+text, append([]any{chartLabel, ""}, legend...)...)
	return b.String()
}

// scale is the row above a chart: a label stands at the right of its moment.
func scale(start, end time.Time) string {
	const label = len("|15:04:05")
	step := time.Second
	for _, longer := range []time.Duration{2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second} {
		if int64(step)*chartColumns < int64(end.Sub(start))*int64(label+2) {
			step = longer
		}
	}
	row := []rune(strings.Repeat(" ", chartColumns))
	for moment := start.Add(step - 1).Truncate(step); ; moment = moment.Add(step) {
		at := int(moment.Sub(start) * chartColumns / end.Sub(start))
		if at > chartColumns-label {
			return strings.TrimRight(string(row), " ")
		}
		copy(row[at:], []rune(moment.Format("|15:04:05")))
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
