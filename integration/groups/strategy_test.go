package groups

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/assignment"
	"github.com/lockkeeper/lockkeeper/recipes/group"
)

type assign = func(locks, live []string, previous assignment.Assignment, hints assignment.Hints) (assignment.Assignment, error)

// own is a strategy of the user's.
func own(f assign) group.Options {
	return group.Options{Strategies: map[string]assignment.Strategy{"own": assignment.StrategyFunc(f)}}
}

// members join, one after the other.
func (f *fixture) members(s group.Spec, o group.Options, names ...string) (players []*player) {
	f.Helper()
	for _, name := range names {
		p := f.player(name, f.client())
		p.join(s, o)
		players = append(players, p)
	}
	return players
}

var errMood = errors.New("not today")

func TestStrategyThatFailsKeepsWhatWasPlannedAndIsReportedAndAskedAgain(t *testing.T) {
	t.Parallel()
	moods := map[string]func(lock string, live []string) (assignment.Assignment, error){
		"error": func(string, []string) (assignment.Assignment, error) { return nil, errMood },
		"panic": func(string, []string) (assignment.Assignment, error) { panic("in the strategy") },
		"exit":  func(string, []string) (assignment.Assignment, error) { runtime.Goexit(); return nil, nil },
		"nonsense": func(lock string, live []string) (assignment.Assignment, error) {
			return assignment.Assignment{lock: {"unknown"}, "no-lock": live}, nil
		},
	}
	for name, mood := range moods {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := share(t)

			// given three participants with a strategy of the user's
			var fails atomic.Bool
			o := own(func(locks, live []string, previous assignment.Assignment, hints assignment.Hints) (assignment.Assignment, error) {
				if fails.Load() {
					return mood(locks[0], live)
				}
				return assignment.Balanced{}.Assign(locks, live, previous, hints)
			})
			s := spec(12, strategy("own"))
			players := f.members(s, o, "node1", "node2", "node3")
			f.share(4, players...)
			one, two := players[0], players[1]
			gave := given(one, two)

			// when the strategy fails as one leaves
			fails.Store(true)
			players[2].leave()
			failed := harness.Await[group.StrategyFailed](t, one.Notices)

			// then the controller is notified, all others keep theirs, and its locks are free
			require.Equal(t, "own", failed.Strategy)
			require.Error(t, failed.Err)
			if name == "error" {
				require.ErrorIs(t, failed.Err, errMood)
			}
			f.share(4, one, two)
			state := f.state()
			require.NotEmpty(t, state.StrategyError)
			free := 0
			for _, lock := range state.Locks {
				if lock.State == group.Released {
					free++
				}
			}
			require.Equal(t, 4, free)

			// and after the next change all is well again
			fails.Store(false)
			f.share(4, append(f.members(s, o, "node4"), one, two)...)
			require.Empty(t, f.state().StrategyError)
			require.Equal(t, gave, given(one, two))
		})
	}
}

func TestStrategyThatIsNotKnownToOneControllerIsToTheNext(t *testing.T) {
	virtually(t, func(t *testing.T, f *fixture) {
		o := own(assignment.Balanced{}.Assign)
		s := spec(4, strategy("own"))

		// given a controller of an older version of the program, which lacks the strategy
		old := f.join(spec(4), "old")
		f.share(4, old)
		young := f.members(s, o, "young")[0]
		require.ErrorContains(t, harness.Await[group.StrategyFailed](t, old.Notices).Err, "own")
		f.share(4, old)
		require.Empty(t, young.locks())

		// when another one takes its place, though all are there as before, it asks again
		old.expires()
		f.share(2, old, young)
		state := f.state()
		require.Equal(t, "young", state.Controller())
		require.Empty(t, state.StrategyError)
	})
}

func TestStrategyThatThinksForeverDoesNotDelayLeavingAndIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	f := share(t)
	stuck, asked := make(chan struct{}), make(chan struct{}, 10)
	defer close(stuck)
	s := spec(4, strategy("own"))
	players := f.members(s, own(func([]string, []string, assignment.Assignment, assignment.Hints) (assignment.Assignment, error) {
		asked <- struct{}{}
		<-stuck
		return nil, nil
	}), "node1", "node2")
	harness.Receive(t, asked, "the strategy is not asked")

	players[1].leave()
	harness.Eventually(t, func() bool { return len(f.state().Members) == 1 }, "it has not left")
	f.apply(spec(4))
	f.share(4, players[0])
}

func TestLocksGoOnMovingWhileTheStrategyThinks(t *testing.T) {
	t.Parallel()
	f := share(t)
	var thinks atomic.Bool
	asked, proceed := make(chan struct{}, 10), make(chan struct{})
	o := own(func(locks, live []string, previous assignment.Assignment, hints assignment.Hints) (assignment.Assignment, error) {
		if thinks.Load() {
			asked <- struct{}{}
			<-proceed
		}
		return assignment.Balanced{}.Assign(locks, live, previous, hints)
	})
	s := spec(12, strategy("own"))
	one := f.members(s, o, "node1")[0]
	f.share(12, one)

	// given six locks on their way, whose holder still cleans up
	cleaned := make(chan struct{})
	one.onRelease(func(context.Context, string) { <-cleaned })
	two := f.members(s, o, "node2")[0]
	harness.Eventually(t, func() bool { return len(one.locks()) == 6 }, "nothing moves")

	// when the strategy takes its time over the next plan
	thinks.Store(true)
	third := f.members(s, o, "node3")[0]
	harness.Receive(t, asked, "the strategy is not asked")
	close(cleaned)

	// then they arrive all the same
	f.share(6, one, two)
	require.Empty(t, third.locks())
	require.Empty(t, harness.All[group.StrategyFailed](one.Notices))

	// and are planned anew once it has answered
	thinks.Store(false)
	close(proceed)
	f.share(4, one, two, third)
}
