package assignment_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/assignment"
)

func TestRendezvousIsTheSameWhateverWasBefore(t *testing.T) {
	churn(t, "rendezvous", declares{holders: 3, weights: true, pins: true, zones: true}, func(h *history, _ []string, _ assignment.Assignment) {
		require.Equal(h, h.current, h.assign(nil))
	})
}

func TestRendezvousMovesLocksToTheNewMemberAlone(t *testing.T) {
	churn(t, "rendezvous", declares{holders: 3}, func(h *history, before []string, previous assignment.Assignment) {
		if !h.joined(before) || len(before) < h.hints.Holders {
			return
		}
		for _, move := range assignment.Moves(previous, h.current) {
			require.Equal(h, h.live[len(h.live)-1], move.To)
		}
	})
}

func TestRendezvousFollowsTheWeights(t *testing.T) {
	live := names("member", 4)
	a := run(t, assignment.Rendezvous{}, names("lock", 10_000), live, nil, assignment.Hints{Weights: map[string]float64{"member_0": 2, "member_3": 0}})
	require.InDelta(t, 5000, a.Counts()["member_0"], 200)
	require.InDelta(t, 2500, a.Counts()["member_1"], 200)
	require.InDelta(t, 2500, a.Counts()["member_2"], 200)
	require.Zero(t, a.Counts()["member_3"])
}

// The hash is a promise: processes of different versions must agree.
func TestRendezvousNeverChanges(t *testing.T) {
	a := run(t, assignment.Rendezvous{}, names("lock-group", 12), servers, nil, assignment.Hints{})
	require.Equal(t, []string{"lock-group_2", "lock-group_4", "lock-group_5", "lock-group_6", "lock-group_8", "lock-group_9", "lock-group_11"}, a.Holds(servers[0]))
	require.Equal(t, []string{"lock-group_0", "lock-group_10"}, a.Holds(servers[1]))
	require.Equal(t, []string{"lock-group_1", "lock-group_3", "lock-group_7"}, a.Holds(servers[2]))
}
