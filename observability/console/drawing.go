package console

import (
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/picture"
)

// timelinePicture draws what happened to a lock.
func (v *visit) timelinePicture(t live.Timeline) (template.HTML, error) {
	return drawings(picture.Options{Now: v.now, Rows: timelineRows}, func(w io.Writer, o picture.Options) error {
		return picture.TimelineSVG(w, t, o)
	})
}

// graphPicture draws who waits for whom. A request leads to its lock.
func (v *visit) graphPicture(g live.Graph) (template.HTML, error) {
	scopes := make(map[string]string, len(g.Nodes))
	for _, n := range g.Nodes {
		scopes[n.ID] = n.Scope
	}
	o := picture.Options{Links: func(id string) string { return scopePath(scopes[id]) }}
	return drawings(o, func(w io.Writer, o picture.Options) error { return picture.GraphSVG(w, g, o) })
}

// heatPicture draws where time is lost. A row leads to its lock.
func (v *visit) heatPicture(h live.Heat) (template.HTML, error) {
	o := picture.Options{Links: func(scope string) string {
		if scope == "" {
			return ""
		}
		return scopePath(scope)
	}}
	return drawings(o, func(w io.Writer, o picture.Options) error { return picture.HeatSVG(w, h, o) })
}

const (
	wideWidth    = 1180 // the pages' own
	narrowWidth  = 336  // what a telephone has room for
	timelineRows = 60
)

// drawings are a picture as a part of a page, for wide and for narrow windows: the
// stylesheet shows the one that fits. The page has the heading. Package picture
// escapes what strangers have written.
func drawings(o picture.Options, draw func(w io.Writer, o picture.Options) error) (template.HTML, error) {
	var b strings.Builder
	o.Untitled = true
	for _, d := range []struct {
		class string
		width int
	}{{"wide", wideWidth}, {"narrow", narrowWidth}} {
		o.Variant, o.Width = d.class, d.width
		b.WriteString(`<div class="` + d.class + `">`)
		if err := draw(&b, o); err != nil {
			return "", err
		}
		b.WriteString("</div>\n")
	}
	return template.HTML(b.String()), nil
}

// waitsModel is who waits for whom.
type waitsModel struct {
	Picture  template.HTML
	Circles  []circle
	Blockers []blocker
	Edges    []edgeRow
	More     int // edges that are not listed
	Hidden   int // requests that are not drawn
	Waiters  int
}

type edgeRow struct {
	From, To live.GraphNode
	Why      string
	Deadlock bool
}

func drawWaits(v *visit) (any, error) {
	g := v.snap.Waits
	m := &waitsModel{Circles: circlesOf(g), Hidden: g.Hidden, Waiters: v.snap.Totals.Waiters}
	m.Blockers, _ = v.blockers()
	const many, few = 200, 20
	m.Blockers = m.Blockers[:min(few, len(m.Blockers))]
	nodes := map[string]live.GraphNode{}
	for _, n := range g.Nodes {
		nodes[n.ID] = n
	}
	for _, e := range g.Edges {
		if len(m.Edges) == many {
			m.More++
			continue
		}
		m.Edges = append(m.Edges, edgeRow{nodes[e.From], nodes[e.To], waitWords[string(e.Why)], e.Deadlock})
	}
	var err error
	m.Picture, err = v.graphPicture(g)
	return m, err
}

// waitWords say why one request waits for another.
var waitWords = map[string]string{
	"held": "holds the lock", "ahead": "is before it in the queue", "under": "its own work waits here",
}

// heatModel is where time is lost.
type heatModel struct {
	Picture template.HTML
	Range   string
	Ranges  []option
	Rows    []heatRow
	Total   string
	Slice   string
	Since   template.HTML // nothing is known before; "" when that does not matter
}

type heatRow struct {
	Scope, Path string
	Total       string
	Percent     int
	Worst       string        // in one slice
	WorstAt     template.HTML // which
}

// heatColumns is how many slices a heat map has.
const heatColumns = 60

func drawHeat(v *visit) (any, error) {
	back, name, options := v.timeRange()
	m := &heatModel{Range: name, Ranges: options}
	// Whole slices: the map stands still while one fills up.
	slice := back / heatColumns
	to := v.now.Truncate(slice).Add(slice)
	h := v.c.o.Board.Heat(to.Add(-back), to, heatColumns)
	if h.Known.After(h.From) {
		m.Since = v.Ago(h.Known)
	}
	var all time.Duration
	for _, r := range h.Rows {
		all += r.Total()
	}
	m.Total, m.Slice = human(all), human(time.Duration(h.Slice))
	for _, r := range h.Rows {
		total := r.Total()
		if total <= 0 {
			continue
		}
		row := heatRow{Scope: r.Scope, Total: human(total), Percent: int(100 * total / max(1, all))}
		if r.Scope != "" {
			row.Path = scopePath(r.Scope)
		}
		worst := 0
		for i, d := range r.Waited {
			if d > r.Waited[worst] {
				worst = i
			}
		}
		row.Worst, row.WorstAt = human(time.Duration(r.Waited[worst])),
			v.Clock(h.From.Add(time.Duration(worst)*time.Duration(h.Slice)))
		m.Rows = append(m.Rows, row)
	}
	var err error
	m.Picture, err = v.heatPicture(h)
	return m, err
}
