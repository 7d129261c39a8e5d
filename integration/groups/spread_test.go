package groups

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/group"
)

// three has 12 locks spread over three participants.
func three(f *fixture, s group.Spec) []*player {
	f.Helper()
	players := []*player{f.join(s, "node1"), f.join(s, "node2"), f.join(s, "node3")}
	f.share(4, players...)
	return players
}

func TestParticipantThatLeavesHandsItsLocksOverAtOnceAndNoOtherOneMoves(t *testing.T) {
	t.Parallel()
	for name, goes := range map[string]int{"the controller": 0, "another one": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := share(t)

			// given 12 locks over three participants, 4 each
			players := three(f, spec(12))
			before := f.state()
			leaver := players[goes]
			others := append(append([]*player{}, players[:goes]...), players[goes+1:]...)
			kept, gave, had := append(others[0].locks(), others[1].locks()...), given(others...), leaver.locks()

			// when one leaves
			leaver.leave()
			f.share(6, others...)

			// then its 4 locks have moved, and no survivor lost one
			require.Equal(t, gave, given(others...))
			require.Subset(t, append(others[0].locks(), others[1].locks()...), kept)
			after := f.state()
			require.Equal(t, 4, after.Moved)
			require.Equal(t, before.MovedTotal+4, after.MovedTotal)

			// and each of them was released, then dropped
			for _, lock := range had {
				calls := leaver.history(lock)
				require.Equal(t, []string{"locked", "released", "dropped"}, calls[len(calls)-3:])
			}
			require.NoError(t, leaver.m.Err())
			require.Empty(t, leaver.locks())
		})
	}
}

func TestParticipantThatJoinsIsGivenItsShareAndNoMore(t *testing.T) {
	t.Parallel()
	f := share(t)

	// given participants that join one after the other
	var players []*player
	for _, c := range []struct {
		name        string
		each, moved int
	}{{"node1", 12, 0}, {"node2", 6, 6}, {"node3", 4, 4}, {"node5", 3, 3}} {
		players = append(players, f.join(spec(12), c.name))

		// then each of them takes floor(locks / participants) from those that are there
		f.share(c.each, players...)
		require.Equal(t, c.moved, f.state().Moved)
	}
	state := f.state()
	require.EqualValues(t, 13, state.MovedTotal)
	require.Equal(t, "node1", state.Controller())
	require.Positive(t, harness.Await[group.RoundDone](t, players[0].Notices).Writes)
}

func TestMovesOfARoundAreLimitedAndRoundsFollow(t *testing.T) {
	t.Parallel()
	f := share(t)
	s := spec(12, func(s *group.Spec) { s.MaxMoves = 2 })

	// given a participant that holds all, which is not limited: they were free
	one := f.join(s, "node1")
	f.share(12, one)
	harness.Await[group.RoundDone](t, one.Notices)

	// when another one joins, 6 locks move, two a round
	two := f.join(s, "node2")
	f.share(6, one, two)
	for range 3 {
		require.Equal(t, 2, harness.Await[group.RoundDone](t, one.Notices).Moves)
	}
	require.EqualValues(t, 6, f.state().MovedTotal)

	// and what has become free is not limited
	two.leave()
	f.share(12, one)
	require.Equal(t, 6, f.state().Moved)
}

func TestLocksMoveOnceTheParticipantsHaveBeenTheSameForTheDebounce(t *testing.T) {
	virtually(t, func(t *testing.T, f *fixture) {
		s := spec(12, debounce(500*time.Millisecond))
		players := three(f, s)
		before := f.state()
		held, gave := players[2].locks(), given(players[:2]...)

		// when one leaves and comes back before that
		players[2].leave()
		pass(400 * time.Millisecond)
		again := f.join(s, "node3")

		// then it has its locks again, and no other one has moved
		f.share(4, players[0], players[1], again)
		require.Equal(t, held, again.locks())
		require.Equal(t, before.MovedTotal, f.state().MovedTotal)
		require.Equal(t, before.Generation, f.state().Generation)
		require.Equal(t, gave, given(players[:2]...))
	})
}

func TestFreeLocksWaitForOneDebounceThoughOthersComeAndGo(t *testing.T) {
	virtually(t, func(t *testing.T, f *fixture) {
		const wait = time.Second
		s := spec(12, debounce(wait))
		players := three(f, s)
		generation := f.state().Generation

		// given a participant that comes and goes all the time
		flapper := f.player("flapper", f.client())
		flapping := harness.Run(t, "the flapping", func(ctx context.Context) error {
			for ctx.Err() == nil {
				m, err := flapper.group(s).Join(context.WithoutCancel(ctx), "flapper", flapper)
				if err != nil {
					return err
				}
				<-time.After(wait / 10)
				if err := m.Leave(context.WithoutCancel(ctx)); err != nil {
					return err
				}
				<-time.After(wait / 10)
			}
			return nil
		})

		// when two come to stay and another one leaves
		before := given(players[:2]...)
		f.join(s, "node4")
		f.join(s, "node5")
		start := time.Now()
		players[2].leave()
		var round group.RoundDone
		for round.Generation <= generation {
			round = harness.Await[group.RoundDone](t, players[0].Notices)
		}

		// then its locks are given away after one debounce, and nothing else has moved
		require.WithinRange(t, time.Now(), start.Add(wait), start.Add(wait*11/10))
		require.Equal(t, generation+1, round.Generation)
		require.Equal(t, 4, round.Moves)

		// and the others give of theirs at the limit, however long it goes on
		harness.Eventually(t, func() bool { return given(players[:2]...) > before }, "nothing else moves")
		const limit = group.DebounceLimit * wait
		require.WithinRange(t, time.Now(), start.Add(limit-wait), start.Add(limit+2*wait))
		flapping.Cancel()
		flapping.Granted()
	})
}
