package groups

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/recipes/assignment"
)

func TestSpecThatIsInForceIsNotWrittenAgain(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	g, err := h.watcher.Group(spec(12))
	require.NoError(t, err)

	changed, err := g.Apply(t.Context())
	require.NoError(t, err)
	require.True(t, changed)
	shell := h.shell()
	_, before, err := shell.Get(h.path())
	require.NoError(t, err)

	again, err := h.client().Group(spec(12, func(s *recipes.GroupSpec) { s.Holders, s.Strategy = 1, "balanced" }))
	require.NoError(t, err)
	changed, err = again.Apply(t.Context())
	require.NoError(t, err)
	require.False(t, changed)
	_, after, err := shell.Get(h.path())
	require.NoError(t, err)
	require.Equal(t, before.Mzxid, after.Mzxid)
	require.Equal(t, g.Spec(), h.state().Spec)

	other, err := h.watcher.Group(spec(13))
	require.NoError(t, err)
	changed, err = other.Apply(t.Context())
	require.NoError(t, err)
	require.True(t, changed)
	require.Len(t, h.state().Spec.Locks, 13)
}

func TestGroupThatGrowsAndShrinksGivesAndDropsLocks(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	s := spec(4)
	one, two := h.join(s, "node1"), h.join(s, "node2")
	h.share(s, map[*player]int{one: 2, two: 2})
	apply := func(s recipes.GroupSpec) {
		t.Helper()
		g, err := h.watcher.Group(s)
		require.NoError(t, err)
		_, err = g.Apply(t.Context())
		require.NoError(t, err)
	}

	// when the group grows, the new locks are given out and no other one moves
	gave := len(one.gaveUp()) + len(two.gaveUp())
	apply(spec(8))
	h.share(s, map[*player]int{one: 4, two: 4})
	require.Equal(t, gave, len(one.gaveUp())+len(two.gaveUp()))

	// when it shrinks, the locks are released, then dropped
	apply(spec(2))
	h.share(s, map[*player]int{one: 1, two: 1})
	require.Eventually(t, func() bool { return len(h.state().Locks) == 2 }, soon, time.Millisecond)
	require.Eventually(t, func() bool {
		dropped := 0
		for _, p := range []*player{one, two} {
			for i := range 8 {
				calls := p.history(fmt.Sprintf("%s_%d", groupName, i))
				if len(calls) > 0 && calls[len(calls)-1] == "dropped" {
					if calls[len(calls)-2] != "released" {
						t.Errorf("%v", calls)
					}
					dropped++
				}
			}
		}
		return dropped >= 6
	}, soon, time.Millisecond)

	// and with more holders both hold all
	h.referee.mu.Lock()
	h.referee.holders = 2
	h.referee.mu.Unlock()
	apply(spec(2, func(s *recipes.GroupSpec) { s.Holders = 2 }))
	h.share(s, map[*player]int{one: 2, two: 2})
}

func TestLocksWithSeveralHoldersNeverHaveMore(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	h.referee.holders = 2
	s := spec(12, func(s *recipes.GroupSpec) { s.Holders = 2 })

	one := h.join(s, "node1")
	h.share(s, map[*player]int{one: 12}) // fewer participants than holders
	two := h.join(s, "node2")
	h.share(s, map[*player]int{one: 12, two: 12})
	three := h.join(s, "node3")
	h.share(s, map[*player]int{one: 8, two: 8, three: 8})
	four := h.join(s, "node4")
	h.share(s, map[*player]int{one: 6, two: 6, three: 6, four: 6})
	two.leave()
	h.share(s, map[*player]int{one: 8, three: 8, four: 8})
	for _, lock := range h.state().Locks {
		require.Len(t, lock.Holders, 2)
	}
}

func TestNameThatIsTakenIsWaitedFor(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	s := spec(4)
	first := h.join(s, "node1")
	h.share(s, map[*player]int{first: 4})

	// given another one that wants the same name
	second := h.player("node1", h.client())
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := second.group(s).Join(ctx, "node1", second)

	// then it is told who has it, and has left nothing behind
	var taken *recipes.NameTakenError
	require.ErrorAs(t, err, &taken)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotEmpty(t, taken.Host)
	require.Positive(t, taken.PID)
	require.Eventually(t, func() bool { return len(h.members()) == 1 }, soon, time.Millisecond)

	// and when it waits for longer, it has the locks after the first
	joined := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		var err error
		second.m, err = second.group(s).Join(ctx, "node1", second)
		joined <- err
	}()
	require.Eventually(t, func() bool {
		state := h.state()
		return len(state.Members) == 2 && state.Members[1].Waiting && !state.Members[1].Controller
	}, soon, time.Millisecond)
	g, err := h.watcher.Group(spec(6)) // what is new goes to the first, too
	require.NoError(t, err)
	_, err = g.Apply(t.Context())
	require.NoError(t, err)
	h.share(s, map[*player]int{first: 6})
	first.leave()
	require.NoError(t, <-joined)
	h.share(s, map[*player]int{second: 6})
	require.EqualValues(t, 0, h.state().MovedTotal)
}

func TestOnlyDeclaredParticipantsJoinAGroupThatDeclaresThem(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	s := spec(4, func(s *recipes.GroupSpec) { s.Participants = []string{"node1", "node2"} })
	one := h.join(s, "node1")
	h.share(s, map[*player]int{one: 4})

	_, err := one.group(s).Join(t.Context(), "stranger", one)
	var refused *recipes.NotParticipantError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, []string{"node1", "node2"}, refused.Participants)
	var bad *recipes.RequestError
	_, err = one.group(s).Join(t.Context(), "a//b", one)
	require.ErrorAs(t, err, &bad)
	_, err = one.group(s).Join(t.Context(), "node2", nil)
	require.ErrorAs(t, err, &bad)

	// one that is struck off the list keeps its place and gets nothing
	g, err := h.watcher.Group(spec(4, func(s *recipes.GroupSpec) { s.Participants = []string{"node2"} }))
	require.NoError(t, err)
	_, err = g.Apply(t.Context())
	require.NoError(t, err)
	h.share(s, map[*player]int{one: 0})
	require.Len(t, h.state().Members, 1)
}

func TestEverythingWrongWithAGroupIsToldAtOnce(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	_, err := h.watcher.Group(recipes.GroupSpec{
		Name: "/", Locks: []string{"a", "a", ""}, Holders: -1, Limit: -1, Strategy: "none", CleanupTimeout: -1, Debounce: -1, MaxMoves: -1,
		Participants: []string{"p", " q"}, Weights: map[string]float64{"p": -1}, Pins: map[string]string{"b": "x"}, Zones: map[string]string{"y": "z"},
	}, recipes.GroupOptions{Strategies: map[string]assignment.Strategy{"mod": nil}})
	var texts []string
	var collect func(error)
	collect = func(err error) {
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range many.Unwrap() {
				collect(e)
			}
			return
		}
		var bad *recipes.RequestError
		require.ErrorAs(t, err, &bad)
		texts = append(texts, bad.Field)
	}
	collect(err)
	slices.Sort(texts)
	require.Equal(t, []string{
		"cleanup_timeout", "debounce", "holders", "limit", "locks", "locks", "max_moves", "name", "participants", "pins", "pins", "strategies", "strategy", "weights", "zones",
	}, texts)

	_, err = h.watcher.Group(recipes.GroupSpec{Name: "none"})
	require.ErrorContains(t, err, "locks")
	_, err = h.watcher.Group(recipes.GroupSpec{Name: "large", Locks: recipes.NumberedLocks(strings.Repeat("x", 100), 10_000)})
	require.ErrorContains(t, err, "one node of ZooKeeper")
	_, err = h.watcher.Group(recipes.GroupSpec{Name: "fits", Locks: recipes.NumberedLocks("lock", 10_000)})
	require.NoError(t, err)
}

func TestGroupThatIsNotThereIsSaidToBe(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	groups, _, err := h.watcher.Groups(t.Context())
	require.NoError(t, err)
	require.Empty(t, groups)
	_, err = h.watcher.GroupState(t.Context(), "none")
	var missing *recipes.GroupNotFoundError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, "none", missing.Group)

	one := h.join(spec(2), "node1")
	h.share(spec(2), map[*player]int{one: 2})
	groups, _, err = h.watcher.Groups(t.Context())
	require.NoError(t, err)
	require.Len(t, groups, 1)
	require.Equal(t, "node1", groups[0].Controller())
	require.Equal(t, recipes.GroupLocked, groups[0].Locks[1].State)
	require.Equal(t, one.m.Locks()[1].Token, groups[0].Locks[1].Holders[0].Token)
	require.NotErrorIs(t, one.m.Err(), recipes.ErrClosed)
}
