package groups

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/assignment"
	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func TestSpecThatIsInForceIsNotWrittenAgain(t *testing.T) {
	t.Parallel()
	f := share(t)
	require.True(t, f.apply(spec(12)))
	_, before := f.Get(f.path())

	require.False(t, f.apply(spec(12, strategy("balanced"), func(s *group.Spec) { s.Holders = 1 })))

	_, after := f.Get(f.path())
	require.Equal(t, before.Mzxid, after.Mzxid)
	g, err := group.New(f.watcher.Client, spec(12))
	require.NoError(t, err)
	require.Equal(t, g.Spec(), f.state().Spec)
	require.True(t, f.apply(spec(13)))
	require.Len(t, f.state().Spec.Locks, 13)
}

func TestGroupThatGrowsAndShrinksGivesAndDropsLocks(t *testing.T) {
	t.Parallel()
	f := share(t)
	one, two := f.join(spec(4), "node1"), f.join(spec(4), "node2")
	f.share(2, one, two)

	// when the group grows, the new locks are given out and no other one moves
	gave := given(one, two)
	f.apply(spec(8))
	f.share(4, one, two)
	require.Equal(t, gave, given(one, two))

	// when it shrinks, the locks are released, then dropped
	f.apply(spec(2))
	f.share(1, one, two)
	harness.Eventually(t, func() bool { return len(f.state().Locks) == 2 }, "there are more than two locks")
	harness.Eventually(t, func() bool {
		dropped := 0
		for _, p := range []*player{one, two} {
			for i := range 8 {
				if calls := p.history(fmt.Sprintf("%s_%d", groupName, i)); len(calls) > 0 && calls[len(calls)-1] == "dropped" {
					require.Equal(t, "released", calls[len(calls)-2])
					dropped++
				}
			}
		}
		return dropped >= 6
	}, "not all are dropped")

	// and with more holders both hold all
	f.referee.mu.Lock()
	f.referee.holders = 2
	f.referee.mu.Unlock()
	f.apply(spec(2, func(s *group.Spec) { s.Holders = 2 }))
	f.share(2, one, two)
	for _, lock := range f.state().Locks {
		require.Len(t, lock.Holders, 2)
	}
}

func TestJoinThatEndsWhileItsNameIsTakenSaysWhoHasIt(t *testing.T) {
	virtually(t, func(t *testing.T, f *fixture) {
		s := spec(4)
		one := f.join(s, "node1")
		f.share(4, one)

		// given another one that wants the same name, in vain
		second := f.player("node1", f.client())
		vain := harness.Begin(t, "the join", func(ctx context.Context) (*group.Member, error) {
			return second.group(s).Join(ctx, "node1", second)
		})
		f.waits()
		synctest.Wait() // what others see comes before it sees them itself
		vain.Cancel()

		// then it learns who has it, and has left nothing behind
		err := vain.Refused()
		var taken *group.NameTakenError
		require.ErrorAs(t, err, &taken)
		require.ErrorIs(t, err, context.Canceled)
		require.NotEmpty(t, taken.Host)
		require.Positive(t, taken.PID)
		harness.Eventually(t, func() bool { return len(f.state().Members) == 1 }, "something is left")
	})
}

// waits waits until a second participant waits for the name of the first.
func (f *fixture) waits() {
	f.Helper()
	harness.Eventually(f, func() bool {
		state := f.state()
		return len(state.Members) == 2 && state.Members[1].Waiting && !state.Members[1].Controller
	}, "it does not wait")
}

func TestNameThatIsTakenIsWaitedFor(t *testing.T) {
	t.Parallel()
	f := share(t)
	s := spec(4)
	one := f.join(s, "node1")
	f.share(4, one)
	second := f.player("node1", f.client())
	join := func(ctx context.Context) (*group.Member, error) { return second.group(s).Join(ctx, "node1", second) }

	// when another one that wants the same name waits, it has the locks after the first
	again := harness.Begin(t, "the join", join)
	f.waits()
	f.apply(spec(6)) // what is new goes to the first, too
	f.share(6, one)
	one.leave()
	second.m = again.Granted()
	f.share(6, second)
	require.EqualValues(t, 0, f.state().MovedTotal)

	// and whose client is closed at once leaves nothing behind
	third := f.player("node1", f.client())
	brief := harness.Begin(t, "the join", func(ctx context.Context) (*group.Member, error) { return third.group(s).Join(ctx, "node1", third) })
	f.waits()
	brief.Cancel()
	require.ErrorIs(t, brief.Refused(), context.Canceled)
	require.NoError(t, third.c.Close(t.Context()))
	require.Len(t, f.Ephemerals(), 1)
}

func TestOnlyDeclaredParticipantsJoinAGroupThatDeclaresThem(t *testing.T) {
	t.Parallel()
	f := share(t)
	declared := func(names ...string) group.Spec {
		return spec(4, func(s *group.Spec) { s.Participants = names })
	}
	s := declared("node1", "node2")
	one := f.join(s, "node1")
	f.share(4, one)

	_, err := one.group(s).Join(t.Context(), "stranger", one)
	var refused *group.NotParticipantError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, []string{"node1", "node2"}, refused.Participants)
	_, err = one.group(s).Join(t.Context(), "a//b", one)
	require.ErrorAs(t, err, new(*lock.RequestError))
	_, err = one.group(s).Join(t.Context(), "node2", nil)
	require.ErrorAs(t, err, new(*lock.RequestError))

	// one that is struck off the list keeps its place and gets nothing
	f.apply(declared("node2"))
	f.share(0, one)
	require.Len(t, f.state().Members, 1)
}

func TestEverythingWrongWithAGroupIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	f := share(t)
	_, err := group.New(f.watcher.Client, group.Spec{
		Name: "/", Locks: []string{"a", "a", ""}, Holders: -1, Limit: -1, Strategy: "none", CleanupTimeout: -1, Debounce: -1, MaxMoves: -1,
		Participants: []string{"p", " q"}, Weights: map[string]float64{"p": -1}, Pins: map[string]string{"b": "x"}, Zones: map[string]string{"y": "z"},
	}, group.Options{Strategies: map[string]assignment.Strategy{"mod": nil}})
	var fields []string
	var collect func(error)
	collect = func(err error) {
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range many.Unwrap() {
				collect(e)
			}
			return
		}
		var bad *lock.RequestError
		require.ErrorAs(t, err, &bad)
		fields = append(fields, bad.Field)
	}
	collect(err)
	slices.Sort(fields)
	require.Equal(t, []string{
		"cleanup_timeout", "debounce", "holders", "limit", "locks", "locks", "max_moves", "name", "participants", "pins", "pins", "strategies", "strategy", "weights", "zones",
	}, fields)

	_, err = group.New(f.watcher.Client, group.Spec{Name: "none"})
	require.ErrorContains(t, err, "locks")
	_, err = group.New(f.watcher.Client, group.Spec{Name: "large", Locks: group.NumberedLocks(strings.Repeat("x", 100), 10_000)})
	require.ErrorContains(t, err, "one node of ZooKeeper")
	_, err = group.New(f.watcher.Client, group.Spec{Name: "fits", Locks: group.NumberedLocks("lock", 10_000)})
	require.NoError(t, err)
}

func TestGroupThatIsNotThereIsSaidToBe(t *testing.T) {
	t.Parallel()
	f := share(t)
	groups, _, err := group.All(t.Context(), f.watcher.Client)
	require.NoError(t, err)
	require.Empty(t, groups)
	_, err = group.StateOf(t.Context(), f.watcher.Client, "none")
	var missing *group.NotFoundError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, "none", missing.Group)

	one := f.join(spec(2), "node1")
	f.share(2, one)
	groups, _, err = group.All(t.Context(), f.watcher.Client)
	require.NoError(t, err)
	require.Len(t, groups, 1)
	require.Equal(t, "node1", groups[0].Controller())
	require.Equal(t, group.Locked, groups[0].Locks[1].State)
	require.Equal(t, one.m.Locks()[1].Token, groups[0].Locks[1].Holders[0].Token)
}
