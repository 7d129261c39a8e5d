package picture

import (
	"io"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/observability/lettering"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes/inspect"
)

// GraphSVG draws who waits for whom: those that the others wait for on top, the
// end of each queue at the bottom. An arrow leads to who is waited for; what
// follows from two others is left out. Those who wait for each other in a circle
// are marked by colour, by thick broken lines, by a sign and in words. Links are
// those of requests.
//
// It is as wide as it has to be: at most Options.Width, unless requests for many
// locks are connected with each other.
func GraphSVG(w io.Writer, g live.Graph, o Options) error {
	d := newDiagram(g, o)
	d.draw()
	return d.flush(w)
}

// Measures of a graph, in pixels.
const (
	usualNodes = 60
	nodeWidth  = 172.0
	nodeHeight = 42.0
	layerGap   = 40.0
	nodeGap    = 18.0
	knotWidth  = 10.0 // of an edge where it passes a layer
	partGap    = 34.0 // between parts that have nothing to do with each other
)

// A diagram is a graph while it is drawn.
type diagram struct {
	*canvas
	o       Options
	whole   live.Graph
	drawn   sketch
	parts   []*part
	circles []string // in words
	width   float64
	height  float64
	base    float64 // where the notes begin
}

func newDiagram(g live.Graph, o Options) *diagram {
	d := &diagram{o: o, whole: g, drawn: condense(g, o.rows(usualNodes))}
	d.circles = d.words()
	d.parts = d.drawn.parts()
	right, y := 0.0, 46+o.heading()
	x, high := margin, 0.0
	for _, p := range d.parts { // on shelves
		p.layOut()
		if x > margin && x+p.width > o.width()-margin {
			x, y, high = margin, y+high+partGap, 0
		}
		p.x, p.y = x, y
		x += p.width + partGap
		high = max(high, p.height)
		right = max(right, p.x+p.width)
	}
	d.width = max(right+margin, min(o.width(), 560))
	d.base = y + high + 20
	if len(d.parts) == 0 {
		d.base = y + 30
	}
	lines := 0
	for _, text := range d.circles {
		lines += len(wrap(text, 11, d.width-2*margin-24))
	}
	if d.rest() != "" {
		lines++
	}
	d.height = d.base + float64(lines)*noteHeight + 10 + legendHeight(d.legend(), d.width) + 4
	d.canvas = newCanvas(o, d.width, d.height, "graph", "Who waits for whom", d.description())
	return d
}

// words are the circles, in the order in which each waits for the next.
func (d *diagram) words() []string {
	nodes := map[string]live.GraphNode{}
	for _, n := range d.whole.Nodes {
		nodes[n.ID] = n
	}
	deadly := map[string]bool{}
	for _, e := range d.whole.Edges {
		if e.Deadlock {
			deadly[e.From] = true
		}
	}
	who := d.whole.Parties()
	var all []string
	for i, c := range d.whole.Circles {
		if i == manyNotes {
			all = append(all, "and "+words.CountOf(len(d.whole.Circles)-i, "more cycle", "more cycles"))
			break
		}
		text := "Cycle, which a priority ends: "
		if slices.ContainsFunc(c, func(id string) bool { return deadly[id] }) {
			text = "Deadlock: "
		}
		var names []string
		for _, party := range who[i] { // what they do, and who they are
			var does []string
			for _, id := range party {
				does = append(does, doing(nodes[id]))
			}
			names = append(names, nodeName(nodes[party[0]])+" "+strings.Join(does, " and "))
		}
		if len(names) > 8 {
			names = append(names[:8], "…")
		}
		if len(names) > 0 {
			all = append(all, text+strings.Join(append(names, "the first"), " → "))
		}
	}
	return all
}

func nodeName(n live.GraphNode) string {
	if n.Owner != "" { // the scope, which is in the label, too, stands below
		return lettering.Line(n.Owner)
	}
	return lettering.Line(n.Label)
}

// doing says what a request does: holds shop/orders.
func doing(n live.GraphNode) string {
	if holds(n) {
		return "holds " + lettering.Line(n.Scope)
	}
	return "waits for " + lettering.Line(n.Scope)
}

func holds(n live.GraphNode) bool { return n.State == "holds" }

// rest says how many requests are not drawn.
func (d *diagram) rest() string {
	n := d.drawn.left + d.whole.Hidden
	if n == 0 {
		return ""
	}
	return "and " + words.CountOf(n, "more request that is", "more requests that are") + " not drawn"
}

func (d *diagram) summary() string {
	waiting := 0
	for _, n := range d.whole.Nodes {
		if !holds(n) {
			waiting++
		}
	}
	text := words.CountOf(waiting+d.whole.Hidden, "request waits", "requests wait")
	if n := len(d.whole.Circles); n > 0 {
		text += "; " + words.CountOf(n, "cycle", "cycles") + " of requests that wait for each other"
	}
	return text
}

func (d *diagram) description() string {
	lines := append([]string{d.summary() + "."}, d.circles...)
	for _, e := range d.drawn.edges[:min(len(d.drawn.edges), 30)] {
		from, to := d.drawn.nodes[e.from], d.drawn.nodes[e.to]
		lines = append(lines, from.title()+" waits for "+to.title()+".")
	}
	return strings.Join(lines, "\n")
}

func (d *diagram) draw() {
	d.headed(d.o, "Who waits for whom", d.summary(), d.width)
	if len(d.parts) == 0 {
		d.text("text", "No request waits for another.", "class", "lk-muted", "x", margin, "y", 56+d.o.heading())
	}
	for _, p := range d.parts {
		for _, e := range p.edges {
			d.edge(p, e)
		}
		for _, n := range p.nodes {
			if !n.knot {
				d.node(p, n)
			}
		}
	}
	y := d.base
	for _, text := range d.circles {
		d.sign(margin+8, y+7)
		for _, line := range wrap(text, 11, d.width-2*margin-24) {
			d.text("text", line, "class", "lk-text lk-small", "x", margin+24, "y", y+11)
			y += noteHeight
		}
	}
	if text := d.rest(); text != "" {
		d.text("text", text, "class", "lk-muted", "x", margin, "y", y+11)
		y += noteHeight
	}
	d.drawLegend(d.legend(), y+16, d.width)
}

// sign is a triangle with an exclamation mark.
func (c *canvas) sign(x, y float64) {
	c.empty("path", "class", "lk-alarm-fill", "d", polygon(x, y-8, x+9, y+7, x-9, y+7))
	c.text("text", "!", "class", "lk-on-alarm lk-number", "x", x, "y", y+5.5)
}

// node draws a request, or those of a queue that are not drawn one by one.
func (d *diagram) node(p *part, n *vertex) {
	x, y := p.x+n.x-nodeWidth/2, p.y+n.y
	if n.more > 0 {
		d.begin("g", "class", "lk-row")
	} else {
		d.link(d.o, n.ID, "lk-row")
	}
	d.text("title", n.title())
	class := "lk-node-waits"
	if holds(n.GraphNode) {
		class = "lk-node-holds"
	}
	if n.alarm {
		class = "lk-alarm lk-node-alarm"
	}
	d.empty("rect", "class", "lk-back", "x", x, "y", y, "width", nodeWidth, "height", nodeHeight, "rx", 6)
	d.empty("rect", "class", class, "fill", "none", "x", x, "y", y, "width", nodeWidth, "height", nodeHeight, "rx", 6)
	name, room := nodeName(n.GraphNode), nodeWidth-20
	if n.more > 0 {
		name = "and " + words.CountOf(n.more, "more", "more")
	}
	does := "waits for "
	if holds(n.GraphNode) {
		does = "holds "
	}
	if n.alarm {
		room -= 20
		d.sign(x+nodeWidth-15, y+14)
	}
	d.text("text", fitMiddle(name, 13, room), "class", "lk-text lk-owner", "x", x+10, "y", y+18)
	d.text("text", does+fitMiddle(n.Scope, 11, nodeWidth-20-textWidth(does, 11)), "class", "lk-muted lk-small",
		"x", x+10, "y", y+34)
	d.end()
}

// edge draws an arrow along the places where it passes layers.
func (d *diagram) edge(p *part, e *wire) {
	class, fill := "lk-edge", "lk-edge-fill"
	if e.why == inspect.WaitUnder {
		class = "lk-edge lk-under"
	}
	if e.alarm {
		class, fill = "lk-alarm", "lk-alarm-fill"
	}
	const head = 9.0
	var line path
	last := len(e.way) - 1
	for i, n := range e.way {
		x, y := p.x+n.x, p.y+n.y
		switch i {
		case 0:
			x += e.shiftFrom
			line.to("M", x, y+e.side(nodeHeight))
		case last:
			x += e.shiftTo
			end := y + nodeHeight - e.side(nodeHeight)
			d.curve(&line, p, e, i, x, end-e.direction()*head)
			line.to("V", end-e.direction()*head*0.6)
			d.titled(d.edgeWords(e), "path", "class", class, "d", line.String())
			d.empty("path", "class", fill, "d", polygon(x-4.5, end-e.direction()*head, x+4.5, end-e.direction()*head, x, end))
		default:
			begin, end := y, y+nodeHeight
			if e.direction() < 0 {
				begin, end = end, begin
			}
			d.curve(&line, p, e, i, x, begin)
			line.to("V", end)
		}
	}
}

// curve leads from the layer before to this place.
func (d *diagram) curve(line *path, p *part, e *wire, i int, x, y float64) {
	before := e.way[i-1]
	x0, y0 := p.x+before.x, p.y+before.y+e.side(nodeHeight)
	if i == 1 {
		x0 += e.shiftFrom
	}
	middle := (y0 + y) / 2
	line.to("C", x0, middle, x, middle, x, y)
}

func (d *diagram) edgeWords(e *wire) string {
	from, to := e.way[0], e.way[len(e.way)-1]
	switch e.why {
	case inspect.WaitUnder:
		return from.title() + "\nand the same work waits with\n" + to.title()
	case inspect.WaitAhead:
		return from.title() + "\nstands in line behind\n" + to.title()
	case inspect.WaitHeld:
	}
	return from.title() + "\nwaits for\n" + to.title()
}

func (d *diagram) legend() []entry {
	if len(d.parts) == 0 {
		return nil
	}
	box := func(class string) func(c *canvas, x, y float64) {
		return func(c *canvas, x, y float64) {
			c.empty("rect", "class", class, "fill", "none", "x", x, "y", y-7, "width", signWidth, "height", 14, "rx", 4)
		}
	}
	line := func(class, fill string) func(c *canvas, x, y float64) {
		return func(c *canvas, x, y float64) {
			c.empty("path", "class", class, "d", new(path).to("M", x, y).to("H", x+16).String())
			c.empty("path", "class", fill, "d", polygon(x+15, y-4.5, x+15, y+4.5, x+24, y))
		}
	}
	entries := []entry{
		{box("lk-node-holds"), "holds"}, {box("lk-node-waits"), "waits"}, {line("lk-edge", "lk-edge-fill"), "waits for"},
	}
	under, alarm := false, false
	for _, e := range d.drawn.edges {
		under = under || e.why == inspect.WaitUnder && !e.alarm
		alarm = alarm || e.alarm
	}
	if under {
		entries = append(entries,
			entry{line("lk-edge lk-under", "lk-edge-fill"), "holds this, and its work waits with that"})
	}
	if alarm {
		entries = append(entries, entry{line("lk-alarm", "lk-alarm-fill"), "wait for each other"})
	}
	return entries
}
