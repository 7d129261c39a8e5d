package inspect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// fate is the end of a prospect.
type fate struct {
	id      string
	outcome Outcome
	after   time.Duration
}

func endsOf(prospects []Prospect) []fate {
	var all []fate
	for _, p := range prospects {
		all = append(all, fate{p.Waiter.ID, p.Outcome, p.After})
	}
	return all
}

func TestOutlookOfAQueue(t *testing.T) {
	const minute = time.Minute
	asks := func(level priority.Level, forceful bool) func(string) lock.Contender {
		return func(id string) lock.Contender {
			c := aWaiter(id)
			c.Priority, c.Forceful, c.CleanupTimeout = level, forceful, 30*time.Second
			return c
		}
	}
	forceful, polite := asks(9, true), asks(0, false)
	limited := func(c lock.Contender, acquire time.Duration) lock.Contender {
		c.AcquireTimeout = new(acquire)
		return c
	}
	patient := func(c lock.Contender, waiting time.Duration) lock.Contender {
		c.WaitingTimeout = new(waiting)
		return c
	}
	asked := aHolder("h", func(c *lock.Contender) {
		c.PreemptedBy = []lock.Preemptor{{ID: "a", Reason: priority.Outranked, Grace: minute, At: planned.Add(-5 * minute)}}
	})
	for name, c := range map[string]struct {
		state lock.State
		want  []fate
	}{
		"no waiter": {lockNamed("l", []lock.Contender{aHolder("h")}), nil},
		"free":      {lockNamed("l", nil, polite("a")), []fate{{"a", OutcomeGranted, 0}}},
		"the lease and the cleanup of each before": {
			lockNamed("l", []lock.Contender{aHolder("h")}, polite("a"), polite("b")),
			[]fate{{"a", OutcomeTakesOver, 6 * minute}, {"b", OutcomeTakesOver, 16*minute + 30*time.Second}},
		},
		"the forceful first": {
			lockNamed("l", []lock.Contender{aHolder("h")}, forceful("a"), polite("b")),
			[]fate{{"a", OutcomeTakesOver, minute}, {"b", OutcomeTakesOver, 11*minute + 30*time.Second}},
		},
		"readers together": {
			lockNamed("l", []lock.Contender{aHolder("h")}, reading(polite("a")), reading(polite("b")), polite("c")),
			[]fate{{"a", OutcomeTakesOver, 6 * minute}, {"b", OutcomeGranted, 6 * minute}, {"c", OutcomeTakesOver, 16*minute + 30*time.Second}},
		},
		"one gives up, and the next is first": {
			lockNamed("l", []lock.Contender{aHolder("h")}, patient(asks(9, false)("a"), minute), polite("b")),
			[]fate{{"a", OutcomeGivesUp, minute}, {"b", OutcomeTakesOver, 6 * minute}},
		},
		"the second's time is over before its turn": {
			lockNamed("l", []lock.Contender{aHolder("h")}, polite("a"), limited(polite("b"), 3*minute)),
			[]fate{{"a", OutcomeTakesOver, 6 * minute}, {"b", OutcomeTimesOut, 2 * minute}},
		},
		"the first's time is over": {
			lockNamed("l", []lock.Contender{aHolder("h")}, limited(forceful("a"), 90*time.Second), polite("b")),
			[]fate{{"a", OutcomeTimesOut, 30 * time.Second}, {"b", OutcomeTakesOver, 6 * minute}},
		},
		"overdue: it stays until a decision": {
			lockNamed("l", []lock.Contender{asked}, patient(asks(9, false)("a"), 2*minute)),
			[]fate{{"a", OutcomeTakesOver, 6 * minute}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := lockNamed("l", c.state.Holders, c.state.Waiters...)
			require.Equal(t, c.want, endsOf(Outlook(c.state)))
			require.Equal(t, before, c.state, "it is looked at, not changed")
		})
	}
}

func TestOutlookNamesWhoIsAskedAndWhen(t *testing.T) {
	// given: a minimum runtime of one more minute, and a waiter behind
	first, second := aWaiter("a"), aWaiter("b")
	first.Priority, first.Forceful, first.CleanupTimeout = 9, true, 30*time.Second
	s := lockNamed("l", []lock.Contender{aHolder("h", func(c *lock.Contender) { c.MinRuntimeLeft = time.Minute })}, first, second)

	// when
	got := Outlook(s)

	// then
	require.Len(t, got[0].Asks, 1)
	require.Equal(t, "h", got[0].Asks[0].Holder.ID)
	require.Equal(t, PlannedAsk{Reason: priority.Outranked, After: time.Minute, Grace: time.Minute}, got[0].Asks[0].PlannedAsk)
	require.Len(t, got[1].Asks, 1)
	require.Equal(t, "a", got[1].Asks[0].Holder.ID)
	require.Equal(t, PlannedAsk{Reason: priority.LeaseExpired, After: 12 * time.Minute, Grace: 30 * time.Second}, got[1].Asks[0].PlannedAsk)
	require.Zero(t, got[0].Overdue)

	// given: one that was asked, and a polite one that has not left since
	s.Holders[0].PreemptedBy = []lock.Preemptor{{ID: "a", Reason: priority.Outranked, At: planned.Add(-3 * time.Minute)}}
	s.Waiters[0].Forceful, s.Waiters[0].WaitingTimeout = false, new(time.Minute)
	require.Equal(t, 2*time.Minute, Outlook(s)[0].Overdue)

	// given: one that is just about to leave
	s.Waiters[0].WaitingTimeout = new(3*time.Minute - time.Second)
	require.Zero(t, Outlook(s)[0].Overdue)
}

func TestOutlookOfAReaderWaitsForTheDelayOfAWriterThatIsGone(t *testing.T) {
	reader := aWaiter("reader")
	reader.Mode = priority.Shared
	at := reader.Joined
	s := lock.State{
		Scope: "orders", At: at, Waiters: []lock.Contender{reader},
		Delays: []lock.Delay{{ID: "gone", Mode: priority.Exclusive, LockDelay: time.Minute, Since: at, Until: at.Add(time.Minute)}},
	}
	require.Equal(t, []fate{{"reader", OutcomeGranted, time.Minute}}, endsOf(Outlook(s)))
}

func TestPlanCountsWithADelayOfAnEndAndOfAnEviction(t *testing.T) {
	at := time.Unix(1000, 0)
	gone := lock.Delay{ID: "gone", Mode: priority.Exclusive, LockDelay: time.Minute}
	begun := gone
	begun.Since, begun.Until = at.Add(-20*time.Second), at.Add(40*time.Second)

	for name, c := range map[string]struct {
		state   lock.State
		request lock.Request
		outcome Outcome
		after   time.Duration
		place   int
	}{
		"begun":            {lock.State{At: at, Delays: []lock.Delay{begun}}, lock.Request{}, OutcomeGranted, 40 * time.Second, 1},
		"not begun":        {lock.State{At: at, Delays: []lock.Delay{gone}}, lock.Request{}, OutcomeGranted, time.Minute, 1},
		"a try":            {lock.State{At: at, Delays: []lock.Delay{begun}}, lock.Request{Terms: priority.Terms{AcquireTimeout: new(time.Duration)}}, OutcomeRefused, 0, 0},
		"a reader's":       {lock.State{At: at, Delays: []lock.Delay{{ID: "gone", Mode: priority.Shared, LockDelay: time.Minute}}}, lock.Request{Terms: priority.Terms{Mode: priority.Shared}}, OutcomeGranted, 0, 0},
		"of the evicted":   {lock.State{At: at, Holders: []lock.Contender{{ID: "h", Terms: priority.Terms{LockDelay: time.Minute}, Remaining: priority.Remaining{LeaseLeft: time.Hour}}}}, lock.Request{Terms: priority.Terms{Priority: 5, Forceful: true}}, OutcomeTakesOver, time.Minute, 1},
		"beside the other": {lock.State{At: at, Holders: []lock.Contender{{ID: "h", Terms: priority.Terms{Mode: priority.Shared}, Remaining: priority.Remaining{LeaseLeft: time.Hour}}}, Delays: []lock.Delay{begun}}, lock.Request{Terms: priority.Terms{Priority: 5, Forceful: true}}, OutcomeTakesOver, 40 * time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := PlanFor(c.state, c.request)
			require.Equal(t, c.outcome, p.Outcome)
			require.Equal(t, c.after, p.After)
			require.Equal(t, c.place, p.Position)
		})
	}
}
