package live

import (
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
)

// Heat is how much time requests have spent waiting, by lock and slice of time:
// two that wait for a minute have lost two.
type Heat struct {
	From  time.Time       `json:"from"`
	Slice priority.Millis `json:"slice_ms"`
	// nothing is known before, but of those who still waited then; zero: nothing at all
	Known time.Time `json:"known,omitzero"`
	Rows  []HeatRow `json:"rows"` // the most first; the last one may be all others together, without a scope
}

// A HeatRow is one lock.
type HeatRow struct {
	Scope  string            `json:"scope"`     // "" for the others
	Waited []priority.Millis `json:"waited_ms"` // in each slice
}

// Total returns the time waited in all slices.
func (r HeatRow) Total() time.Duration {
	var sum priority.Millis
	for _, d := range r.Waited {
		sum += d
	}
	return time.Duration(sum)
}

// Heat returns the time lost by waiting between two times, in columns slices: in
// slices of ten seconds for the last hour, of two minutes before that, for a day. A
// zero to is now, a zero from a day before to.
func (b *Board) Heat(from, to time.Time, columns int) Heat {
	now := b.o.Now()
	if to.IsZero() {
		to = now
	}
	if from.IsZero() {
		from = to.Add(-coarseSlice * coarseSlices)
	}
	columns = min(max(columns, 1), maxColumns)
	h := Heat{From: from.UTC(), Slice: priority.Millis(max(to.Sub(from), 0) / time.Duration(columns))}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.began.IsZero() {
		h.Known = latest(b.began, now.Add(-coarseSlice*coarseSlices)).UTC()
	}
	h.Rows = rank(b.heatRows(h, from, to, now, columns), columns)
	return h
}

// maxColumns is how many slices a Heat has at most.
const maxColumns = 1000

func (b *Board) heatRows(h Heat, from, to, now time.Time, n int) []HeatRow {
	var rows []HeatRow
	draw := func(scope string, line *warmLine, waiting map[string]*entrant) {
		c := columns{from: from, slice: time.Duration(h.Slice), sums: make([]float64, n)}
		if line != nil {
			line.into(c, to)
		}
		for _, e := range waiting {
			if !e.holds {
				if begin, end := latest(e.joined, e.waited), earliest(now, to); end.After(begin) {
					c.add(begin, end, float64(end.Sub(begin)))
				}
			}
		}
		row := HeatRow{Scope: scope, Waited: c.millis()}
		if row.Total() > 0 {
			rows = append(rows, row)
		}
	}
	for scope, k := range b.books {
		draw(scope, b.heat.scopes[scope], k.present)
	}
	for scope, line := range b.heat.scopes {
		if b.books[scope] == nil {
			draw(scope, line, nil)
		}
	}
	draw("", b.heat.rest, nil)
	return rows
}
