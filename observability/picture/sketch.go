package picture

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/observability/lettering"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes/inspect"
)

// A sketch is what is drawn of a graph: bounded, and without what follows from
// the rest.
type sketch struct {
	nodes []spot
	edges []link
	left  int // requests that are not drawn
}

// A spot is a request, or several of one queue.
type spot struct {
	live.GraphNode
	more  int  // how many; 0: it is one request
	alarm bool // it is in a circle
}

func (s spot) title() string {
	if s.more > 0 {
		return words.CountOf(s.more, "more request", "more requests") + " for " + lettering.Line(s.Scope)
	}
	return nodeName(s.GraphNode) + ", which " + doing(s.GraphNode)
}

// A link says that from waits for to; both are indexes.
type link struct {
	from, to int
	why      inspect.WaitReason
	alarm    bool
}

const (
	manyOfQueue   = 4 // waiters of a lock that are drawn one by one, unless there is more to say of them
	manyOfHolders = 4
)

// condense chooses what is drawn.
func condense(g live.Graph, limit int) sketch {
	circle := map[string]bool{}
	between := map[[2]string]bool{}
	for _, c := range g.Circles {
		for i, id := range c {
			circle[id] = true
			between[[2]string{id, c[(i+1)%len(c)]}] = true
		}
	}
	linked, bridge := map[string]bool{}, map[string]bool{} // bridge: leads to another lock
	for _, e := range g.Edges {
		linked[e.From], linked[e.To] = true, true
		if e.Why == inspect.WaitUnder {
			bridge[e.From], bridge[e.To] = true, true
		}
	}
	var s sketch
	index := map[string]int{}
	for _, q := range queues(g, linked, circle, bridge) {
		room := limit - len(s.nodes)
		hidden, last := 0, -1
		kept := map[bool]int{}
		for _, n := range q {
			plain := !circle[n.ID] && !bridge[n.ID]
			if room <= 0 || plain && kept[holds(n)] >= map[bool]int{true: manyOfHolders, false: manyOfQueue}[holds(n)] {
				hidden++
				continue
			}
			kept[holds(n)]++
			room--
			last = len(s.nodes)
			index[n.ID] = last
			s.nodes = append(s.nodes, spot{GraphNode: n, alarm: circle[n.ID]})
		}
		if hidden > 1 && last >= 0 {
			s.nodes = append(s.nodes,
				spot{GraphNode: live.GraphNode{ID: "more " + q[0].Scope, Scope: q[0].Scope, State: "waits"}, more: hidden})
			s.edges = append(s.edges, link{from: len(s.nodes) - 1, to: last, why: inspect.WaitAhead})
		} else {
			s.left += hidden
		}
	}
	seen := map[[2]int]bool{}
	for _, e := range g.Edges {
		from, known := index[e.From]
		to, also := index[e.To]
		if !known || !also || from == to || seen[[2]int{from, to}] {
			continue
		}
		seen[[2]int{from, to}] = true
		s.edges = append(s.edges, link{from, to, e.Why, e.Deadlock || between[[2]string{e.From, e.To}]})
	}
	s.reduce()
	return s
}

// queues are the requests by lock, as far as they have to do with others: those
// in circles first, then the longest.
func queues(g live.Graph, linked, circle, bridge map[string]bool) [][]live.GraphNode {
	var all [][]live.GraphNode
	at := map[string]int{}
	for _, n := range g.Nodes {
		if !linked[n.ID] {
			continue
		}
		i, ok := at[n.Scope]
		if !ok {
			i = len(all)
			at[n.Scope] = i
			all = append(all, nil)
		}
		all[i] = append(all[i], n)
	}
	weight := func(q []live.GraphNode) int {
		w := len(q)
		for _, n := range q {
			if circle[n.ID] {
				w += 1_000_000
			}
			if bridge[n.ID] {
				w += 1_000
			}
		}
		return w
	}
	slices.SortStableFunc(all, func(a, b []live.GraphNode) int { return weight(b) - weight(a) })
	return all
}

// reduce takes away edges that follow from others: who waits for one that waits
// for a third waits for the third.
func (s *sketch) reduce() {
	out := make([][]int, len(s.nodes))
	for _, e := range s.edges {
		out[e.from] = append(out[e.from], e.to)
	}
	s.edges = slices.DeleteFunc(s.edges, func(e link) bool {
		if e.alarm || e.why == inspect.WaitUnder {
			return false
		}
		seen := make([]bool, len(s.nodes))
		seen[e.from] = true
		var stack []int
		for _, next := range out[e.from] {
			if next != e.to {
				stack = append(stack, next)
			}
		}
		for len(stack) > 0 {
			n := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if n == e.to {
				out[e.from] = slices.DeleteFunc(out[e.from], func(to int) bool { return to == e.to })
				return true
			}
			if !seen[n] {
				seen[n] = true
				stack = append(stack, out[n]...)
			}
		}
		return false
	})
}

// parts are what hangs together.
func (s *sketch) parts() []*part {
	root := make([]int, len(s.nodes))
	for i := range root {
		root[i] = i
	}
	var find func(i int) int
	find = func(i int) int {
		if root[i] != i {
			root[i] = find(root[i])
		}
		return root[i]
	}
	for _, e := range s.edges {
		a, b := find(e.from), find(e.to)
		root[max(a, b)] = min(a, b)
	}
	var all []*part
	of, place := map[int]*part{}, map[int]*vertex{}
	for i, n := range s.nodes {
		p := of[find(i)]
		if p == nil {
			p = &part{}
			of[find(i)] = p
			all = append(all, p)
		}
		place[i] = &vertex{spot: n}
		p.nodes = append(p.nodes, place[i])
	}
	for _, e := range s.edges {
		p := of[find(e.from)]
		p.edges = append(p.edges, &wire{link: e, way: []*vertex{place[e.from], place[e.to]}})
	}
	return all
}
