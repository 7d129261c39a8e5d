package picture

import (
	"cmp"
	"slices"
)

// A part of a graph hangs together. It is laid out in layers: who waits stands
// below whom it waits for.
type part struct {
	nodes         []*vertex // knots too, once it is laid out
	edges         []*wire
	layers        [][]*vertex
	x, y          float64 // where it is in the picture
	width, height float64
}

// A vertex is a request in its place, or a knot: where an edge passes a layer.
type vertex struct {
	spot
	knot     bool
	layer    int
	x, y     float64 // its middle and its top
	up, down []*vertex

	state int // of the search for circles
}

// A wire is an edge with the way that it takes.
type wire struct {
	link
	way                []*vertex // from who waits to whom it waits for
	back               bool      // it leads down: it closes a circle
	shiftFrom, shiftTo float64   // so that several at a node do not end in one point
}

// direction is that of the arrow: -1 is up.
func (w *wire) direction() float64 {
	if w.back {
		return 1
	}
	return -1
}

// side returns the lower end of a box if the wire goes down, else the upper.
func (w *wire) side(height float64) float64 {
	if w.back {
		return height
	}
	return 0
}

func (p *part) layOut() {
	p.findBack()
	p.stack()
	p.thread()
	p.order()
	p.place()
	p.fan()
}

// findBack marks the edges that close circles: all others lead up.
func (p *part) findBack() {
	out := map[*vertex][]*wire{}
	for _, e := range p.edges {
		out[e.way[0]] = append(out[e.way[0]], e)
	}
	const open, done = 1, 2
	var visit func(n *vertex)
	visit = func(n *vertex) {
		n.state = open
		for _, e := range out[n] {
			switch to := e.way[1]; to.state {
			case open:
				e.back = true
			case done:
			default:
				visit(to)
			}
		}
		n.state = done
	}
	// Vertices that no request waits for come first: then only edges that close
	// a circle point back.
	awaited := map[*vertex]bool{}
	for _, e := range p.edges {
		awaited[e.way[1]] = true
	}
	for _, first := range []bool{true, false} {
		for _, n := range p.nodes {
			if n.state == 0 && awaited[n] != first {
				visit(n)
			}
		}
	}
}

// ends returns who is above and who below.
func (w *wire) ends() (upper, lower *vertex) {
	first, last := w.way[0], w.way[len(w.way)-1]
	if w.back {
		return first, last
	}
	return last, first
}

// stack gives each node its layer: below all that it waits for.
func (p *part) stack() {
	above := map[*vertex][]*vertex{}
	for _, e := range p.edges {
		upper, lower := e.ends()
		above[lower] = append(above[lower], upper)
	}
	known := map[*vertex]bool{}
	var depth func(n *vertex) int
	depth = func(n *vertex) int {
		if !known[n] {
			known[n] = true
			for _, u := range above[n] {
				n.layer = max(n.layer, depth(u)+1)
			}
		}
		return n.layer
	}
	for _, n := range p.nodes {
		depth(n)
	}
}

// thread puts knots where edges pass layers.
func (p *part) thread() {
	for _, e := range p.edges {
		upper, lower := e.ends()
		chain := []*vertex{upper}
		for at := upper.layer + 1; at < lower.layer; at++ {
			k := &vertex{knot: true, layer: at}
			p.nodes = append(p.nodes, k)
			chain = append(chain, k)
		}
		chain = append(chain, lower)
		for i := range len(chain) - 1 {
			chain[i].down = append(chain[i].down, chain[i+1])
			chain[i+1].up = append(chain[i+1].up, chain[i])
		}
		if !e.back {
			slices.Reverse(chain)
		}
		e.way = chain
	}
	for _, n := range p.nodes {
		for len(p.layers) <= n.layer {
			p.layers = append(p.layers, nil)
		}
		p.layers[n.layer] = append(p.layers[n.layer], n)
	}
}

// order sorts each layer by where its neighbours are, so that few edges cross.
func (p *part) order() {
	spot := map[*vertex]int{}
	count := func() {
		for _, layer := range p.layers {
			for i, n := range layer {
				spot[n] = i
			}
		}
	}
	count()
	sort := func(layer []*vertex, near func(n *vertex) []*vertex) {
		middle := map[*vertex]float64{}
		for _, n := range layer {
			middle[n] = float64(spot[n])
			if all := near(n); len(all) > 0 {
				sum := 0.0
				for _, o := range all {
					sum += float64(spot[o])
				}
				middle[n] = sum / float64(len(all))
			}
		}
		slices.SortStableFunc(layer, func(a, b *vertex) int { return cmp.Compare(middle[a], middle[b]) })
		count()
	}
	for range 6 {
		for _, layer := range p.layers[1:] {
			sort(layer, func(n *vertex) []*vertex { return n.up })
		}
		for _, layer := range slices.Backward(p.layers[:len(p.layers)-1]) {
			sort(layer, func(n *vertex) []*vertex { return n.down })
		}
	}
}

func (n *vertex) wide() float64 {
	if n.knot {
		return knotWidth
	}
	return nodeWidth
}

// place gives everything its coordinates: near its neighbours, and apart.
func (p *part) place() {
	for i, layer := range p.layers {
		x := 0.0
		for _, n := range layer {
			n.x, n.y = x+n.wide()/2, float64(i)*(nodeHeight+layerGap)
			x += n.wide() + nodeGap
		}
	}
	for range 12 {
		for _, layer := range p.layers {
			settle(layer, func(n *vertex) []*vertex { return n.up })
		}
		for _, layer := range slices.Backward(p.layers) {
			settle(layer, func(n *vertex) []*vertex { return n.down })
		}
	}
	left, right := p.nodes[0].x, p.nodes[0].x
	for _, n := range p.nodes {
		left, right = min(left, n.x-n.wide()/2), max(right, n.x+n.wide()/2)
	}
	for _, n := range p.nodes {
		n.x -= left
	}
	p.width = right - left
	p.height = float64(len(p.layers))*(nodeHeight+layerGap) - layerGap
}

// settle moves the nodes of a layer to the middle of their neighbours, as far as
// they stay in order and apart: it is the mean of what they want from the left
// and from the right.
func settle(layer []*vertex, near func(n *vertex) []*vertex) {
	want := make([]float64, len(layer))
	for i, n := range layer {
		want[i] = n.x
		if all := near(n); len(all) > 0 {
			sum := 0.0
			for _, o := range all {
				sum += o.x
			}
			want[i] = sum / float64(len(all))
		}
	}
	gap := func(i int) float64 { return (layer[i].wide()+layer[i-1].wide())/2 + nodeGap }
	right, left := slices.Clone(want), slices.Clone(want)
	for i := 1; i < len(layer); i++ {
		right[i] = max(right[i], right[i-1]+gap(i))
	}
	for i := len(layer) - 1; i > 0; i-- {
		left[i-1] = min(left[i-1], left[i]-gap(i))
	}
	for i, n := range layer {
		n.x = (left[i] + right[i]) / 2
	}
}

// fan spreads the ends of edges along the sides of their nodes.
func (p *part) fan() {
	type port struct {
		n    *vertex
		down bool
	}
	type end struct {
		w     *wire
		first bool
		other float64
	}
	ports := map[port][]end{}
	for _, e := range p.edges {
		last := len(e.way) - 1
		from, to := port{e.way[0], e.back}, port{e.way[last], !e.back}
		ports[from] = append(ports[from], end{e, true, e.way[1].x})
		ports[to] = append(ports[to], end{e, false, e.way[last-1].x})
	}
	for _, ends := range ports {
		slices.SortStableFunc(ends, func(a, b end) int { return cmp.Compare(a.other, b.other) })
		step := min(24, (nodeWidth-30)/float64(len(ends)))
		for i, e := range ends {
			shift := step * (float64(i) - float64(len(ends)-1)/2)
			if e.first {
				e.w.shiftFrom = shift
			} else {
				e.w.shiftTo = shift
			}
		}
	}
}
