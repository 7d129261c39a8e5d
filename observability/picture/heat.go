package picture

import (
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/observability/lettering"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/priority"
)

// HeatSVG draws how much time was lost by waiting: a row for each lock, a column
// for each slice of time, the darker (in the dark: the lighter) the more. Links
// are those of scopes.
func HeatSVG(w io.Writer, h live.Heat, o Options) error {
	m := newHeatMap(h, o)
	m.draw()
	return m.flush(w)
}

const (
	heatLevels  = 6
	heatRows    = 40
	heatColumns = 96 // more slices than that are added up
	heatHeight  = 22.0
)

// A heatMap is one while it is drawn.
type heatMap struct {
	*canvas
	axis
	o     Options
	from  time.Time
	known time.Time // not watched before
	slice time.Duration
	rows  []live.HeatRow
	more  int // rows that are left out

	columns     int
	bounds      [heatLevels]time.Duration // the most of each level
	labels      float64
	top, bottom float64
	legendAt    float64
}

func newHeatMap(h live.Heat, o Options) *heatMap {
	m := &heatMap{o: o, from: h.From, known: h.Known, slice: max(time.Duration(h.Slice), time.Millisecond)}
	for _, r := range h.Rows {
		if r.Total() > 0 {
			m.rows = append(m.rows, r)
		}
		m.columns = max(m.columns, len(r.Waited))
	}
	if limit := o.rows(heatRows); len(m.rows) > limit {
		m.more = len(m.rows) - limit
		m.rows = m.rows[:limit]
	}
	m.columns = max(m.columns, 1)
	m.merge()
	m.grade()

	width := o.width()
	totals := textWidth("in all", 11)
	for _, r := range m.rows {
		m.labels = max(m.labels, textWidth(heatName(r), 12.5))
		totals = max(totals, textWidth(span(r.Total()), 11))
	}
	m.labels = min(max(m.labels, 40), width*0.3)
	left := margin + m.labels + 12
	to := m.from.Add(m.slice * time.Duration(m.columns))
	m.axis = newAxis(m.from, to, left, width-left-margin-totals-12)
	m.top = 56 + o.heading()
	m.bottom = m.top + heatHeight*float64(max(len(m.rows), 1))
	m.legendAt = m.bottom + 22
	if m.more > 0 {
		m.legendAt += noteHeight
	}
	m.canvas = newCanvas(o, width, m.legendAt+legendHeight(m.legend(), width)+4, "heat", "Time lost by waiting, by lock",
		m.description(to))
	return m
}

// merge adds neighbouring slices up until there are not too many.
func (m *heatMap) merge() {
	n := (m.columns + heatColumns - 1) / heatColumns
	if n == 1 {
		return
	}
	rows := slices.Clone(m.rows)
	for i, r := range rows {
		sums := make([]priority.Millis, (len(r.Waited)+n-1)/n)
		for j, d := range r.Waited {
			sums[j/n] += d
		}
		rows[i].Waited = sums
	}
	m.rows = rows
	m.columns = (m.columns + n - 1) / n
	m.slice *= time.Duration(n)
}

// grade finds the bounds of the levels: each is three times that below it, so
// that a little can be seen beside a lot.
func (m *heatMap) grade() {
	var most time.Duration
	for _, r := range m.rows {
		most = max(most, time.Duration(slices.Max(append([]priority.Millis{0}, r.Waited...))))
	}
	for i := heatLevels - 1; i >= 0; i-- {
		m.bounds[i] = most
		most /= 3
	}
}

// level is that of a time waited, from 1.
func (m *heatMap) level(d time.Duration) int {
	for i, bound := range m.bounds {
		if d <= bound {
			return i + 1
		}
	}
	return heatLevels
}

func heatName(r live.HeatRow) string {
	if r.Scope == "" {
		return "all others"
	}
	return lettering.Line(r.Scope)
}

func (m *heatMap) all() (sum time.Duration) {
	for _, r := range m.rows {
		sum += r.Total()
	}
	return sum
}

func (m *heatMap) description(to time.Time) string {
	var text strings.Builder
	if m.known.After(m.from) {
		text.WriteString("Not watched before " + clock(m.known) + " UTC. ")
	}
	text.WriteString(period(m.from, to) + ": requests for " + words.CountOf(len(m.rows), "lock", "locks") +
		" have waited for " + span(m.all()) + " in all.")
	for _, r := range m.rows[:min(len(m.rows), 10)] {
		text.WriteString("\n" + heatName(r) + ": " + span(r.Total()) + ".")
	}
	return text.String()
}

func (m *heatMap) draw() {
	width := m.o.width()
	m.headed(m.o, "Time lost by waiting",
		period(m.from, m.to)+"  ·  "+span(m.all())+" in all; a cell is "+span(m.slice), width)
	if len(m.rows) == 0 {
		m.text("text", "No waits in this time.", "class", "lk-muted", "x", margin, "y", m.top+heatHeight*0.65)
		return
	}
	for _, t := range m.ticks(86) {
		x := m.at(t.at)
		m.empty("path", "class", "lk-line", "d", new(path).to("M", x, m.top-5).to("V", m.top).String())
		half := textWidth(t.label, 11) / 2
		m.text("text", t.label, "class", "lk-muted lk-small lk-middle",
			"x", min(max(x, m.left+half-2), m.left+m.width-half), "y", m.top-9)
	}
	m.text("text", "in all", "class", "lk-muted lk-small lk-right", "x", width-margin, "y", m.top-9)
	if m.blank() {
		m.patterns()
	}
	for i, r := range m.rows {
		m.row(m.top+heatHeight*float64(i), r)
	}
	if m.more > 0 {
		m.text("text", "and "+words.CountOf(m.more, "more lock", "more locks"), "class", "lk-muted", "x", margin,
			"y", m.bottom+noteHeight)
	}
	m.drawLegend(m.legend(), m.legendAt, width)
}

func (m *heatMap) row(y float64, r live.HeatRow) {
	m.link(m.o, r.Scope, "lk-row")
	m.text("title", heatName(r))
	m.text("text", fitMiddle(heatName(r), 12.5, m.labels), "class", "lk-text", "x", margin, "y", y+15)
	m.empty("rect", "class", "lk-band", "x", m.left, "y", y+1, "width", m.width, "height", heatHeight-2)
	if m.blank() {
		m.titled("not watched before "+clock(m.known)+" UTC", "rect",
			"fill", "url(#"+m.id+"u)", "x", m.left, "y", y+1, "width", min(m.at(m.known)-m.left, m.width),
			"height", heatHeight-2)
	}
	wide := m.width / float64(m.columns)
	for i, waited := range r.Waited {
		d := time.Duration(waited)
		if d <= 0 {
			continue
		}
		begin := m.from.Add(time.Duration(i) * m.slice)
		x, level := m.left+wide*float64(i), m.level(d)
		form := new(path).to("M", x, y+1).to("h", max(wide-1, 1)).to("v", heatHeight-2).to("h", -max(wide-1, 1)).
			to("z").String()
		m.titled(heatName(r)+"\n"+clock(begin)+" UTC, "+span(m.slice)+": "+span(d)+" waited", "path",
			"class", "lk-heat-"+strconv.Itoa(level), "d", form)
		// What is said by colour is said in words where there is room.
		if text := span(d); textWidth(text, 10)+3 < wide {
			m.text("text", text, "class", "lk-on-heat-"+strconv.Itoa(level)+" lk-number", "x", x+wide/2, "y", y+14.5)
		}
	}
	m.text("text", span(r.Total()), "class", "lk-muted lk-small lk-right", "x", m.o.width()-margin, "y", y+15)
	m.end()
}

// blank reports whether there is a time of which nothing is known, but of those who
// still waited at its end.
func (m *heatMap) blank() bool { return m.known.After(m.from) && m.at(m.known)-m.left >= 2 }

func (m *heatMap) legend() []entry {
	if len(m.rows) == 0 {
		return nil
	}
	box := func(class string) func(c *canvas, x, y float64) {
		return func(c *canvas, x, y float64) {
			c.empty("rect", "class", class, "x", x, "y", y-7, "width", signWidth, "height", 14)
		}
	}
	entries := []entry{{box("lk-band"), "no waits"}}
	if m.blank() {
		entries = append(entries, entry{func(c *canvas, x, y float64) {
			c.empty("rect", "fill", "url(#"+c.id+"u)", "x", x, "y", y-7, "width", signWidth, "height", 14)
		}, "not watched"})
	}
	for i, bound := range m.bounds {
		if i > 0 && span(bound) == span(m.bounds[i-1]) {
			continue
		}
		entries = append(entries, entry{box("lk-heat-" + strconv.Itoa(i+1)), "to " + span(bound)})
	}
	return entries
}
