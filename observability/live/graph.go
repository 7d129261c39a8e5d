package live

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/recipes/inspect"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A Graph says who waits for whom, see inspect.WaitFor: the requests that wait or
// are waited for, bounded. Its order is that of the locks, holders first.
//
// Each lock is read on its own. A circle over several of them that is younger than a
// second may combine states of different moments, and be gone in the next snapshot:
// EntryDeadlock is reported only for circles that stay.
type Graph struct {
	Nodes   []GraphNode `json:"nodes"`
	Edges   []GraphEdge `json:"edges"`
	Circles [][]string  `json:"circles"` // IDs of those who wait for each other, in order
	// requests that are left out: they stand behind those that are shown, and no request waits for them
	Hidden int `json:"hidden"`
}

// A GraphNode is a request.
type GraphNode struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	Scope string `json:"scope"`
	Owner string `json:"owner"`
	State string `json:"state"` // holds or waits
}

// A GraphEdge says that From cannot go on before To does.
type GraphEdge struct {
	From     string             `json:"from"`
	To       string             `json:"to"`
	Why      inspect.WaitReason `json:"why"`      // held, ahead, or under: the work of a holder waits for another lock
	Deadlock bool               `json:"deadlock"` // it is part of a circle that no priority ends
}

// Parties returns each of the circles by who is in it: the requests of one who holds
// a lock and waits for others while it works are together, what it holds first. Each
// waits for the next one, and the last for the first.
func (g Graph) Parties() [][][]string {
	type pair struct{ from, to string }
	under := map[pair]bool{}
	for _, e := range g.Edges {
		if e.Why == inspect.WaitUnder {
			under[pair{e.From, e.To}] = true
		}
	}
	all := make([][][]string, len(g.Circles))
	for i, c := range g.Circles {
		begin := 0
		for j := range c { // where somebody begins
			if !under[pair{c[(j+len(c)-1)%len(c)], c[j]}] {
				begin = j
				break
			}
		}
		for j := range c {
			id, before := c[(begin+j)%len(c)], c[(begin+j+len(c)-1)%len(c)]
			if n := len(all[i]); j > 0 && under[pair{before, id}] {
				all[i][n-1] = append(all[i][n-1], id)
			} else {
				all[i] = append(all[i], []string{id})
			}
		}
	}
	return all
}

// MaxGraphNodes is how many requests a Graph has at most.
const MaxGraphNodes = 1000

// Cut returns the graph with that many requests at most, the others are Hidden: those
// of circles in any case, then those that wait for each other over several locks, then
// the longest queues.
func (g Graph) Cut(most int) Graph {
	if len(g.Nodes) <= most {
		return g
	}
	chosen := map[string]bool{}
	for _, circle := range g.Circles {
		for _, id := range circle {
			chosen[id] = true
		}
	}
	for _, e := range g.Edges {
		if e.Why == inspect.WaitUnder && len(chosen) < most-1 {
			chosen[e.From], chosen[e.To] = true, true
		}
	}
	queues := map[string][]string{}
	var scopes []string
	for _, n := range g.Nodes {
		if queues[n.Scope] == nil {
			scopes = append(scopes, n.Scope)
		}
		queues[n.Scope] = append(queues[n.Scope], n.ID)
	}
	slices.SortStableFunc(scopes, func(a, b string) int { return len(queues[b]) - len(queues[a]) })
	for _, scope := range scopes {
		for _, id := range queues[scope] {
			if len(chosen) < most {
				chosen[id] = true
			}
		}
	}
	out := Graph{Nodes: make([]GraphNode, 0, len(chosen)), Edges: []GraphEdge{}, Circles: g.Circles}
	for _, n := range g.Nodes {
		if chosen[n.ID] {
			out.Nodes = append(out.Nodes, n)
		}
	}
	for _, e := range g.Edges {
		if chosen[e.From] && chosen[e.To] {
			out.Edges = append(out.Edges, e)
		}
	}
	out.Hidden = g.Hidden + len(g.Nodes) - len(out.Nodes)
	return out
}

// perLock is how many holders, and how many waiters, of one lock are in a Graph
// besides those of whom more is to be said.
const perLock = 20

// waits is who waits for whom, over all locks.
type waits struct {
	inspect.WaitGraph
	states []lock.State // without those that no request waits for, see front
	hidden int
}

func newWaits(states []lock.State) waits {
	g := waits{states: make([]lock.State, len(states))}
	for i, s := range states {
		cut := front(s)
		g.hidden += len(s.Waiters) - len(cut.Waiters)
		g.states[i] = cut
	}
	g.WaitGraph = inspect.WaitFor(g.states)
	return g
}

// front is a lock without the end of a long queue: without requests that hold
// nothing else, and that only other such requests wait for. They are in no
// circle.
func front(s lock.State) lock.State {
	end := len(s.Waiters)
	for end > ManyWaiters && len(s.Waiters[end-1].Under) == 0 {
		end--
	}
	s.Waiters = s.Waiters[:end]
	return s
}

// finish says of a lock what depends on others.
func (g waits) finish(l *Lock) {
	if len(l.Waiters) == 0 {
		return
	}
	seen := map[string]bool{}
	at, ok := g.Request(l.Waiters[0].ID)
	for ok && !seen[at.ID] {
		seen[at.ID] = true
		next, more := g.next(at)
		if !more {
			if at.ID != l.Waiters[0].ID { // else it is about to be granted
				l.RootBlocker = new(NewRef(at))
			}
			return
		}
		at = next
	}
	l.InCircle = ok
}

// next is whom a request waits for: of holders one that itself waits, else the one
// that has held longest.
func (g waits) next(at inspect.WaitNode) (inspect.WaitNode, bool) {
	var best inspect.WaitNode
	found, waiting := false, false
	for _, e := range g.From(at.ID) {
		if e.Why == inspect.WaitAhead && found {
			continue
		}
		waits := e.To.Holds && len(g.From(e.To.ID)) > 0
		if !found || waits && !waiting || waits == waiting && e.To.Since.Before(best.Since) {
			best, found, waiting = e.To, true, waits
		}
	}
	return best, found
}

// graph draws those of whom there is something to say.
func (g waits) graph() Graph {
	out := Graph{Nodes: []GraphNode{}, Edges: []GraphEdge{}, Circles: [][]string{}, Hidden: g.hidden}
	deadly := map[[2]string]bool{}
	chosen := map[string]bool{}
	for _, c := range g.Circles() {
		ids := make([]string, len(c.Edges))
		for i, e := range c.Edges {
			ids[i] = e.From.ID
			chosen[e.From.ID] = true
			if c.Deadlock() {
				deadly[[2]string{e.From.ID, e.To.ID}] = true
			}
		}
		out.Circles = append(out.Circles, ids)
	}
	g.choose(chosen)
	for _, s := range g.states {
		out.add(s, s.Holders, true, chosen)
		out.add(s, s.Waiters, false, chosen)
	}
	for _, n := range out.Nodes {
		for _, e := range g.From(n.ID) {
			if chosen[e.To.ID] {
				out.Edges = append(out.Edges,
					GraphEdge{From: n.ID, To: e.To.ID, Why: e.Why, Deadlock: deadly[[2]string{n.ID, e.To.ID}]})
			}
		}
	}
	return out
}

// choose takes those who are part of chains over several locks, then the locks
// with the longest queues, until there are enough.
func (g waits) choose(chosen map[string]bool) {
	take := func(all []lock.Contender, most int) {
		for _, c := range all[:min(len(all), most)] {
			if len(chosen) < MaxGraphNodes {
				chosen[c.ID] = true
			}
		}
	}
	for _, s := range g.states {
		for _, w := range s.Waiters {
			for _, id := range w.Under {
				if h, ok := g.Request(id); ok && h.Holds && len(chosen) < MaxGraphNodes-1 {
					chosen[id], chosen[w.ID] = true, true
				}
			}
		}
	}
	queues := slices.DeleteFunc(slices.Clone(g.states), func(s lock.State) bool { return len(s.Waiters) == 0 })
	slices.SortStableFunc(queues, func(a, b lock.State) int { return len(b.Waiters) - len(a.Waiters) })
	for _, s := range queues {
		take(s.Holders, perLock)
		take(s.Waiters, perLock)
	}
}

func (g *Graph) add(s lock.State, all []lock.Contender, holds bool, chosen map[string]bool) {
	for _, c := range all {
		switch {
		case chosen[c.ID]:
			n := inspect.WaitNode{Scope: s.Scope, Holds: holds, Contender: c}
			g.Nodes = append(g.Nodes,
				GraphNode{ID: c.ID, Label: c.Owner + " · " + s.Scope, Scope: s.Scope, Owner: c.Owner, State: NewRef(n).State})
		case len(s.Waiters) > 0:
			g.Hidden++
		}
	}
}
