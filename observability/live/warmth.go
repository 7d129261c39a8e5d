package live

import (
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
)

// How finely time lost by waiting is kept: in slices of ten seconds for an hour,
// and of two minutes for a day.
const (
	fineSlice, fineSlices     = 10 * time.Second, 360
	coarseSlice, coarseSlices = 2 * time.Minute, 720
)

// warmth is the time lost by waiting, of waits that are over.
type warmth struct {
	most   int
	scopes map[string]*warmLine
	rest   *warmLine // of those for whom there was no room
}

func newWarmth(most int) warmth {
	return warmth{most: most, scopes: map[string]*warmLine{}, rest: newWarmLine()}
}

type warmLine struct{ fine, coarse sliceRing }

func newWarmLine() *warmLine {
	return &warmLine{
		fine: sliceRing{length: fineSlice, n: fineSlices}, coarse: sliceRing{length: coarseSlice, n: coarseSlices},
	}
}

// add notes that somebody has waited for a lock.
func (w *warmth) add(scope string, from, to time.Time) {
	line := w.scopes[scope]
	if line == nil && len(w.scopes) >= w.most {
		w.expire(to)
	}
	if line == nil {
		if line = w.rest; len(w.scopes) < w.most {
			line = newWarmLine()
			w.scopes[scope] = line
		}
	}
	line.fine.add(from, to)
	line.coarse.add(from, to)
}

// expire makes room by dropping locks without recent waits.
func (w *warmth) expire(now time.Time) {
	for scope, line := range w.scopes {
		if now.Sub(line.coarse.end()) > coarseSlice*coarseSlices {
			delete(w.scopes, scope)
		}
	}
}

// A sliceRing adds up durations in slices of time.
type sliceRing struct {
	length time.Duration
	n      int64
	last   int64     // the newest slice
	until  time.Time // what is in it was before
	sums   []int64   // milliseconds
}

// end is the end of what is known.
func (r *sliceRing) end() time.Time { return r.begin(r.last + 1) }

func (r *sliceRing) add(from, to time.Time) {
	if !to.After(from) {
		return
	}
	if r.sums == nil {
		r.sums = make([]int64, r.n)
	}
	first, last := r.slot(from), r.slot(to)
	for at := max(r.last+1, last-r.n+1); at <= last; at++ {
		r.sums[at%r.n] = 0
	}
	r.last, r.until = max(r.last, last), latest(r.until, to)
	for at := max(first, r.last-r.n+1); at <= last; at++ {
		begin := r.begin(at)
		overlap := earliest(to, begin.Add(r.length)).Sub(latest(from, begin))
		r.sums[at%r.n] += overlap.Milliseconds()
	}
}

func (r *sliceRing) slot(t time.Time) int64 { return t.Unix() / int64(r.length/time.Second) }

func (r *sliceRing) begin(slot int64) time.Time {
	return time.Unix(slot*int64(r.length/time.Second), 0)
}

// spread adds what is known between two times to the columns of a picture.
func (r *sliceRing) spread(c columns, from, to time.Time) {
	if r.sums == nil || !to.After(from) {
		return
	}
	for at := max(r.slot(from), r.last-r.n+1); at <= min(r.slot(to), r.last); at++ {
		sum := time.Duration(r.sums[at%r.n]) * time.Millisecond
		if sum == 0 {
			continue
		}
		begin := r.begin(at)
		end := begin.Add(r.length)
		if at == r.last {
			end = earliest(end, r.until)
		}
		begun, ended := latest(from, begin), earliest(to, end)
		c.add(begun, ended, float64(sum)*float64(ended.Sub(begun))/float64(end.Sub(begin)))
	}
}

// columns are slices of a picture.
type columns struct {
	from  time.Time
	slice time.Duration
	sums  []float64
}

// add spreads an amount evenly over a time.
func (c columns) add(from, to time.Time, amount float64) {
	whole := to.Sub(from)
	if whole <= 0 || c.slice <= 0 {
		return
	}
	first := max(0, int(from.Sub(c.from)/c.slice))
	for i := first; i < len(c.sums); i++ {
		begin := c.from.Add(time.Duration(i) * c.slice)
		if !begin.Before(to) {
			return
		}
		if part := earliest(to, begin.Add(c.slice)).Sub(latest(from, begin)); part > 0 {
			c.sums[i] += amount * float64(part) / float64(whole)
		}
	}
}

func (c columns) millis() []priority.Millis {
	out := make([]priority.Millis, len(c.sums))
	for i, sum := range c.sums {
		out[i] = priority.Millis(sum)
	}
	return out
}

// into draws a line: the fine slices as far back as they go, before that the
// coarse ones. They meet where a coarse one begins: nothing is lost there, or counted
// twice.
func (l *warmLine) into(c columns, to time.Time) {
	known := l.fine.end().Add(-fineSlice * fineSlices)
	since := latest(c.from, known.Add(coarseSlice-1).Truncate(coarseSlice))
	if l.fine.sums == nil {
		since = to
	}
	l.coarse.spread(c, c.from, earliest(since, to))
	l.fine.spread(c, since, to)
}

// maxHeatRows is how many locks a Heat tells apart.
const maxHeatRows = 100

// rank sorts rows, the most first, and adds those up for whom there is no room.
func rank(rows []HeatRow, columns int) []HeatRow {
	slices.SortFunc(rows, func(a, b HeatRow) int {
		if d := b.Total() - a.Total(); d != 0 {
			return int(min(max(d, -1), 1))
		}
		return strings.Compare(a.Scope, b.Scope)
	})
	rest := HeatRow{Waited: make([]priority.Millis, columns)}
	kept := make([]HeatRow, 0, len(rows))
	for _, row := range rows {
		if row.Scope != "" && len(kept) < maxHeatRows {
			kept = append(kept, row)
			continue
		}
		for i, d := range row.Waited {
			rest.Waited[i] += d
		}
	}
	if rest.Total() > 0 {
		kept = append(kept, rest)
	}
	return kept
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
