package assignment_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/assignment"
)

func names(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s_%d", prefix, i)
	}
	return list
}

func run(t testing.TB, strategy assignment.Strategy, locks, live []string, previous assignment.Assignment, hints assignment.Hints) assignment.Assignment {
	t.Helper()
	next, err := assignment.Run(strategy, locks, live, previous, hints)
	require.NoError(t, err)
	return next
}

func named(t require.TestingT, name string) assignment.Strategy {
	strategy, err := assignment.Named(name)
	require.NoError(t, err)
	return strategy
}

func counts(a assignment.Assignment) []int {
	return slices.Sorted(maps.Values(a.Counts()))
}

var servers = []string{"localhost_12001", "localhost_12002", "localhost_12003"}

func TestModGivesLocksInTurn(t *testing.T) {
	next := run(t, assignment.Mod{}, names("lock", 5), []string{"c", "b", "a"}, nil, assignment.Hints{})
	require.Equal(t, assignment.Assignment{"lock_0": {"a"}, "lock_1": {"b"}, "lock_2": {"c"}, "lock_3": {"a"}, "lock_4": {"b"}}, next)
}

func TestNamedKnowsEveryNameAndListsThemOtherwise(t *testing.T) {
	for _, name := range assignment.Names() {
		require.NotNil(t, named(t, name))
	}
	require.Equal(t, assignment.Balanced{}, named(t, ""))

	_, err := assignment.Named("random")
	require.EqualError(t, err, `unknown strategy "random"; write one of balanced, sticky, weighted, rendezvous, mod`)
}

func TestWithoutLiveMembersThereAreNoHolders(t *testing.T) {
	asked := assignment.StrategyFunc(func([]string, []string, assignment.Assignment, assignment.Hints) (assignment.Assignment, error) {
		panic("it is not called")
	})
	require.Empty(t, run(t, asked, names("lock", 3), nil, assignment.Assignment{"lock_0": {"a"}}, assignment.Hints{}))
}

func TestEverythingWrongWithAnAssignmentIsSaidAtOnce(t *testing.T) {
	a := assignment.Assignment{
		"lock_0":  {"a", "b"},
		"lock_1":  {"a", "a"},
		"lock_2":  {"gone"},
		"lock_10": {"a"},
		"lock_3":  {},
	}

	err := assignment.Validate(a, names("lock", 4), []string{"a", "b"}, assignment.Hints{})

	var invalid *assignment.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, []string{
		`lock "lock_0" is given to 2 members (a, b); the limit is 1`,
		`lock "lock_1" is given to 2 members (a, a); the limit is 1`,
		`lock "lock_1" is given twice to "a"`,
		`lock "lock_2" is given to "gone", who is not live`,
		`lock "lock_10" is not declared`,
	}, invalid.Problems)
	require.NoError(t, assignment.Validate(assignment.Assignment{"lock_0": {"a", "b"}}, names("lock", 1), []string{"a", "b"}, assignment.Hints{Holders: 2}))

	many := assignment.Assignment{"lock_0": {"a"}, "lock_1": {"a"}}
	require.EqualError(t, assignment.Validate(many, names("lock", 2), []string{"a"}, assignment.Hints{Limit: 1}),
		`assignment refused: "a" is given 2 locks; the limit is 1`)

	// and a long list is cut in the text
	long := assignment.Assignment{}
	for _, lock := range names("lock", 13) {
		long[lock] = []string{"gone"}
	}
	err = assignment.Validate(long, names("lock", 13), []string{"a"}, assignment.Hints{})
	require.ErrorContains(t, err, `lock "lock_9" is given to "gone", who is not live; and 3 more`)
}

func TestAStrategyThatFailsPanicsOrAnswersNonsenseGivesAnError(t *testing.T) {
	broken := errors.New("no idea")
	strategy := func(a assignment.Assignment, err error, panics any) assignment.Strategy {
		return assignment.StrategyFunc(func([]string, []string, assignment.Assignment, assignment.Hints) (assignment.Assignment, error) {
			if panics != nil {
				panic(panics)
			}
			return a, err
		})
	}
	try := func(s assignment.Strategy, hints assignment.Hints) error {
		next, err := assignment.Run(s, []string{"lock"}, []string{"a"}, nil, hints)
		require.Nil(t, next)
		require.Error(t, err)
		return err
	}

	require.ErrorIs(t, try(strategy(nil, broken, nil), assignment.Hints{}), broken)

	var panicked *assignment.PanicError
	require.ErrorAs(t, try(strategy(nil, nil, broken), assignment.Hints{}), &panicked)
	require.ErrorIs(t, panicked, broken)
	require.Contains(t, panicked.Stack, "assignment_test.go")

	var invalid *assignment.InvalidError
	require.ErrorAs(t, try(strategy(assignment.Assignment{"lock": {"ghost"}}, nil, nil), assignment.Hints{}), &invalid)

	require.ErrorContains(t, try(nil, assignment.Hints{}), "no strategy")
	require.ErrorContains(t, try(assignment.Balanced{}, assignment.Hints{Holders: -1}), "holders: -1 is less than 1")
	require.ErrorContains(t, try(assignment.Balanced{}, assignment.Hints{Weights: map[string]float64{"a": -2}}), `weights: that of "a" is -2; write a number from 0 to 1000000`)
}

func TestAStrategyCannotChangeWhatItIsHanded(t *testing.T) {
	locks, live := names("lock", 2), []string{"b", "a"}
	previous := assignment.Assignment{"lock_0": {"a"}}
	hints := assignment.Hints{
		Weights: map[string]float64{"a": 1},
		Pins:    map[string]string{"lock_0": "a"},
		Zones:   map[string]string{"a": "z"},
	}
	asked := 0
	vandal := assignment.StrategyFunc(func(locks, live []string, previous assignment.Assignment, hints assignment.Hints) (assignment.Assignment, error) {
		asked++
		require.Equal(t, []string{"a", "b"}, live)
		locks[0], live[0], previous["lock_0"][0] = "x", "x", "x"
		clear(previous)
		clear(hints.Weights)
		clear(hints.Pins)
		clear(hints.Zones)
		return assignment.Assignment{"lock_1": {"b"}, "lock_0": nil}, nil
	})

	next := run(t, vandal, locks, live, previous, hints)

	require.Equal(t, 1, asked)
	require.Equal(t, assignment.Assignment{"lock_1": {"b"}}, next)
	require.Equal(t, names("lock", 2), locks)
	require.Equal(t, []string{"b", "a"}, live)
	require.Equal(t, assignment.Assignment{"lock_0": {"a"}}, previous)
	require.Len(t, hints.Weights, 1)
	require.Len(t, hints.Pins, 1)
	require.Len(t, hints.Zones, 1)
}

func TestMovesAreInNaturalOrder(t *testing.T) {
	before := assignment.Assignment{"lock_10": {"a"}, "lock_2": {"a", "b"}, "lock_1": {"a"}, "lock_3": {"c"}}
	after := assignment.Assignment{"lock_10": {"b"}, "lock_2": {"a", "c"}, "lock_4": {"c"}, "lock_3": {"c"}}

	require.Equal(t, []assignment.Move{
		{Lock: "lock_1", From: "a"},
		{Lock: "lock_2", From: "b", To: "c"},
		{Lock: "lock_4", To: "c"},
		{Lock: "lock_10", From: "a", To: "b"},
	}, assignment.Moves(before, after))
	require.Equal(t, "lock_1: a -> none", assignment.Moves(before, after)[0].String())
}

func TestVoluntaryMovesBeyondTheLimitAreHeldBack(t *testing.T) {
	before := assignment.Assignment{"lock_0": {"a"}, "lock_1": {"a"}, "lock_2": {"a"}, "lock_3": {"gone"}, "lock_5": {"a"}}
	after := assignment.Assignment{"lock_0": {"b"}, "lock_1": {"b"}, "lock_2": {"a"}, "lock_3": {"b"}, "lock_4": {"c"}}

	limited, held := assignment.LimitMoves(before, after, []string{"a", "b", "c"}, assignment.Hints{Holders: 2}, 1)

	require.Equal(t, assignment.Assignment{"lock_0": {"b"}, "lock_1": {"a"}, "lock_2": {"a"}, "lock_3": {"b"}, "lock_4": {"c"}}, limited)
	require.Equal(t, []assignment.Move{{Lock: "lock_1", From: "a", To: "b"}}, held)
	require.Equal(t, []string{"b"}, after["lock_1"], "what was handed in is as it was")

	limited, held = assignment.LimitMoves(before, after, []string{"a", "b", "c"}, assignment.Hints{Holders: 2}, 0)
	require.Equal(t, after, limited)
	require.Empty(t, held)
}

func TestAHolderThatIsGoneIsReplacedBeforeOneThatIsLive(t *testing.T) {
	before := assignment.Assignment{"lock": {"a", "b"}}
	after := assignment.Assignment{"lock": {"c", "d"}}

	limited, held := assignment.LimitMoves(before, after, []string{"a", "c", "d"}, assignment.Hints{Holders: 2}, 1)
	require.Equal(t, after, limited)
	require.Empty(t, held)

	before["other"], after["other"] = []string{"a", "b"}, []string{"c", "d"}
	limited, held = assignment.LimitMoves(before, after, []string{"a", "c", "d"}, assignment.Hints{Holders: 2}, 1)
	require.Equal(t, assignment.Assignment{"lock": {"c", "d"}, "other": {"a", "c"}}, limited)
	require.Equal(t, []assignment.Move{{Lock: "other", From: "a", To: "d"}}, held)
}

func TestNamesAreComparedAsPeopleDo(t *testing.T) {
	list := []string{"b", "lock_10", "lock_2", "lock_02", "lock", "lock_2a", "lock_2b1", "a", "lock_"}
	slices.SortFunc(list, assignment.Compare)
	require.Equal(t, []string{"a", "b", "lock", "lock_", "lock_02", "lock_2", "lock_2a", "lock_2b1", "lock_10"}, list)
	require.Zero(t, assignment.Compare("lock_2", "lock_2"))
}

func TestAssignmentTellsWhatAMemberHolds(t *testing.T) {
	a := assignment.Assignment{"lock_10": {"b", "a"}, "lock_2": {"a"}, "lock_3": nil}
	require.Equal(t, []string{"lock_2", "lock_10"}, a.Holds("a"))
	require.Equal(t, map[string]int{"a": 2, "b": 1}, a.Counts())
	require.True(t, a.Equal(assignment.Assignment{"lock_10": {"a", "b"}, "lock_2": {"a"}}))
	require.False(t, a.Equal(assignment.Assignment{"lock_10": {"a", "b"}}))
}

func TestALimitThatIsLoweredTakesLocksAway(t *testing.T) {
	for _, name := range assignment.Names() {
		before := run(t, named(t, name), names("lock", 10), []string{"a", "b"}, nil, assignment.Hints{})
		after := run(t, named(t, name), names("lock", 10), []string{"a", "b"}, before, assignment.Hints{Limit: 3})
		require.Equal(t, []int{3, 3}, counts(after), name)
	}
}

func TestWeightsPinsAndALimitDivideWhatIsLeft(t *testing.T) {
	// a may have 5 only; then b's share of the rest is more than what is pinned to it.
	hints := assignment.Hints{
		Limit:   5,
		Weights: map[string]float64{"a": 20, "b": 3, "c": 1},
		Pins:    map[string]string{"lock_0": "b", "lock_1": "b", "lock_2": "b"},
	}
	next := run(t, assignment.Weighted{}, names("lock", 10), []string{"a", "b", "c"}, nil, hints)
	require.Equal(t, map[string]int{"a": 5, "b": 4, "c": 1}, next.Counts())
}
