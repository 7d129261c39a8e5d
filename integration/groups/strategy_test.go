package groups

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/recipes/assignment"
)

// moody does what it is told to.
type moody struct{ mood atomic.Value }

var errMood = errors.New("not today")

func (m *moody) Assign(locks, live []string, previous assignment.Assignment, hints assignment.Hints) (assignment.Assignment, error) {
	switch m.mood.Load() {
	case "error":
		return nil, errMood
	case "panic":
		panic("in the strategy")
	case "nonsense":
		return assignment.Assignment{locks[0]: {"nobody"}, "no-lock": live}, nil
	}
	return assignment.Balanced{}.Assign(locks, live, previous, hints)
}

func TestStrategyThatFailsKeepsWhatWasPlannedAndIsToldAndAskedAgain(t *testing.T) {
	t.Parallel()
	for _, mood := range []string{"error", "panic", "nonsense"} {
		t.Run(mood, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)

			// given three participants with a strategy of the user's
			var strategy moody
			strategy.mood.Store("")
			own := recipes.GroupOptions{Strategies: map[string]assignment.Strategy{"moody": &strategy}}
			s := spec(12, func(s *recipes.GroupSpec) { s.Strategy = "moody" })
			var players []*player
			for _, name := range []string{"node1", "node2", "node3"} {
				p := h.player(name, h.client())
				p.join(s, own)
				players = append(players, p)
			}
			one, two, third := players[0], players[1], players[2]
			h.share(s, map[*player]int{one: 4, two: 4, third: 4})
			gave := append(one.gaveUp(), two.gaveUp()...)

			// when the strategy fails as one leaves
			strategy.mood.Store(mood)
			third.leave()
			failed := await[recipes.GroupStrategyFailed](t, one.told)

			// then the controller is told, all others keep theirs, and what it had is nobody's
			require.Equal(t, "moody", failed.Strategy)
			require.Error(t, failed.Err)
			if mood == "error" {
				require.ErrorIs(t, failed.Err, errMood)
			}
			h.share(s, map[*player]int{one: 4, two: 4})
			state := h.state()
			require.NotEmpty(t, state.StrategyError)
			free := 0
			for _, lock := range state.Locks {
				if lock.State == recipes.GroupReleased {
					free++
				}
			}
			require.Equal(t, 4, free)

			// and after the next change all is well again
			strategy.mood.Store("")
			four := h.player("node4", h.client())
			four.join(s, own)
			h.share(s, map[*player]int{one: 4, two: 4, four: 4})
			require.Empty(t, h.state().StrategyError)
			require.Equal(t, gave, append(one.gaveUp(), two.gaveUp()...))
		})
	}
}

func TestStrategyThatIsNotKnownToOneControllerIsToTheNext(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	own := recipes.GroupOptions{Strategies: map[string]assignment.Strategy{"own": assignment.StrategyFunc(assignment.Balanced{}.Assign)}}
	slow := debounce(3 * time.Second)
	s := spec(4, slow, func(s *recipes.GroupSpec) { s.Strategy = "own" })

	// given a controller of an older version of the program, which lacks the strategy
	proxy := netfault.New(t, h.server.Addr())
	old := h.join(spec(4, slow), "old", at(proxy.Addr()), timeout(3*time.Second))
	h.share(s, map[*player]int{old: 4})
	young := h.player("young", h.client())
	young.join(s, own)
	failed := await[recipes.GroupStrategyFailed](t, old.told)
	require.ErrorContains(t, failed.Err, "own")
	h.share(s, map[*player]int{old: 4, young: 0})

	// when another one takes its place, though all are there as before, it asks again
	h.expires(old, proxy, 1)
	await[recipes.GroupJoined](t, old.told)
	h.share(s, map[*player]int{old: 2, young: 2})
	require.Equal(t, "young", func() string { s := h.state(); return s.Controller() }())
	require.Empty(t, h.state().StrategyError)
}

func TestStrategyThatTakesForeverHoldsUpNobodyWhoLeaves(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	stuck := make(chan struct{})
	defer close(stuck)
	asked := make(chan struct{}, 10)
	own := recipes.GroupOptions{Strategies: map[string]assignment.Strategy{"stuck": assignment.StrategyFunc(
		func([]string, []string, assignment.Assignment, assignment.Hints) (assignment.Assignment, error) {
			asked <- struct{}{}
			<-stuck
			return nil, nil
		})}}
	s := spec(4, func(s *recipes.GroupSpec) { s.Strategy = "stuck" })
	one := h.player("node1", h.client())
	one.join(s, own)
	<-asked

	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	require.NoError(t, one.m.Leave(ctx))
	h.nobodyThere()
}

func TestLocksGoOnMovingWhileTheStrategyThinks(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	var thinks atomic.Bool
	asked, proceed := make(chan struct{}, 10), make(chan struct{})
	own := recipes.GroupOptions{Strategies: map[string]assignment.Strategy{"slow": assignment.StrategyFunc(
		func(locks, live []string, previous assignment.Assignment, hints assignment.Hints) (assignment.Assignment, error) {
			if thinks.Load() {
				asked <- struct{}{}
				<-proceed
			}
			return assignment.Balanced{}.Assign(locks, live, previous, hints)
		})}}
	s := spec(12, func(s *recipes.GroupSpec) { s.Strategy = "slow" })
	one := h.player("node1", h.client())
	one.join(s, own)
	h.share(s, map[*player]int{one: 12})

	// given six locks on their way, whose holder still cleans up
	cleaned := make(chan struct{})
	one.mu.Lock()
	one.released = func(context.Context, string) { <-cleaned }
	one.mu.Unlock()
	two := h.player("node2", h.client())
	two.join(s, own)
	require.Eventually(t, func() bool { return len(one.m.Locks()) == 6 }, soon, time.Millisecond)

	// when the strategy takes its time over the next plan
	thinks.Store(true)
	three := h.player("node3", h.client())
	three.join(s, own)
	<-asked
	close(cleaned)

	// then they arrive all the same
	h.share(s, map[*player]int{one: 6, two: 6, three: 0})
	require.Empty(t, all[recipes.GroupStrategyFailed](one.told))

	// and are planned anew once it has answered
	thinks.Store(false)
	close(proceed)
	h.share(s, map[*player]int{one: 4, two: 4, three: 4})
}

func TestStrategyThatThinksForeverIsReplacedAtOnceByAnother(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	stuck := make(chan struct{})
	defer close(stuck)
	asked := make(chan struct{}, 10)
	own := recipes.GroupOptions{Strategies: map[string]assignment.Strategy{"stuck": assignment.StrategyFunc(
		func([]string, []string, assignment.Assignment, assignment.Hints) (assignment.Assignment, error) {
			asked <- struct{}{}
			<-stuck
			return nil, nil
		})}}
	one := h.player("node1", h.client())
	one.join(spec(4, func(s *recipes.GroupSpec) { s.Strategy = "stuck" }), own)
	<-asked

	start := time.Now()
	g, err := h.watcher.Group(spec(4))
	require.NoError(t, err)
	_, err = g.Apply(t.Context())
	require.NoError(t, err)
	h.share(spec(4), map[*player]int{one: 4})
	require.Less(t, time.Since(start), 20*time.Second)
}

func TestStrategyThatEndsItsGoroutineHasFailed(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	own := recipes.GroupOptions{Strategies: map[string]assignment.Strategy{"gone": assignment.StrategyFunc(
		func([]string, []string, assignment.Assignment, assignment.Hints) (assignment.Assignment, error) {
			runtime.Goexit()
			return nil, nil
		})}}
	one := h.player("node1", h.client())
	one.join(spec(4, func(s *recipes.GroupSpec) { s.Strategy = "gone" }), own)
	require.ErrorContains(t, await[recipes.GroupStrategyFailed](t, one.told).Err, "goroutine")
	require.NotEmpty(t, h.state().StrategyError)
}

func TestMovesOfARoundAreLimitedAndRoundsFollow(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	s := spec(12, func(s *recipes.GroupSpec) { s.MaxMoves = 2 })

	// given a participant that holds all, which is not limited: nobody had them
	one := h.join(s, "node1")
	h.share(s, map[*player]int{one: 12})
	await[recipes.GroupRoundDone](t, one.told)

	// when another one joins, 6 locks move, two a round
	two := h.join(s, "node2")
	h.share(s, map[*player]int{one: 6, two: 6})
	for range 3 {
		require.Equal(t, 2, await[recipes.GroupRoundDone](t, one.told).Moves)
	}
	require.EqualValues(t, 6, h.state().MovedTotal)

	// and what nobody holds any more is not limited
	two.leave()
	h.share(s, map[*player]int{one: 12})
	require.Equal(t, 6, h.state().Moved)
}

func TestLocksMoveOnceTheParticipantsHaveBeenTheSameForTheDebounce(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	s := spec(12, debounce(500*time.Millisecond))
	players := three(h, s)

	// when one leaves and comes back before that
	before := h.state()
	held := players[2].locks()
	gave := len(players[0].gaveUp()) + len(players[1].gaveUp())
	players[2].leave()
	again := h.join(s, "node3")

	// then it has its locks again, and no other one has moved
	h.share(s, map[*player]int{players[0]: 4, players[1]: 4, again: 4})
	require.Equal(t, held, again.locks())
	require.Equal(t, before.MovedTotal, h.state().MovedTotal)
	require.Equal(t, before.Generation, h.state().Generation)
	require.Equal(t, gave, len(players[0].gaveUp())+len(players[1].gaveUp()))
}

func TestLocksThatNobodyHoldsWaitForOneDebounceThoughOthersComeAndGo(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	const wait = 800 * time.Millisecond // longer than it takes to come and to go, on a busy machine too
	s := spec(12, debounce(wait))
	players := three(h, s)
	generation := h.state().Generation

	// given a participant that comes and goes all the time
	ctx, stop := context.WithCancel(t.Context())
	flapping := make(chan struct{})
	flapper := h.player("flapper", h.client())
	g := flapper.group(s)
	var calm atomic.Int64 // the longest time in which it neither came nor went: a busy machine lets it stand
	go func() {
		defer close(flapping)
		for last := time.Now(); ctx.Err() == nil; last = time.Now() {
			m, err := g.Join(context.WithoutCancel(ctx), "flapper", flapper)
			calm.Store(max(calm.Load(), int64(time.Since(last))))
			last = time.Now()
			if err != nil {
				t.Error(err)
				return
			}
			pause(50 * time.Millisecond)
			if err := m.Leave(context.WithoutCancel(ctx)); err != nil {
				t.Error(err)
			}
			calm.Store(max(calm.Load(), int64(time.Since(last))))
			pause(50 * time.Millisecond)
		}
	}()

	// when two come to stay and another one leaves
	gave := func() int { return len(players[0].gaveUp()) + len(players[1].gaveUp()) }
	before := gave()
	h.join(s, "node4")
	h.join(s, "node5")
	start := time.Now()
	players[2].leave()
	var round recipes.GroupRoundDone
	for round.Generation <= generation {
		round = await[recipes.GroupRoundDone](t, players[0].told)
	}
	took := time.Since(start)

	// then its locks are given away after one debounce, and nothing else has moved
	t.Logf("given away %s after the leave; the debounce is %s", took.Round(time.Millisecond), wait)
	require.Less(t, took, 3*wait)
	require.Equal(t, generation+1, round.Generation)
	require.Equal(t, 4, round.Moves)

	// and the others give of theirs at the limit, however long it goes on
	require.Eventually(t, func() bool { return gave() > before }, soon, time.Millisecond)
	late := time.Since(start)
	t.Logf("planned for all %s after the leave; the limit is %s", late.Round(time.Millisecond), recipes.DebounceLimit*wait)
	if time.Duration(calm.Load()) < wait/2 {
		require.Greater(t, late, 2*wait)
	}
	require.Less(t, late, (recipes.DebounceLimit+8)*wait)
	stop()
	<-flapping
}

func pause(d time.Duration) { <-time.After(d) }

func TestStrategyOfTheUserSpreadsSixtyLocks(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	own := recipes.GroupOptions{Strategies: map[string]assignment.Strategy{"round": assignment.StrategyFunc(
		func(locks, live []string, _ assignment.Assignment, _ assignment.Hints) (assignment.Assignment, error) {
			a := assignment.Assignment{}
			for i, lock := range locks {
				a[lock] = []string{live[i%len(live)]}
			}
			return a, nil
		})}}
	s := spec(60, func(s *recipes.GroupSpec) { s.Strategy = "round" })
	want := map[*player]int{}
	for _, name := range []string{"node1", "node2", "node3"} {
		p := h.player(name, h.client())
		p.join(s, own)
		want[p] = 20
	}
	h.share(s, want)
	for _, lock := range h.state().Locks {
		require.Len(t, lock.Holders, 1)
	}
}

func TestStickyStrategyMovesNothingButWhatNobodyHolds(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	slow := debounce(300 * time.Millisecond)
	s := spec(12, slow, func(s *recipes.GroupSpec) { s.Strategy, s.Limit = "sticky", 6 })

	// given one participant with a limit, then a second one
	one := h.join(s, "node1")
	h.share(s, map[*player]int{one: 6})
	two := h.join(s, "node2")
	h.share(s, map[*player]int{one: 6, two: 6})

	// then a third one gets nothing
	three := h.join(s, "node3")
	require.Never(t, func() bool { return len(three.m.Locks()) > 0 }, time.Second, 20*time.Millisecond)

	// until one is gone, whose locks alone move
	held := two.locks()
	one.leave()
	h.share(s, map[*player]int{two: 6, three: 6})
	require.Equal(t, held, two.locks())

	// and one that restarts has its own again, and nobody else does
	held = three.locks()
	three.leave()
	again := h.join(s, "node3")
	h.share(s, map[*player]int{two: 6, again: 6})
	require.Equal(t, held, again.locks())
	require.Empty(t, two.gaveUp())
}
