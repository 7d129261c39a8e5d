package live

import "github.com/lockkeeper/lockkeeper/recipes"

// A Graph says who waits for whom, see recipes.WaitFor: the requests that wait or
// are waited for, bounded. Its order is that of the locks, holders first.
type Graph struct {
	Nodes   []GraphNode `json:"nodes"`
	Edges   []GraphEdge `json:"edges"`
	Circles [][]string  `json:"circles"` // IDs of those who wait for each other, in order
	Hidden  int         `json:"hidden"`  // requests that are left out: they stand behind those that are shown, and nobody waits for them
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
	Why      recipes.WaitReason `json:"why"`      // held, ahead, or under: the work of a holder waits for another lock
	Deadlock bool               `json:"deadlock"` // it is part of a circle that no priority ends
}
