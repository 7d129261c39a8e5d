package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// aHolder is a holder whose lease has five minutes left.
func aHolder(id string, change ...func(*lock.Contender)) lock.Contender {
	c := lock.Contender{
		ID: id, Identity: priority.Identity{Owner: id}, Terms: priority.Terms{
			LeaseTimeout:   10 * time.Minute,
			CleanupTimeout: time.Minute,
		}, Remaining: priority.Remaining{LeaseLeft: 5 * time.Minute}, Since: planned.Add(-5 * time.Minute),
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

// aWaiter is a waiter whose work holds other locks.
func aWaiter(id string, under ...string) lock.Contender {
	return lock.Contender{ID: id, Identity: priority.Identity{Owner: id}, Terms: priority.Terms{LeaseTimeout: 10 * time.Minute}, Under: under, Joined: planned.Add(-time.Minute)}
}

func lockNamed(scope string, holders []lock.Contender, waiters ...lock.Contender) lock.State {
	for i := range waiters {
		waiters[i].Position = i + 1
	}
	return lock.State{Scope: scope, At: planned, Holders: holders, Waiters: waiters}
}

func reading(c lock.Contender) lock.Contender {
	c.Mode = priority.Shared
	return c
}

// drawn writes edges as from>to.
func drawn(edges []WaitEdge) []string {
	var all []string
	for _, e := range edges {
		all = append(all, e.From.ID+">"+e.To.ID)
	}
	return all
}

// crossed are two works, each of which holds what the other one waits for.
func crossed() []lock.State {
	return []lock.State{
		lockNamed("orders", []lock.Contender{aHolder("o1")}, aWaiter("o2", "u2")),
		lockNamed("users", []lock.Contender{aHolder("u2", func(c *lock.Contender) { c.Since = planned.Add(-time.Minute) })}, aWaiter("u1", "o1")),
	}
}

func TestWaitForDrawsWhoIsInTheWay(t *testing.T) {
	var (
		reader = func(id string) lock.Contender { return reading(aHolder(id)) }
		wants  = func(id string) lock.Contender { return reading(aWaiter(id)) }
	)
	for name, c := range map[string]struct {
		state lock.State
		want  map[string][]string
	}{
		"free":                        {lockNamed("l", nil), nil},
		"first, and the lock is free": {lockNamed("l", nil, aWaiter("a")), nil},
		"each behind the one before":  {lockNamed("l", []lock.Contender{aHolder("h")}, aWaiter("a"), aWaiter("b"), aWaiter("c")), map[string][]string{"a": {"a>h"}, "b": {"b>h", "b>a"}, "c": {"c>h", "c>b"}}},
		"a reader beside readers":     {lockNamed("l", []lock.Contender{reader("h")}, wants("a")), nil},
		"a writer behind readers":     {lockNamed("l", []lock.Contender{reader("h"), reader("i")}, aWaiter("a")), map[string][]string{"a": {"a>h", "a>i"}}},
		"readers wait together":       {lockNamed("l", []lock.Contender{aHolder("h")}, wants("a"), wants("b")), map[string][]string{"a": {"a>h"}, "b": {"b>h"}}},
		"a reader behind a writer":    {lockNamed("l", []lock.Contender{reader("h")}, aWaiter("a"), wants("b"), wants("c")), map[string][]string{"a": {"a>h"}, "b": {"b>a"}, "c": {"c>a"}}},
		"a writer behind the waiting": {lockNamed("l", []lock.Contender{aHolder("h")}, aWaiter("a"), wants("b"), wants("c"), aWaiter("d")), map[string][]string{"a": {"a>h"}, "b": {"b>h", "b>a"}, "c": {"c>h", "c>a"}, "d": {"d>h", "d>c", "d>b", "d>a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := WaitFor([]lock.State{c.state})
			for _, n := range g.Nodes() {
				require.Equal(t, c.want[n.ID], drawn(g.From(n.ID)), n.ID)
			}
			require.Empty(t, g.Circles())
		})
	}
}

func TestWaitForFindsCircles(t *testing.T) {
	type circle struct {
		edges string
		cut   string
	}
	for name, c := range map[string]struct {
		states []lock.State
		want   []circle
	}{
		"none":      {[]lock.State{lockNamed("a", []lock.Contender{aHolder("h")}, aWaiter("w"))}, nil},
		"two locks": {crossed(), []circle{{"[o2>o1 o1>u1 u1>u2 u2>o2]", "u2"}}},
		"the work that holds it wants it once more": {
			[]lock.State{lockNamed("a", []lock.Contender{aHolder("h")}, aWaiter("w", "h"))},
			[]circle{{"[w>h h>w]", "h"}},
		},
		"one cut is enough for two circles": {[]lock.State{
			lockNamed("a", []lock.Contender{aHolder("a1", func(c *lock.Contender) { c.Since = planned })}, aWaiter("a2", "b1"), aWaiter("a3", "c1")),
			lockNamed("b", []lock.Contender{aHolder("b1")}, aWaiter("b2", "a1")),
			lockNamed("c", []lock.Contender{aHolder("c1")}, aWaiter("c2", "a1")),
		}, []circle{{"[a2>a1 a1>b2 b2>b1 b1>a2]", "a1"}}},
		"through the queue": {[]lock.State{
			// a3 could read beside a1, but for a2, who wants to write and stands before it.
			lockNamed("a", []lock.Contender{reading(aHolder("a1"))}, aWaiter("a2"), reading(aWaiter("a3", "b1"))),
			lockNamed("b", []lock.Contender{aHolder("b1")}, aWaiter("b2", "a1")),
		}, []circle{{"[a3>a2 a2>a1 a1>b2 b2>b1 b1>a3]", "a1"}}},
		"the lowest priority is cut": {[]lock.State{
			lockNamed("a", []lock.Contender{aHolder("a1", func(c *lock.Contender) { c.Priority, c.Since = 3, planned })}, aWaiter("a2", "b1")),
			lockNamed("b", []lock.Contender{aHolder("b1", func(c *lock.Contender) { c.Priority = 2 })}, aWaiter("b2", "a1")),
		}, []circle{{"[a2>a1 a1>b2 b2>b1 b1>a2]", "b1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []circle
			for _, found := range WaitFor(c.states).Circles() {
				got = append(got, circle{fmt.Sprint(drawn(found.Edges)), found.Cut.ID})
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestCircleEndsByItself(t *testing.T) {
	// given: two works that cross, whose leases end in 5 minutes and in 3
	for name, c := range map[string]struct {
		change   func(orders, users *lock.State)
		cause    EndCause
		after    time.Duration
		waiter   string
		holder   string
		evicted  bool
		deadlock bool
	}{
		"by the first lease": {
			func(_, users *lock.State) { users.Holders[0].LeaseLeft = 3 * time.Minute },
			EndLease, 3 * time.Minute, "u1", "u2", false, true,
		},
		"by a preemption": {
			func(_, users *lock.State) { users.Waiters[0].Priority = 5 },
			EndPreemption, 0, "u1", "u2", false, false,
		},
		"by a preemption after the minimum runtime": {
			func(_, users *lock.State) {
				users.Waiters[0].Priority, users.Holders[0].MinRuntimeLeft = 5, time.Minute
			},
			EndPreemption, time.Minute, "u1", "u2", false, false,
		},
		"by an acquire timeout": {
			func(orders, _ *lock.State) { orders.Waiters[0].AcquireTimeout = new(90 * time.Second) },
			EndAcquire, 30 * time.Second, "o2", "", false, true,
		},
		"by a request outside of it": {
			func(_, users *lock.State) {
				users.Waiters = append([]lock.Contender{{ID: "x", Terms: priority.Terms{Priority: 9, LeaseTimeout: time.Minute}}}, users.Waiters...)
			},
			EndPreemption, 0, "x", "u2", false, false,
		},
		"by an eviction of one that has been asked": {
			func(_, users *lock.State) {
				users.Waiters[0].Priority, users.Waiters[0].Forceful = 5, true
				users.Holders[0].PreemptedBy = []lock.Preemptor{{ID: "u1", Reason: priority.Outranked, Forceful: true, Grace: time.Minute, At: planned.Add(-20 * time.Second)}}
			},
			EndPreemption, 40 * time.Second, "u1", "u2", true, false,
		},
		"by one that is polite and has asked in vain": {
			func(_, users *lock.State) {
				users.Waiters[0].Priority, users.Waiters[0].WaitingTimeout = 5, new(2*time.Minute)
				users.Holders[0].PreemptedBy = []lock.Preemptor{{ID: "u1", Reason: priority.Outranked, Grace: time.Minute, At: planned.Add(-time.Minute)}}
			},
			EndWaiting, time.Minute, "u1", "", false, true,
		},
		"by the lease of one that has been asked in vain": {
			func(_, users *lock.State) {
				users.Waiters[0].Priority, users.Holders[0].LeaseLeft = 5, 3*time.Minute
				users.Holders[0].PreemptedBy = []lock.Preemptor{{ID: "u1", Reason: priority.Outranked, Grace: time.Minute, At: planned.Add(-time.Minute)}}
			},
			EndLease, 4 * time.Minute, "u1", "u2", true, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			states := crossed()
			c.change(&states[0], &states[1])

			circles := WaitFor(states).Circles()

			require.Len(t, circles, 1)
			end := circles[0].End
			require.NotNil(t, end)
			require.Equal(t, c.cause, end.Cause)
			require.Equal(t, c.after, end.After)
			require.Equal(t, planned.Add(c.after), end.At)
			require.Equal(t, c.waiter, end.Waiter.ID)
			require.Equal(t, c.holder, end.Holder.ID)
			require.Equal(t, c.evicted, end.Evicted)
			require.Equal(t, c.deadlock, circles[0].Deadlock())
		})
	}
	require.True(t, Circle{}.Deadlock(), "whose end is unknown")
}

// Whatever the locks: there is a circle if and only if every pair of requests,
// looked at one by one, says so; each circle is one; and when the cuts are made
// none is left.
func TestCirclesAgreeWithBruteForce(t *testing.T) {
	for n := range 4 {
		require.Len(t, circlesAgree(t, plantCircles(n)), n)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 2).Draw(t, "planted")
		require.GreaterOrEqual(t, len(circlesAgree(t, drawStates(t, plantCircles(n)))), n, "no two of those planted have a work in common")
	})
}

func circlesAgree(t require.TestingT, states []lock.State) []Circle {
	ways := everyWay(states, nil)
	circles := WaitFor(states).Circles()

	require.Equal(t, goesInCircles(ways), len(circles) > 0, "%+v", states)
	gone := map[string]bool{}
	for _, c := range circles {
		var holders []WaitNode
		for i, e := range c.Edges {
			require.True(t, ways[[2]string{e.From.ID, e.To.ID}], "%s does not wait for %s", e.From.ID, e.To.ID)
			require.Equal(t, c.Edges[(i+1)%len(c.Edges)].From.ID, e.To.ID)
			require.False(t, gone[e.From.ID], "%s has been cut out", e.From.ID)
			if e.From.Holds {
				holders = append(holders, e.From)
			}
		}
		require.False(t, c.Edges[0].From.Holds)
		require.Contains(t, holders, c.Cut)
		for _, h := range holders {
			require.LessOrEqual(t, c.Cut.Priority, h.Priority)
			if c.Cut.Priority == h.Priority {
				require.False(t, h.Since.After(c.Cut.Since))
			}
		}
		require.NotNil(t, c.End)
		gone[c.Cut.ID] = true
	}
	require.False(t, goesInCircles(everyWay(states, gone)), "the cuts %v are not enough", gone)
	return circles
}

// plantCircles makes so many circles, each of two works that wait for each other.
func plantCircles(circles int) []lock.State {
	var states []lock.State
	for i := range circles {
		a, b := fmt.Sprintf("pa%d", i), fmt.Sprintf("pb%d", i)
		states = append(states,
			lockNamed("planted "+a, []lock.Contender{aHolder(a)}, aWaiter("w"+a, b)),
			lockNamed("planted "+b, []lock.Contender{aHolder(b)}, aWaiter("w"+b, a)))
	}
	return states
}

// drawStates makes locks, and works that hold some of them, or of the planted
// ones, and wait for one.
func drawStates(t *rapid.T, planted []lock.State) []lock.State {
	states := make([]lock.State, rapid.IntRange(1, 4).Draw(t, "locks"))
	mode := rapid.SampledFrom([]priority.Mode{priority.Exclusive, priority.Exclusive, priority.Shared})
	level := rapid.Custom(func(t *rapid.T) priority.Level { return priority.Level(rapid.IntRange(0, 3).Draw(t, "level")) })
	var held []string
	for _, s := range planted {
		held = append(held, s.Holders[0].ID)
	}
	for i := range states {
		s := &states[i]
		s.Scope, s.At = fmt.Sprintf("lock%d", i), planned
		is := mode.Draw(t, "mode")
		n := rapid.IntRange(0, 1).Draw(t, "holders")
		if is == priority.Shared {
			n = rapid.IntRange(0, 3).Draw(t, "readers")
		}
		for k := range n {
			h := aHolder(fmt.Sprintf("h%d%d", i, k), func(c *lock.Contender) {
				c.Mode, c.Priority = is, level.Draw(t, "priority")
				c.Since = planned.Add(-time.Duration(rapid.IntRange(0, 3).Draw(t, "since")) * time.Minute)
			})
			s.Holders = append(s.Holders, h)
			held = append(held, h.ID)
		}
	}
	for i := range states {
		s := &states[i]
		for k := range rapid.IntRange(0, 3).Draw(t, "waiters") {
			w := aWaiter(fmt.Sprintf("w%d%d", i, k))
			if len(held) > 0 {
				w.Under = rapid.SliceOfNDistinct(rapid.SampledFrom(held), 0, min(2, len(held)), rapid.ID).Draw(t, "under")
			}
			w.Mode, w.Priority = mode.Draw(t, "mode"), level.Draw(t, "priority")
			s.Waiters = append(s.Waiters, w)
		}
		slices.SortStableFunc(s.Waiters, func(a, b lock.Contender) int { return cmp.Compare(b.Priority, a.Priority) })
	}
	return slices.Concat(states, planted)
}

// everyWay says of each pair of requests whether one waits for the other.
func everyWay(states []lock.State, gone map[string]bool) map[[2]string]bool {
	ways := map[[2]string]bool{}
	holders := map[string]bool{}
	for _, s := range states {
		for _, h := range s.Holders {
			holders[h.ID] = true
		}
	}
	for _, s := range states {
		for i, w := range s.Waiters {
			for _, other := range append(slices.Clone(s.Holders), s.Waiters[:i]...) {
				ways[[2]string{w.ID, other.ID}] = w.Mode != priority.Shared || other.Mode != priority.Shared
			}
			for _, id := range w.Under {
				ways[[2]string{id, w.ID}] = holders[id]
			}
		}
	}
	for way := range ways {
		if gone[way[0]] || gone[way[1]] {
			delete(ways, way)
		}
	}
	return ways
}

// goesInCircles finds every way of any length (Floyd and Warshall).
func goesInCircles(ways map[[2]string]bool) bool {
	reach := map[[2]string]bool{}
	ids := map[string]bool{}
	for way, is := range ways {
		reach[way] = is
		ids[way[0]], ids[way[1]] = true, true
	}
	for via := range ids {
		for a := range ids {
			for b := range ids {
				if reach[[2]string{a, via}] && reach[[2]string{via, b}] {
					reach[[2]string{a, b}] = true
				}
			}
		}
	}
	for id := range ids {
		if reach[[2]string{id, id}] {
			return true
		}
	}
	return false
}
