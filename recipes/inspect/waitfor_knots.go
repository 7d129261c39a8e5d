package inspect

// knots tells which requests lie in circles together: each knot of them has a
// number, those that lie in none have -1. It takes one walk over all edges
// (Tarjan's), however long the queues are.
func (g *WaitGraph) knots(gone []bool) []int {
	const unseen = -1
	n := len(g.nodes)
	var (
		knot   = make([]int, n)
		order  = make([]int, n) // in which they were come to
		lowest = make([]int, n) // the earliest that can be got back to
		onWay  = make([]bool, n)
		next   = make([]int, n) // edge to follow
		seen   int
		found  int
		way    []int // requests whose knot is not known
		calls  []int // the walk, from where it began
	)
	for i := range n {
		knot[i], order[i] = -1, unseen
	}
	visit := func(i int) {
		order[i], lowest[i], onWay[i] = seen, seen, true
		seen++
		way, calls = append(way, i), append(calls, i)
	}
	for root := range n {
		if order[root] != unseen || gone[root] {
			continue
		}
		visit(root)
		for len(calls) > 0 {
			at := calls[len(calls)-1]
			if next[at] < len(g.edges[at]) {
				to := int(g.edges[at][next[at]].to)
				next[at]++
				switch {
				case gone[to]:
				case order[to] == unseen:
					visit(to)
				case onWay[to]:
					lowest[at] = min(lowest[at], order[to])
				}
				continue
			}
			calls = calls[:len(calls)-1]
			if len(calls) > 0 {
				before := calls[len(calls)-1]
				lowest[before] = min(lowest[before], lowest[at])
			}
			if lowest[at] != order[at] {
				continue
			}
			from := len(way) - 1
			for way[from] != at {
				from--
			}
			for _, i := range way[from:] {
				onWay[i] = false
				if len(way)-from > 1 || g.waitsForItself(i) {
					knot[i] = found
				}
			}
			way = way[:from]
			found++
		}
	}
	return knot
}

func (g *WaitGraph) waitsForItself(i int) bool {
	for _, a := range g.edges[i] {
		if int(a.to) == i {
			return true
		}
	}
	return false
}
