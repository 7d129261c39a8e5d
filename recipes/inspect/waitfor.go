package inspect

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A WaitGraph says which requests wait for which, over several locks: which
// waiter waits for which holders and waiters, and which holder cannot go on
// because the same work waits for another lock (Contender.Under).
//
// It follows from the states alone: making it sends nothing to ZooKeeper. Each
// state is a look of its own, so an edge may be gone by the time that it is
// seen.
type WaitGraph struct {
	nodes   []WaitNode     // as in the states, holders first
	index   map[string]int // of the nodes, by ID
	edges   [][]arc        // of each node
	circles []Circle
}

// An arc is an edge as a graph keeps it: there may be many.
type arc struct {
	to  int32
	why uint8 // index of waitReasons
}

var waitReasons = [...]WaitReason{WaitHeld, WaitAhead, WaitUnder}

// A WaitNode is a request in a WaitGraph.
type WaitNode struct {
	Scope string
	Holds bool // else it waits
	lock.Contender

	at time.Time // of the look
}

// A WaitEdge says that From cannot go on before To does.
type WaitEdge struct {
	From, To WaitNode
	Why      WaitReason
}

// A WaitReason is why one request waits for another.
type WaitReason string

// The reasons to wait for another request.
const (
	WaitHeld  WaitReason = "held"  // To holds the lock that From wants
	WaitAhead WaitReason = "ahead" // To stands before From in the queue
	WaitUnder WaitReason = "under" // From holds a lock, and the same work waits with To for another one
)

// A Circle is a number of requests each of which waits for the next one, and the
// last for the first: none of them can go on of its own accord.
type Circle struct {
	// Edges are the circle. Each begins where the one before ends, the first
	// where the last ends. It begins with a waiter.
	Edges []WaitEdge

	// Cut is the holder to break, so that the others can go on: the one with the
	// lowest priority, of several the youngest.
	Cut WaitNode

	// End is how the circle ends if no client does anything; nil: that does not
	// follow.
	End *CircleEnd
}

// Deadlock reports whether the circle lasts until a timeout or a lease ends: no
// priority ends it.
func (c Circle) Deadlock() bool { return c.End == nil || c.End.Cause != EndPreemption }

// A CircleEnd is what a circle is going to be ended by.
type CircleEnd struct {
	Cause EndCause
	At    time.Time     // by the server's clock
	After time.Duration // from the look at that lock on

	// Waiter preempts Holder, or evicts it; with EndWaiting and EndAcquire it
	// leaves, and Holder is empty.
	Waiter, Holder WaitNode
	Evicted        bool // Holder is evicted; else it is preempted, and its work waits no more
}

// An EndCause is why a Circle ends.
type EndCause string

// The causes for the end of a circle.
const (
	EndPreemption EndCause = "preemption"      // a holder is preempted for a request's priority
	EndLease      EndCause = "lease"           // a holder has to go because its lease is over
	EndWaiting    EndCause = "waiting_timeout" // a waiter gives up
	EndAcquire    EndCause = "acquire_timeout" // a waiter gives up
)

// WaitFor returns which requests wait for which in these locks. A circle shows
// only if all its locks are among them, see Client.Locks.
func WaitFor(states []lock.State) WaitGraph {
	g := WaitGraph{index: map[string]int{}}
	for _, s := range states {
		for _, h := range s.Holders {
			g.add(WaitNode{Scope: s.Scope, Holds: true, Contender: h, at: s.At})
		}
		for _, w := range s.Waiters {
			g.add(WaitNode{Scope: s.Scope, Contender: w, at: s.At})
		}
	}
	g.edges = make([][]arc, len(g.nodes))
	for _, s := range states {
		g.join(s)
	}
	g.findCircles(states)
	return g
}

// Nodes returns all requests, in the order of the states, holders first.
func (g WaitGraph) Nodes() []WaitNode { return slices.Clone(g.nodes) }

// From returns what a request waits for. Of the waiters ahead it is the nearest
// in its way; those wait for the ones before them.
func (g WaitGraph) From(id string) []WaitEdge {
	from, ok := g.index[id]
	if !ok || len(g.edges[from]) == 0 {
		return nil
	}
	edges := make([]WaitEdge, len(g.edges[from]))
	for i, a := range g.edges[from] {
		edges[i] = g.drawn(from, a)
	}
	return edges
}

func (g *WaitGraph) drawn(from int, a arc) WaitEdge {
	return WaitEdge{From: g.nodes[from], To: g.nodes[a.to], Why: waitReasons[a.why]}
}

// Circles returns the circles: when the Cut of each is broken, none is left.
// Circles that share requests are listed as far as it takes for that.
func (g WaitGraph) Circles() []Circle { return g.circles }

// Request returns the request with this ID.
func (g WaitGraph) Request(id string) (WaitNode, bool) {
	i, ok := g.index[id]
	if !ok {
		return WaitNode{}, false
	}
	return g.nodes[i], true
}

// node is Request for a known ID; else the zero WaitNode.
func (g *WaitGraph) node(id string) WaitNode {
	n, _ := g.Request(id)
	return n
}

func (g *WaitGraph) add(n WaitNode) {
	if i, twice := g.index[n.ID]; twice {
		g.nodes[i] = n
		return
	}
	g.index[n.ID] = len(g.nodes)
	g.nodes = append(g.nodes, n)
}

func (g *WaitGraph) edge(from, to string, why WaitReason) {
	a, knownFrom := g.index[from]
	b, knownTo := g.index[to]
	if knownFrom && knownTo {
		g.edges[a] = append(g.edges[a], arc{int32(b), uint8(slices.Index(waitReasons[:], why))})
	}
}

// join draws what the waiters of one lock wait for.
func (g *WaitGraph) join(s lock.State) {
	alone := -1 // the last one before that wants the lock for itself: it waits for all before it
	for i, w := range s.Waiters {
		for _, h := range s.Holders {
			if !w.Mode.Admits(h.Mode) {
				g.edge(w.ID, h.ID, WaitHeld)
			}
		}
		if w.Mode != priority.Shared { // those between are granted together, and before it
			for _, before := range slices.Backward(s.Waiters[alone+1 : i]) {
				g.edge(w.ID, before.ID, WaitAhead)
			}
		}
		if alone >= 0 {
			g.edge(w.ID, s.Waiters[alone].ID, WaitAhead)
		}
		if w.Mode != priority.Shared {
			alone = i
		}
		for _, id := range w.Under {
			if h, ok := g.index[id]; ok && g.nodes[h].Holds {
				g.edge(id, w.ID, WaitUnder)
			}
		}
	}
}

// findCircles finds a shortest circle, takes its cut out of the graph, and goes
// on until there is none.
func (g *WaitGraph) findCircles(states []lock.State) {
	gone := make([]bool, len(g.nodes))
	var ends map[string]ending
	for {
		edges := g.shortestCircle(gone)
		if edges == nil {
			return
		}
		if ends == nil {
			ends = endings(states, g)
		}
		c := Circle{Edges: edges, Cut: cutOf(edges)}
		for _, e := range edges {
			if end, ok := ends[e.From.ID]; ok && (c.End == nil || end.At.Before(c.End.At)) {
				c.End = new(CircleEnd(end))
			}
		}
		g.circles = append(g.circles, c)
		gone[g.index[c.Cut.ID]] = true
	}
}

// shortestCircle returns the shortest circle among those who are not gone; of
// several the first in the order of the states.
func (g *WaitGraph) shortestCircle(gone []bool) []WaitEdge {
	var best []WaitEdge
	knots := g.knots(gone)
	for i, n := range g.nodes {
		// Every circle leads through a waiter whose work holds another lock.
		if knots[i] < 0 || n.Holds || len(n.Under) == 0 {
			continue
		}
		if edges := g.back(i, knots, len(best)); edges != nil && (best == nil || len(edges) < len(best)) {
			best = edges
		}
	}
	return best
}

// back returns the shortest way from a request back to itself, if it is shorter
// than limit (0: none); nil: there is none. It does not leave the request's knot.
func (g *WaitGraph) back(start int, knots []int, limit int) []WaitEdge {
	type step struct {
		from int
		arc
		long int // the way so far
	}
	came := map[int]step{}
	for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		long := came[at].long + 1
		if limit > 0 && long >= limit {
			return nil
		}
		for _, a := range g.edges[at] {
			to := int(a.to)
			if _, seen := came[to]; seen || knots[to] != knots[start] {
				continue
			}
			came[to] = step{at, a, long}
			if to != start {
				queue = append(queue, to)
				continue
			}
			last := came[start]
			edges := []WaitEdge{g.drawn(last.from, last.arc)}
			for last.from != start {
				last = came[last.from]
				edges = append(edges, g.drawn(last.from, last.arc))
			}
			slices.Reverse(edges)
			return edges
		}
	}
	return nil
}

// cutOf returns the holder in a circle that is the least loss.
func cutOf(circle []WaitEdge) WaitNode {
	var holders []WaitNode
	for _, e := range circle {
		if e.From.Holds {
			holders = append(holders, e.From)
		}
	}
	return slices.MinFunc(holders, func(a, b WaitNode) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), b.Since.Compare(a.Since), cmp.Compare(a.ID, b.ID))
	})
}

// An ending is the first thing that keeps a request from being part of a circle
// any longer.
type ending CircleEnd

// endings foresees each lock, and returns by ID what ends the part that a
// request has in a circle: a waiter leaves; a holder is preempted, which
// cancels what its work waits for, or, when that has been done already,
// evicted.
func endings(states []lock.State, g *WaitGraph) map[string]ending {
	ends := map[string]ending{}
	sooner := func(id string, e ending) {
		if had, ok := ends[id]; !ok || e.At.Before(had.At) {
			ends[id] = e
		}
	}
	for _, s := range states {
		for _, p := range Outlook(s) {
			w := g.node(p.Waiter.ID)
			e := ending{At: s.At.Add(p.After), After: p.After, Waiter: w}
			switch p.Outcome {
			case OutcomeGivesUp:
				e.Cause = EndWaiting
				sooner(w.ID, e)
			case OutcomeTimesOut:
				e.Cause = EndAcquire
				sooner(w.ID, e)
			case OutcomeTakesOver:
				for _, h := range s.Holders {
					if !w.Mode.Admits(h.Mode) {
						e.Holder, e.Evicted, e.Cause = g.node(h.ID), true, causeOf(p, h)
						sooner(h.ID, e)
					}
				}
			case OutcomeGranted, OutcomeRefused, OutcomeInLine:
			}
			for _, ask := range p.Asks {
				h, ok := g.Request(ask.Holder.ID)
				if !ok || !h.Holds || len(h.PreemptedBy) > 0 {
					continue
				}
				sooner(h.ID, ending{
					Cause: endCause(ask.Reason), At: s.At.Add(ask.After), After: ask.After, Waiter: w, Holder: h,
				})
			}
		}
	}
	return ends
}

// causeOf returns by which right a waiter evicts a holder.
func causeOf(p Prospect, h lock.Contender) EndCause {
	for _, n := range h.PreemptedBy {
		if n.ID == p.Waiter.ID && (n.Reason == priority.LeaseExpired || p.Waiter.Forceful) {
			return endCause(n.Reason)
		}
	}
	for _, ask := range slices.Backward(p.Asks) {
		if ask.Holder.ID == h.ID {
			return endCause(ask.Reason)
		}
	}
	return EndPreemption
}

func endCause(r priority.Reason) EndCause {
	if r == priority.LeaseExpired {
		return EndLease
	}
	return EndPreemption
}
