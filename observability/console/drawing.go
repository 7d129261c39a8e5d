package console

import (
	"html/template"
	"time"

	"github.com/lockkeeper/lockkeeper/observability/live"
)

// circleOf and the like: pictures come from package picture.
func (v *visit) timelinePicture(live.Timeline) (template.HTML, error) { return "", nil }
func (v *visit) graphPicture(live.Graph) (template.HTML, error)       { return "", nil }
func (v *visit) heatPicture(live.Heat) (template.HTML, error)         { return "", nil }

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
var waitWords = map[string]string{"held": "holds the lock", "ahead": "is before it in line", "under": "is what its own work waits for"}

// heatModel is where time is lost.
type heatModel struct {
	Picture template.HTML
	Range   string
	Ranges  []option
	Rows    []heatRow
	Total   string
	Slice   string
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
	var all time.Duration
	for _, r := range h.Rows {
		all += r.Total()
	}
	m.Total, m.Slice = human(all), human(h.Slice)
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
		row.Worst, row.WorstAt = human(r.Waited[worst]), v.Clock(h.From.Add(time.Duration(worst)*h.Slice))
		m.Rows = append(m.Rows, row)
	}
	var err error
	m.Picture, err = v.heatPicture(h)
	return m, err
}
