package groups

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// three has 12 locks spread over three participants.
func three(h *house, s recipes.GroupSpec, change ...func(*recipes.Config)) []*player {
	h.t.Helper()
	players := []*player{h.join(s, "node1", change...), h.join(s, "node2", change...), h.join(s, "node3", change...)}
	h.share(s, map[*player]int{players[0]: 4, players[1]: 4, players[2]: 4})
	return players
}

func TestParticipantThatLeavesHandsItsLocksOverAtOnceAndNoOtherOneMoves(t *testing.T) {
	t.Parallel()
	for name, goes := range map[string]int{"the controller": 0, "another one": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)

			// given 12 locks over three participants, 4 each
			s := spec(12)
			players := three(h, s)
			before := h.state()
			leaver := players[goes]
			others := append(append([]*player{}, players[:goes]...), players[goes+1:]...)
			kept := append(others[0].locks(), others[1].locks()...)
			gave := len(others[0].gaveUp()) + len(others[1].gaveUp())

			// when one leaves
			had := leaver.locks()
			require.Len(t, had, 4)
			start := time.Now()
			leaver.leave()
			h.share(s, map[*player]int{others[0]: 6, others[1]: 6})
			took := time.Since(start)

			// then its 4 locks have moved, and no survivor lost one
			t.Logf("graceful: %d locks handed over %s after the leave began", 4, took.Round(time.Millisecond))
			require.Equal(t, gave, len(others[0].gaveUp())+len(others[1].gaveUp()))
			require.Subset(t, append(others[0].locks(), others[1].locks()...), kept)
			after := h.state()
			require.Equal(t, 4, after.Moved)
			require.Equal(t, before.MovedTotal+4, after.MovedTotal)

			// and each of them was released, then dropped
			for _, lock := range had {
				calls := leaver.history(lock)
				require.Equal(t, []string{"locked", "released", "dropped"}, calls[len(calls)-3:])
			}
			require.NoError(t, leaver.m.Err())
			require.Empty(t, leaver.m.Locks())

			// and nobody waited for its session to end
			require.Less(t, took, 10*time.Second, "the locks were not given away")
		})
	}
}

func TestParticipantThatJoinsIsGivenItsShareAndNoMore(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	s := spec(12)

	// given participants that join one after the other
	one := h.join(s, "node1")
	h.share(s, map[*player]int{one: 12})
	require.Equal(t, 0, h.state().Moved)

	// then each of them takes floor(locks / participants) from those that are there
	two := h.join(s, "node2")
	h.share(s, map[*player]int{one: 6, two: 6})
	require.Equal(t, 6, h.state().Moved)
	three := h.join(s, "node3")
	h.share(s, map[*player]int{one: 4, two: 4, three: 4})
	require.Equal(t, 4, h.state().Moved)
	five := h.join(s, "node5")
	h.share(s, map[*player]int{one: 3, two: 3, three: 3, five: 3})
	require.Equal(t, 3, h.state().Moved)
	require.EqualValues(t, 13, h.state().MovedTotal)

	// and one that came back was locked twice
	round := await[recipes.GroupRoundDone](t, one.told)
	require.Positive(t, round.Writes)
	require.Equal(t, "node1", func() string { s := h.state(); return s.Controller() }())
}

func TestContextOfALockEndsWithTheReasonWhenTheLockMoves(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	s := spec(2)

	// given a participant whose callbacks work as long as their contexts live
	one := h.player("node1", h.client())
	causes := make(chan error, 2)
	one.locked = func(ctx context.Context, grant recipes.LockGrant) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
	}
	deadlines := make(chan time.Duration, 2)
	one.released = func(ctx context.Context, _ string) {
		deadline, _ := ctx.Deadline()
		deadlines <- time.Until(deadline)
	}
	one.join(s)
	h.share(s, map[*player]int{one: 2})

	// when another one joins
	two := h.join(s, "node2")
	h.share(s, map[*player]int{one: 1, two: 1})

	// then one lock's context has ended, with the reason
	var asked *recipes.ReleaseAskedError
	require.ErrorAs(t, <-causes, &asked)
	require.Equal(t, recipes.ReleaseMoved, asked.Reason)
	require.Equal(t, []string{asked.Lock}, two.locks())
	require.Greater(t, two.m.Locks()[0].Token, asked.Token)
	require.InDelta(t, 10, (<-deadlines).Seconds(), 1)

	// and the other one's ends when the participant leaves
	one.leave()
	require.ErrorAs(t, <-causes, &asked)
	require.Equal(t, recipes.ReleaseLeft, asked.Reason)
	h.share(s, map[*player]int{two: 2})
}
