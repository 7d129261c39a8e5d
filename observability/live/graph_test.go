package live

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/inspect"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// randomLocks draws locks with holders, waiters, and work that waits for one lock
// under another one.
func randomLocks(t *rapid.T, most int) []lock.State {
	var states []lock.State
	var holders []string
	modes := func() priority.Mode {
		return rapid.SampledFrom([]priority.Mode{priority.Exclusive, priority.Shared}).Draw(t, "mode")
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "locks") {
		s := lock.State{Scope: fmt.Sprint("lock/", i), At: time.Unix(1000, 0)}
		mode := modes()
		n := 1
		if mode == priority.Shared {
			n = rapid.IntRange(1, 3).Draw(t, "holders")
		}
		for j := range n {
			id := fmt.Sprintf("h%d.%d", i, j)
			s.Holders = append(s.Holders, lock.Contender{ID: id, Identity: priority.Identity{Owner: id}, Terms: priority.Terms{Mode: mode, LeaseTimeout: time.Hour}, Remaining: priority.Remaining{LeaseLeft: time.Hour}, Since: time.Unix(int64(900+j), 0), Joined: time.Unix(900, 0)})
			holders = append(holders, id)
		}
		states = append(states, s)
	}
	for i := range states {
		for j := range rapid.IntRange(0, most).Draw(t, "waiters") {
			id := fmt.Sprintf("w%d.%d", i, j)
			w := lock.Contender{ID: id, Identity: priority.Identity{Owner: id}, Terms: priority.Terms{Mode: modes(), LeaseTimeout: time.Hour}, Joined: time.Unix(int64(950+j), 0), Position: j + 1}
			if rapid.IntRange(0, 3).Draw(t, "nested") == 0 {
				w.Under = []string{rapid.SampledFrom(holders).Draw(t, "under")}
			}
			states[i].Waiters = append(states[i].Waiters, w)
		}
	}
	return states
}

func TestBlockersAreThoseOfTheGraph(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		states := randomLocks(t, 8)
		g := inspect.WaitFor(states)
		for i, l := range NewLocks(states) {
			for j, w := range l.Waiters {
				want := []string{}
				for _, e := range g.From(w.ID) {
					want = append(want, e.To.ID)
				}
				require.ElementsMatch(t, want, append([]string{}, w.Blockers...), "%s in %+v", w.ID, states[i])
				require.Equal(t, states[i].Waiters[j].ID, w.ID)
			}
		}
	})
}

// A request that is left out of a long queue is in no circle.
func TestEndOfALongQueueIsInNoCircle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		states := randomLocks(t, 6)
		for i := range states { // a long tail of those who hold nothing
			for j := range rapid.SampledFrom([]int{0, 0, ManyWaiters, ManyWaiters + 30}).Draw(t, "tail") {
				id := fmt.Sprintf("t%d.%d", i, j)
				states[i].Waiters = append(states[i].Waiters, lock.Contender{ID: id, Identity: priority.Identity{Owner: id}, Terms: priority.Terms{LeaseTimeout: time.Hour}, Joined: time.Unix(960, 0), Position: len(states[i].Waiters) + 1})
			}
		}
		circles := func(g inspect.WaitGraph) (all []string) {
			for _, c := range g.Circles() {
				var ids []string
				for _, e := range c.Edges {
					ids = append(ids, e.From.ID)
				}
				all = append(all, fmt.Sprint(ids))
			}
			return all
		}
		w := newWaits(states)
		require.Equal(t, circles(inspect.WaitFor(states)), circles(w.WaitGraph))
	})
}

func TestRootBlockerDoesNotWait(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		states := randomLocks(t, 8)
		g := inspect.WaitFor(states)
		for _, l := range NewLocks(states) {
			switch {
			case len(l.Waiters) == 0:
				require.Nil(t, l.RootBlocker)
				require.False(t, l.InCircle)
			case l.RootBlocker != nil:
				require.False(t, l.InCircle)
				require.Empty(t, g.From(l.RootBlocker.ID))
			case l.InCircle:
				require.NotEmpty(t, g.Circles())
			default:
				require.Empty(t, l.Waiters[0].Blockers, "it has no blockers")
			}
		}
	})
}

// Of several holders the root blocker is the one whose work waits, and whatever that
// waits for.
func TestRootBlockerIsBehindTheHolderThatWaits(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	locks := NewLocks([]lock.State{
		{
			Scope: "a", At: at(1000),
			Holders: []lock.Contender{
				{ID: "stuck", Terms: priority.Terms{Mode: priority.Shared, LeaseTimeout: time.Hour}, Since: at(20)},
				{ID: "old", Terms: priority.Terms{Mode: priority.Shared, LeaseTimeout: time.Hour}, Since: at(10)},
			},
			Waiters: []lock.Contender{{ID: "w", Position: 1, Terms: priority.Terms{LeaseTimeout: time.Hour}, Joined: at(30)}},
		},
		{
			Scope: "b", At: at(1000),
			Holders: []lock.Contender{{ID: "root", Since: at(5), Terms: priority.Terms{LeaseTimeout: time.Hour}}},
			Waiters: []lock.Contender{{ID: "stuck-b", Position: 1, Terms: priority.Terms{LeaseTimeout: time.Hour}, Joined: at(40), Under: []string{"stuck"}}},
		},
	})
	require.Equal(t, "root", locks[0].RootBlocker.ID)
	require.Equal(t, "b", locks[0].RootBlocker.Scope)
	require.Equal(t, "root", locks[1].RootBlocker.ID)
}

func TestGraphIsBounded(t *testing.T) {
	var states []lock.State
	const locks, waiters = 100, 50
	for i := range locks {
		s := lock.State{Scope: fmt.Sprintf("lock/%03d", i), At: time.Unix(1000, 0)}
		s.Holders = []lock.Contender{{ID: fmt.Sprint("h", i), Identity: priority.Identity{Owner: "holder"}, Terms: priority.Terms{LeaseTimeout: time.Hour}}}
		for j := range waiters {
			s.Waiters = append(s.Waiters, lock.Contender{ID: fmt.Sprintf("w%d.%d", i, j), Identity: priority.Identity{Owner: "waiter"}, Position: j + 1})
		}
		states = append(states, s)
	}
	// two of the last wait for each other
	states[locks-2].Waiters[waiters-10].Under = []string{fmt.Sprint("h", locks-1)}
	states[locks-1].Waiters[0].Under = []string{fmt.Sprint("h", locks-2)}
	g := newWaits(states).graph()
	require.LessOrEqual(t, len(g.Nodes), MaxGraphNodes)
	require.Equal(t, locks*(1+waiters), len(g.Nodes)+g.Hidden)
	require.NotEmpty(t, g.Circles)
	for _, id := range g.Circles[0] {
		require.True(t, slices.ContainsFunc(g.Nodes, func(n GraphNode) bool { return n.ID == id }), "%s of the circle", id)
	}
	known := map[string]bool{}
	for _, n := range g.Nodes {
		require.False(t, known[n.ID], "twice")
		known[n.ID] = true
	}
	for _, e := range g.Edges {
		require.True(t, known[e.From] && known[e.To])
	}
}

func TestCutGraphKeepsCirclesAndLongQueues(t *testing.T) {
	t.Parallel()
	var states []lock.State
	for i := range 10 {
		s := lock.State{Scope: fmt.Sprintf("lock/%d", i), At: time.Unix(1000, 0)}
		s.Holders = []lock.Contender{{ID: fmt.Sprint("h", i), Identity: priority.Identity{Owner: "holder"}, Terms: priority.Terms{LeaseTimeout: time.Hour}}}
		for j := range 2 * (i + 1) {
			s.Waiters = append(s.Waiters, lock.Contender{ID: fmt.Sprintf("w%d.%d", i, j), Identity: priority.Identity{Owner: "waiter"}, Position: j + 1})
		}
		states = append(states, s)
	}
	// those of the first two wait for each other, and somebody from the third for the fourth
	states[0].Waiters[1].Under = []string{"h1"}
	states[1].Waiters[3].Under = []string{"h0"}
	states[3].Waiters[7].Under = []string{"h2"}
	g := newWaits(states).graph()
	ids := func(g Graph) (ids []string) {
		for _, n := range g.Nodes {
			ids = append(ids, n.ID)
		}
		return ids
	}
	for _, most := range []int{1, 5, 8, 9, 30, len(g.Nodes) - 1, len(g.Nodes), 1000} {
		cut := g.Cut(most)
		shown := ids(cut)
		var circle []string
		for _, c := range cut.Circles {
			circle = append(circle, c...)
		}
		require.NotEmpty(t, circle)
		require.Equal(t, g.Circles, cut.Circles)
		require.Subset(t, shown, circle, "at most %d", most)
		require.LessOrEqual(t, len(shown), max(most, len(circle)))
		require.Equal(t, len(g.Nodes)+g.Hidden, len(shown)+cut.Hidden, "at most %d", most)
		for _, e := range g.Edges {
			require.Equal(t, slices.Contains(shown, e.From) && slices.Contains(shown, e.To), slices.Contains(cut.Edges, e), "%v, at most %d", e, most)
		}
		at := -1
		for _, id := range shown {
			next := slices.Index(ids(g), id)
			require.Greater(t, next, at, "the order stays")
			at = next
		}
		if most >= 8 {
			require.Subset(t, shown, []string{"h2", "w3.7"}, "at most %d", most)
		}
		if most == 9 {
			require.Contains(t, shown, "h9", "the longest queue")
		}
	}
	require.Equal(t, g, g.Cut(len(g.Nodes)))
}

func TestWordsOfALongQueueAreFew(t *testing.T) {
	s := lock.State{Scope: users, At: time.Unix(1000, 0), Holders: []lock.Contender{{ID: "h", Identity: priority.Identity{Owner: "ann"}, Terms: priority.Terms{LeaseTimeout: time.Hour}, Remaining: priority.Remaining{LeaseLeft: time.Minute}}}}
	for j := range 10_000 {
		s.Waiters = append(s.Waiters, lock.Contender{ID: fmt.Sprint("w", j), Identity: priority.Identity{Owner: "waiter"}, Position: j + 1, Terms: priority.Terms{LeaseTimeout: time.Minute}, Joined: time.Unix(500, 0)})
	}
	l := NewLocks([]lock.State{s})[0]
	require.Contains(t, l.Waiters[0].Why, "held by ann")
	require.Equal(t, "waits behind 9999; those before it decide how long", l.Waiters[9999].Why)
	require.Equal(t, []string{"h", "w9998"}, l.Waiters[9999].Blockers)
}
