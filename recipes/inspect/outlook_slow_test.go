package inspect

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// slowOutlook is what Outlook was before queues of thousands: one step after the
// other, with all that is left.
func slowOutlook(state lock.State) []Prospect {
	s := scene{state}
	prospects := make([]Prospect, len(s.Waiters))
	index := make(map[string]int, len(s.Waiters))
	for i, w := range s.Waiters {
		prospects[i] = Prospect{Waiter: w, Outcome: OutcomeInLine, Overdue: s.overdue(w)}
		index[w.ID] = i
	}
	start := s.At
	s.Holders, s.Waiters = slices.Clone(s.Holders), slices.Clone(s.Waiters)
	for i := range s.Waiters {
		if prospects[i].Overdue > 0 {
			s.Waiters[i].WaitingTimeout = nil
		}
	}
	for len(s.Waiters) > 0 {
		first := s.Waiters[0]
		p := s.plan(rulesOf(first.Terms, first.Patient), nil, nil, first.ID, nil)
		if p.Outcome == OutcomeInLine {
			break // does not happen to the first
		}
		leaver, outcome, step := 0, p.Outcome, p.After
		if late, left, ok := s.firstToTimeOut(); ok && left < step {
			leaver, outcome, step = late, OutcomeTimesOut, left
		}
		passed := s.At.Sub(start)
		mine := &prospects[index[first.ID]]
		mine.Asks = append(mine.Asks, s.sent(first, p, step, passed)...)
		s.pass(step)
		w := s.Waiters[leaver]
		done := &prospects[index[w.ID]]
		done.Outcome, done.After = outcome, passed+step
		switch outcome {
		case OutcomeTakesOver:
			s.Holders = slices.DeleteFunc(s.Holders, func(h lock.Contender) bool { return !w.Mode.Admits(h.Mode) })
			s.admit(w)
			s.forget(w.ID)
		case OutcomeGranted:
			s.admit(w)
			s.forget(w.ID)
		case OutcomeGivesUp, OutcomeTimesOut, OutcomeRefused, OutcomeInLine:
			s.forget(w.ID)
		}
		s.Waiters = slices.Delete(s.Waiters, leaver, leaver+1)
	}
	return prospects
}

// firstToTimeOut returns the waiter whose acquire timeout ends first, and in how
// long.
func (s scene) firstToTimeOut() (at int, left time.Duration, found bool) {
	for i, w := range s.Waiters {
		if w.AcquireTimeout == nil {
			continue
		}
		if l := max(w.Joined.Add(*w.AcquireTimeout).Sub(s.At), 0); !found || l < left {
			at, left, found = i, l, true
		}
	}
	return at, left, found
}

func TestOutlookIsWhatOneStepAfterTheOtherLeadsTo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		span := func(name string) time.Duration {
			return time.Duration(rapid.IntRange(0, 5).Draw(t, name)) * time.Minute
		}
		mode := func(name string) priority.Mode {
			return rapid.SampledFrom([]priority.Mode{priority.Exclusive, priority.Shared}).Draw(t, name)
		}
		var waiters, holders []lock.Contender
		for i := range rapid.IntRange(0, 8).Draw(t, "waiters") {
			w := aWaiter(fmt.Sprintf("w%d", i))
			w.Priority, w.Mode = priority.Level(rapid.IntRange(0, 3).Draw(t, "priority")), mode("mode")
			w.Forceful, w.Patient = rapid.Bool().Draw(t, "forceful"), rapid.Bool().Draw(t, "patient")
			w.LeaseTimeout, w.CleanupTimeout, w.MinRuntime = span("lease")+time.Minute, span("cleanup"), span("min runtime")
			if rapid.Bool().Draw(t, "waits") {
				w.WaitingTimeout = new(span("waiting"))
			}
			if rapid.Bool().Draw(t, "limited") {
				w.AcquireTimeout = new(span("acquire"))
			}
			waiters = append(waiters, w)
		}
		slices.SortStableFunc(waiters, func(a, b lock.Contender) int { return int(b.Priority - a.Priority) })
		shared := mode("held")
		for i := range rapid.IntRange(0, 3).Draw(t, "holders") {
			h := aHolder(fmt.Sprintf("h%d", i))
			h.Mode, h.Priority = shared, priority.Level(rapid.IntRange(0, 3).Draw(t, "priority"))
			h.LeaseLeft, h.CleanupTimeout, h.MinRuntimeLeft = span("left"), span("cleanup"), span("min left")
			if len(waiters) > 0 && rapid.Bool().Draw(t, "asked") {
				by := rapid.SampledFrom(waiters).Draw(t, "by")
				h.PreemptedBy = []lock.Preemptor{{ID: by.ID, Owner: by.Owner, Forceful: by.Forceful, Reason: priority.Outranked, Grace: span("grace"), At: planned.Add(-span("ago"))}}
			}
			holders = append(holders, h)
			if shared == priority.Exclusive {
				break
			}
		}
		s := lockNamed("l", holders, waiters...)
		before := fmt.Sprint(s)
		require.Equal(t, slowOutlook(s), Outlook(s))
		require.Equal(t, before, fmt.Sprint(s), "the state is not changed")
	})
}

// crowd is a lock with n waiters, of which each other one reads and all wait
// with locks of theirs.
func crowdOf(n int, mixed bool) []lock.State {
	waiters := make([]lock.Contender, n)
	held := make([]lock.State, 0, n)
	for i := range waiters {
		own := fmt.Sprintf("own%d", i)
		waiters[i] = aWaiter(fmt.Sprintf("w%d", i), own)
		waiters[i].AcquireTimeout = new(time.Duration(n-i) * time.Second)
		if mixed && i%2 == 0 {
			waiters[i].Mode = priority.Shared
		}
		held = append(held, lockNamed(own, []lock.Contender{aHolder(own)}))
	}
	return append(held, lockNamed("l", []lock.Contender{aHolder("h", func(c *lock.Contender) { c.LeaseLeft = 9 * time.Minute })}, waiters...))
}

func TestQueueOfTenThousandIsForeseen(t *testing.T) {
	t.Parallel()
	const n = 10_000
	states := crowdOf(n, true)
	require.Len(t, Outlook(states[n]), n)
	g := WaitFor(states)
	require.Empty(t, g.Circles())
	require.Len(t, g.Nodes(), 2*n+1)

	// and the one circle among them is found: the holder's work waits for the last one's lock
	states[n-1] = lockNamed(fmt.Sprintf("own%d", n-1), states[n-1].Holders, aWaiter("hw", "h"))
	circles := WaitFor(states).Circles()
	require.Len(t, circles, 1)
	require.Equal(t, []string{"hw", fmt.Sprintf("own%d", n-1)}, []string{circles[0].Edges[0].From.ID, circles[0].Edges[0].To.ID})
	require.Len(t, circles[0].Edges, 4)
}
