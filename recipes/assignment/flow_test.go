package assignment_test

import (
	"math"
	"slices"

	"github.com/lockkeeper/lockkeeper/recipes/assignment"
)

// fewestGains finds by brute force how few times a member must get a lock so
// that all have their share, give or take one: a minimum cost flow, solved the
// plainest way there is, one unit after the other along a cheapest path.
func fewestGains(locks, live []string, previous assignment.Assignment, holders int) int {
	nodes := 2 + len(locks) + len(live) + 1
	source, sink, odd := 0, 1, nodes-1
	type edge struct{ to, room, cost, back int }
	graph := make([][]edge, nodes)
	connect := func(from, to, room, cost int) {
		graph[from] = append(graph[from], edge{to, room, cost, len(graph[to])})
		graph[to] = append(graph[to], edge{from, 0, -cost, len(graph[from]) - 1})
	}
	total := holders * len(locks)
	const base = 1000 // what must be used is used first
	for l, lock := range locks {
		connect(source, 2+l, holders, 0)
		for m, member := range live {
			cost := 1
			if slices.Contains(previous[lock], member) {
				cost = 0
			}
			connect(2+l, 2+len(locks)+m, 1, cost)
		}
	}
	for m := range live {
		connect(2+len(locks)+m, sink, total/len(live), -base)
		connect(2+len(locks)+m, odd, 1, 0)
	}
	connect(odd, sink, total%len(live), 0)

	cost := 0
	for range total {
		dist := make([]int, nodes)
		via := make([][2]int, nodes)
		for i := range dist {
			dist[i] = math.MaxInt / 2
		}
		dist[source] = 0
		for changed := true; changed; {
			changed = false
			for from := range graph {
				for i, e := range graph[from] {
					if e.room > 0 && dist[from] < math.MaxInt/2 && dist[from]+e.cost < dist[e.to] {
						dist[e.to], via[e.to], changed = dist[from]+e.cost, [2]int{from, i}, true
					}
				}
			}
		}
		cost += dist[sink]
		for at := sink; at != source; at = via[at][0] {
			e := &graph[via[at][0]][via[at][1]]
			e.room--
			graph[e.to][e.back].room++
		}
	}
	return cost + base*(total/len(live))*len(live)
}
