package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/recipes/assignment"
	"github.com/lockkeeper/lockkeeper/recipes/group"
)

// busy is a group in which everything happens at once.
func busy() group.State {
	since := time.Date(2026, 11, 21, 18, 0, 0, 0, time.FixedZone("", 3600))
	return group.State{
		Spec: group.Spec{Name: "g", Strategy: "mine", Holders: 2},
		Members: []group.MemberState{
			{ID: "1", Name: "a", Host: "h", PID: 7, Since: since, Controller: true, Leaving: true},
			{ID: "2", Name: "b\x1b[31m", Host: "h", PID: 8, Since: since},
			{ID: "3", Name: "a", Host: "h", PID: 9, Since: since, Waiting: true},
		},
		Locks: []group.Lock{
			{Lock: "g_2", State: group.Locked, Holders: []group.Holder{{ID: "1", Name: "a", Token: 5, Releasing: true}, {ID: "2", Name: "b\x1b[31m", Token: 6}}, Planned: []string{"b\x1b[31m"}},
			{Lock: "g_10", State: group.Released},
			{Lock: "old", State: group.Dropped, Holders: []group.Holder{{ID: "1", Name: "a", Token: 1, Releasing: true}}},
		},
		Generation: 3, Moved: 2, MovedTotal: 17, StrategyError: "strategy panicked: no\nstack",
	}
}

func TestTableOfAGroup(t *testing.T) {
	view := views.NewGroup(busy())
	var out bytes.Buffer
	writeGroup(&out, view, false)
	require.Equal(t, strings.TrimLeft(`
lockName	acquired By
g_10	-
g_2	a (releasing), b`+"\uFFFD"+`[31m
old	a (releasing)

participant	locks	state
a	2	leaving, decides
b`+"\uFFFD"+`[31m	1	joined
a	0	waiting

2 of 3 locks held; 2 moved by plan 3, 17 in all plans; strategy mine
the strategy gave no plan, all stays as it is: strategy panicked: no …
`, "\n"), out.String())

	out.Reset()
	writeGroup(&out, view, true)
	require.Contains(t, out.String(), "lockName\tacquired By\tstate\ttoken\tplanned\ng_10\t-\tRELEASED\t-\t-\n")
	require.Contains(t, out.String(), "LOCKED\t5, 6\tb")
	require.Contains(t, out.String(), "old\ta (releasing)\tDROPPED\t1\t-\n")
	require.Contains(t, out.String(), "a\t2\tleaving, decides\th\t7\t2026-11-21 17:00:00 UTC\t1\n")
}

func TestTableOfGroups(t *testing.T) {
	empty := views.NewGroup(group.State{Spec: group.Spec{Name: "e", Strategy: "mod", Holders: 1}})
	var out bytes.Buffer
	writeGroups(&out, []views.Group{views.NewGroup(busy()), empty}, true)
	require.Equal(t, strings.TrimLeft(`
GROUP	STRATEGY	LOCKS	HELD	MEMBERS	CONTROLLER	MOVED	MOVED IN ALL	HOLDERS	PLANS	PROBLEM
g	mine	3	2	3	a	2	17	2	3	strategy panicked: no …
e	mod	0	0	0	-	0	0	1	0	-
`, "\n"), out.String())
}

func TestPlanTellsHowManyRoundsItTakes(t *testing.T) {
	spec := group.Spec{Name: "g", Strategy: "balanced", Holders: 1, Locks: group.NumberedLocks("g", 12)}
	before := standing{live: []string{"a", "b"}}
	planned, err := assignment.Run(assignment.Balanced{}, spec.Locks, before.live, nil, assignment.Hints{})
	require.NoError(t, err)
	before.planned = planned

	for limit, rounds := range map[int]int{0: 1, 1: 4, 3: 2, 4: 1} {
		spec.MaxMoves = limit
		v, err := newPlan(spec, before, []string{"a", "b", "c"})
		require.NoError(t, err)
		require.Equal(t, rounds, v.Rounds, limit)
		require.Equal(t, 4, v.Moved)
		require.Len(t, v.Moves, 4)
		require.Equal(t, []planCountView{{"a", 6, 4, "stays"}, {"b", 6, 4, "stays"}, {"c", 0, 4, "joins"}}, v.Members)
	}

	v, err := newPlan(spec, before, []string{"a", "b"})
	require.NoError(t, err)
	require.Zero(t, v.Rounds)
	require.Empty(t, v.Moves)

	spec.MaxMoves = 1
	v, err = newPlan(spec, before, []string{"b", "c"})
	require.NoError(t, err)
	require.Equal(t, 1, v.Rounds, "a lock without a new holder is not held back")
	require.Equal(t, planCountView{"a", 6, 0, "leaves"}, v.Members[0])
}

func TestPlanOfALoneLeaver(t *testing.T) {
	spec := group.Spec{Name: "g", Strategy: "balanced", Holders: 1, Locks: []string{"x"}}
	v, err := newPlan(spec, standing{live: []string{"a"}, planned: assignment.Assignment{"x": {"a"}}}, nil)
	require.NoError(t, err)
	require.Equal(t, []moveView{{Lock: "x", From: "a"}}, v.Moves)
	require.Zero(t, v.Moved)

	var out bytes.Buffer
	writePlan(&out, v, spec)
	require.Equal(t, "lock\tfrom\tto\nx\ta\t-\n\nparticipant\tbefore\tafter\tchange\na\t1\t0\tleaves\n\n0 of 1 lock would move, 1 would have no holder; strategy balanced; nothing was changed\n", out.String())
}

func TestPlanBeginsWithWhoIsThere(t *testing.T) {
	s := newStanding(busy())
	require.Equal(t, []string{"b\x1b[31m"}, s.live, "neither who leaves nor who waits")
	require.Equal(t, assignment.Assignment{"g_2": {"b\x1b[31m"}}, s.planned)
}
