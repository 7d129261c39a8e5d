package live_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes/inspect"
)

func TestPartiesOfACircleAreWhoIsInIt(t *testing.T) {
	g := live.Graph{
		Edges: []live.GraphEdge{
			{From: "sorter holds b", To: "sorter waits for a", Why: inspect.WaitUnder},
			{From: "sorter waits for a", To: "queuer waits for a", Why: inspect.WaitAhead},
			{From: "queuer waits for a", To: "mover holds a", Why: inspect.WaitHeld},
			{From: "mover holds a", To: "mover waits for b", Why: inspect.WaitUnder},
			{From: "mover waits for b", To: "sorter holds b", Why: inspect.WaitHeld},
		},
		// Wherever the circle begins.
		Circles: [][]string{
			{"sorter waits for a", "queuer waits for a", "mover holds a", "mover waits for b", "sorter holds b"},
			{"sorter holds b", "sorter waits for a", "queuer waits for a", "mover holds a", "mover waits for b"},
		},
	}
	sorter, queuer, mover := []string{"sorter holds b", "sorter waits for a"}, []string{"queuer waits for a"}, []string{"mover holds a", "mover waits for b"}
	require.Equal(t, [][][]string{{queuer, mover, sorter}, {sorter, queuer, mover}}, g.Parties())
}
