package inspect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// The lock of the plans: a holder at 5 with a lease of 10 minutes, of which 8
// are left, and one minute of cleanup; a waiter at 7 and one at 3.
var (
	planned = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	keeper  = lock.Contender{
		ID: "h", Identity: priority.Identity{Owner: "keeper"}, Terms: priority.Terms{Priority: 5, LeaseTimeout: 10 * time.Minute, CleanupTimeout: time.Minute},
		Remaining: priority.Remaining{LeaseLeft: 8 * time.Minute}, Since: planned.Add(-2 * time.Minute),
	}
	seven = lock.Contender{ID: "w7", Identity: priority.Identity{Owner: "seven"}, Terms: priority.Terms{Priority: 7, WaitingTimeout: new(30 * time.Second)}, Position: 1}
	three = lock.Contender{ID: "w3", Identity: priority.Identity{Owner: "three"}, Terms: priority.Terms{Priority: 3}, Position: 2}
)

func keeping(change func(*lock.Contender)) lock.Contender {
	h := keeper
	change(&h)
	return h
}

func lockOf(holders []lock.Contender, waiters ...lock.Contender) lock.State {
	return lock.State{Scope: "orders", At: planned, Holders: holders, Waiters: waiters}
}

func TestPlanOfARequest(t *testing.T) {
	const minute = time.Minute
	byRank := func(after, grace time.Duration) PlannedAsk {
		return PlannedAsk{Reason: priority.Outranked, After: after, Grace: grace}
	}
	byLease := func(after, grace time.Duration) PlannedAsk {
		return PlannedAsk{Reason: priority.LeaseExpired, After: after, Grace: grace}
	}
	one := []lock.Contender{keeper}
	protected := keeping(func(h *lock.Contender) { h.MinRuntime, h.MinRuntimeLeft = 5*minute, 3*minute })
	reader := keeping(func(h *lock.Contender) { h.Mode = priority.Shared })
	for name, c := range map[string]struct {
		state   lock.State
		request lock.Request
		want    Plan
	}{
		"free": {
			lockOf(nil),
			lock.Request{},
			Plan{Outcome: OutcomeGranted},
		},
		"try": {
			lockOf(one),
			lock.Request{Terms: priority.Terms{Priority: 9, AcquireTimeout: new(time.Duration)}},
			Plan{Outcome: OutcomeRefused, Obstacles: []Obstacle{{Holder: keeper}}},
		},
		"forceful": {
			lockOf(one),
			lock.Request{Terms: priority.Terms{Priority: 9, Forceful: true}},
			Plan{Outcome: OutcomeTakesOver, After: minute, Position: 1, Obstacles: []Obstacle{{Holder: keeper, Asks: []PlannedAsk{byRank(0, minute)}}}},
		},
		"forceful that waits shorter than the cleanup": {
			lockOf(one),
			lock.Request{Terms: priority.Terms{Priority: 9, Forceful: true, WaitingTimeout: new(10 * time.Second)}},
			Plan{Outcome: OutcomeTakesOver, After: 10 * time.Second, Position: 1, Obstacles: []Obstacle{{Holder: keeper, Asks: []PlannedAsk{byRank(0, 10*time.Second)}}}},
		},
		"polite": {
			lockOf(one),
			lock.Request{Terms: priority.Terms{Priority: 9}},
			Plan{Outcome: OutcomeTakesOver, After: 9 * minute, Position: 1, Obstacles: []Obstacle{{Holder: keeper, Asks: []PlannedAsk{byRank(0, minute), byLease(8*minute, minute)}}}},
		},
		"polite with a waiting timeout": {
			lockOf(one),
			lock.Request{Terms: priority.Terms{Priority: 9, WaitingTimeout: new(2 * minute)}},
			Plan{Outcome: OutcomeGivesUp, After: 2 * minute, Position: 1, Obstacles: []Obstacle{{Holder: keeper, Asks: []PlannedAsk{byRank(0, minute)}}}},
		},
		"patient: it stays, and has the lock after the lease without a decision": {
			lockOf(one),
			lock.Request{Terms: priority.Terms{Priority: 9, WaitingTimeout: new(2 * minute)}, Patient: true},
			Plan{Outcome: OutcomeTakesOver, After: 9 * minute, Position: 1, Obstacles: []Obstacle{{Holder: keeper, Asks: []PlannedAsk{byRank(0, minute), byLease(8*minute, minute)}}}},
		},
		"patient and forceful": {
			lockOf(one),
			lock.Request{Terms: priority.Terms{Priority: 9, WaitingTimeout: new(10 * time.Second), Forceful: true}, Patient: true},
			Plan{Outcome: OutcomeTakesOver, After: 10 * time.Second, Position: 1, Obstacles: []Obstacle{{Holder: keeper, Asks: []PlannedAsk{byRank(0, 10*time.Second)}}}},
		},
		"acquire timeout first": {
			lockOf(one),
			lock.Request{Terms: priority.Terms{Priority: 9, AcquireTimeout: new(4 * minute)}},
			Plan{Outcome: OutcomeTimesOut, After: 4 * minute, Position: 1, Obstacles: []Obstacle{{Holder: keeper, Asks: []PlannedAsk{byRank(0, minute)}}}},
		},
		"equal": {
			lockOf(one),
			lock.Request{Terms: priority.Terms{Priority: 5, Forceful: true}},
			Plan{Outcome: OutcomeTakesOver, After: 9 * minute, Position: 1, Obstacles: []Obstacle{{Holder: keeper, Bar: priority.BarLevel, Asks: []PlannedAsk{byLease(8*minute, minute)}}}},
		},
		"minimum runtime": {
			lockOf([]lock.Contender{protected}),
			lock.Request{Terms: priority.Terms{Priority: 9, Forceful: true}},
			Plan{Outcome: OutcomeTakesOver, After: 4 * minute, Position: 1, Obstacles: []Obstacle{{Holder: protected, Bar: priority.BarMinRuntime, Asks: []PlannedAsk{byRank(3*minute, minute)}}}},
		},
		"emergency": {
			lockOf([]lock.Contender{protected}),
			lock.Request{Terms: priority.Terms{Priority: priority.Emergency, Forceful: true, PreemptDelta: 3}},
			Plan{Outcome: OutcomeTakesOver, After: minute, Position: 1, Obstacles: []Obstacle{{Holder: protected, Asks: []PlannedAsk{byRank(0, minute)}}}},
		},
		"emergency that never preempts": {
			lockOf([]lock.Contender{protected}),
			lock.Request{Terms: priority.Terms{Priority: priority.Emergency, Forceful: true, NeverPreempts: true}},
			Plan{Outcome: OutcomeTakesOver, After: minute, Position: 1, Obstacles: []Obstacle{{Holder: protected, Asks: []PlannedAsk{byRank(0, minute)}}}},
		},
		"delta": {
			lockOf(one),
			lock.Request{Terms: priority.Terms{Priority: 9, Forceful: true, PreemptDelta: 5}},
			Plan{Outcome: OutcomeTakesOver, After: 9 * minute, Position: 1, Obstacles: []Obstacle{{Holder: keeper, Bar: priority.BarDelta, Asks: []PlannedAsk{byLease(8*minute, minute)}}}},
		},
		"never preempts": {
			lockOf(one),
			lock.Request{Terms: priority.Terms{Priority: 9, Forceful: true, NeverPreempts: true}},
			Plan{Outcome: OutcomeTakesOver, After: 9 * minute, Position: 1, Obstacles: []Obstacle{{Holder: keeper, Bar: priority.BarNever, Asks: []PlannedAsk{byLease(8*minute, minute)}}}},
		},
		"two readers, one protected": {
			lockOf([]lock.Contender{reader, protected}),
			lock.Request{Terms: priority.Terms{Priority: 9, Forceful: true}},
			Plan{Outcome: OutcomeTakesOver, After: 4 * minute, Position: 1, Obstacles: []Obstacle{
				{Holder: reader, Asks: []PlannedAsk{byRank(3*minute, minute)}},
				{Holder: protected, Bar: priority.BarMinRuntime, Asks: []PlannedAsk{byRank(3*minute, minute)}},
			}},
		},
		"before all who wait": {
			lockOf(one, seven, three),
			lock.Request{Terms: priority.Terms{Priority: 9, Forceful: true}},
			Plan{
				Outcome: OutcomeTakesOver, After: minute, Position: 1, Behind: []lock.Contender{seven, three},
				Obstacles: []Obstacle{{Holder: keeper, Asks: []PlannedAsk{byRank(0, minute)}}},
			},
		},
		"between them": {
			lockOf(one, seven, three),
			lock.Request{Terms: priority.Terms{Priority: 6, Forceful: true}},
			Plan{
				Outcome: OutcomeInLine, Position: 2, Ahead: []lock.Contender{seven}, Behind: []lock.Contender{three},
				Obstacles: []Obstacle{{Holder: keeper}},
			},
		},
		"behind an equal": {
			lockOf(one, seven),
			lock.Request{Terms: priority.Terms{Priority: 7, AcquireTimeout: new(time.Minute)}},
			Plan{Outcome: OutcomeInLine, Position: 2, Ahead: []lock.Contender{seven}, Obstacles: []Obstacle{{Holder: keeper}}},
		},
		"reader beside a reader": {
			lockOf([]lock.Contender{reader}),
			lock.Request{Terms: priority.Terms{Mode: priority.Shared}},
			Plan{Outcome: OutcomeGranted, Beside: []lock.Contender{reader}},
		},
		"reader behind a writer that waits": {
			lockOf([]lock.Contender{reader}, seven),
			lock.Request{Terms: priority.Terms{Mode: priority.Shared}},
			Plan{Outcome: OutcomeInLine, Position: 2, Ahead: []lock.Contender{seven}, Beside: []lock.Contender{reader}},
		},
		"reader that goes before a writer that waits": {
			lockOf([]lock.Contender{reader}, three),
			lock.Request{Terms: priority.Terms{Mode: priority.Shared, Priority: 4}},
			Plan{Outcome: OutcomeGranted, Behind: []lock.Contender{three}, Beside: []lock.Contender{reader}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Scope, c.want.At = "orders", planned
			require.Equal(t, c.want, PlanFor(c.state, c.request))
		})
	}
}

func TestPlanOfAWaiterKnowsWhatItHasAsked(t *testing.T) {
	asked := keeping(func(h *lock.Contender) {
		h.PreemptedBy = []lock.Preemptor{
			{ID: "another", Reason: priority.LeaseExpired, At: planned.Add(-time.Minute)},
			{ID: "w7", Reason: priority.Outranked, Grace: time.Minute, At: planned.Add(-10 * time.Second)},
		}
	})
	state := lockOf([]lock.Contender{asked}, seven, three)

	first, ok := PlanOf(state, "w7")
	require.True(t, ok)
	require.Equal(t, Plan{
		Scope: "orders", At: planned, Outcome: OutcomeGivesUp, After: 20 * time.Second, Position: 1,
		Behind: []lock.Contender{three}, Obstacles: []Obstacle{{Holder: asked}},
	}, first)

	second, ok := PlanOf(state, "w3")
	require.True(t, ok)
	require.Equal(t, Plan{
		Scope: "orders", At: planned, Outcome: OutcomeInLine, Position: 2,
		Ahead: []lock.Contender{seven}, Obstacles: []Obstacle{{Holder: asked, Bar: priority.BarLevel}},
	}, second)

	_, ok = PlanOf(state, "unknown")
	require.False(t, ok)
}

// A reader in the queue does not pass another, which may be about to come in;
// one that has not queued may.
func TestReaderThatWaitsBehindAReaderIsInLine(t *testing.T) {
	reader := keeping(func(h *lock.Contender) { h.Mode = priority.Shared })
	front := lock.Contender{ID: "a", Terms: priority.Terms{Mode: priority.Shared}}
	state := lockOf([]lock.Contender{reader}, front, lock.Contender{ID: "b", Terms: priority.Terms{Mode: priority.Shared}})

	plan, ok := PlanOf(state, "b")
	require.True(t, ok)
	require.Equal(t, OutcomeInLine, plan.Outcome)
	require.Equal(t, OutcomeGranted, PlanFor(state, lock.Request{Terms: priority.Terms{Mode: priority.Shared}}).Outcome)
}
