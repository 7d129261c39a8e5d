package replay

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
)

// schedules is how many random ones are played.
const schedules = 20

// seen is what all of them have brought about, so that they are about something.
var seen struct {
	mu                                                                sync.Mutex
	asked, evicted, uncertain, broken, overridden, approved, bypassed int
}

func TestTrailAloneExplainsEveryPreemptionAndTakeover(t *testing.T) {
	t.Run("schedules", func(t *testing.T) {
		for seed := range uint64(schedules) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				play(t, seed)
			})
		}
	})
	t.Logf("%d holders were preempted, %d evicted (%d for an override, %d by hand, %d by approval), %d takeovers have no outcome", //
		seen.asked, seen.evicted, seen.overridden, seen.broken, seen.approved, seen.uncertain)
	require.Greater(t, seen.asked, schedules)
	require.Greater(t, seen.evicted, schedules)
	require.Greater(t, seen.overridden, schedules/10)
	require.Greater(t, seen.broken, schedules/10)
	require.Positive(t, seen.approved)
	require.Positive(t, seen.bypassed)
}

// play lets a minute of jobs, overrides, broken locks and crashes pass.
func (w *world) play() {
	const steps = 90
	crashes := 2
	var ids []string
	for step := range steps {
		<-time.After(w.upTo(1200 * time.Millisecond))
		d := w.daemons[w.rng.IntN(len(w.daemons))]
		switch n := w.rng.IntN(20); {
		case n < 13:
			if d.counts(w.Now() + hour) { // it lives
				d.do(w.requirements(step), w.upTo(6*time.Second), w.upTo(3*time.Second))
			}
		case n < 16:
			o := w.override(step)
			ids = append(ids, o.ID)
			w.apply(o)
		case n < 17:
			if len(ids) > 0 {
				w.clear(ids[w.rng.IntN(len(ids))])
			}
		case n < 19:
			w.breakOne(w.scope(), w.rng.IntN(4) == 0)
		case crashes > 0 && step > steps/4:
			crashes--
			d.crash()
		}
	}
	<-time.After(time.Minute) // all overrides have ended, all sessions of the dead as well
	for _, d := range w.daemons {
		if d.counts(w.Now() + hour) {
			d.end()
		}
	}
	w.check() // before the dead are connected again
	all, _, err := w.operator.Locks(w.Context())
	require.NoError(w, err)
	for _, l := range all {
		require.Empty(w, l.Holders, l.Scope)
		require.Empty(w, l.Waiters, l.Scope)
	}
}

func (w *world) upTo(most time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(most.Milliseconds())) * time.Millisecond
}

func (w *world) scope() string { return fmt.Sprintf("cluster/%d", w.rng.IntN(3)) }

func (w *world) maybe(d time.Duration) *time.Duration {
	if w.rng.IntN(2) == 0 {
		return nil
	}
	return &d
}

// requirements are of one lock, or of two.
func (w *world) requirements(step int) []lockguard.Requirement {
	one, other := w.requirement(step), w.requirement(step)
	if one.Scope == other.Scope || w.rng.IntN(2) == 0 {
		return []lockguard.Requirement{one}
	}
	return []lockguard.Requirement{one, other}
}

func (w *world) requirement(step int) lockguard.Requirement {
	r := lockguard.Requirement{
		Scope: w.scope(), Owner: fmt.Sprintf("job-%d", step), Terms: priority.Terms{
			Priority:     priority.Level(w.rng.IntN(4) * 10),
			LeaseTimeout: 3*time.Second + w.upTo(10*time.Second), CleanupTimeout: w.upTo(2 * time.Second),
			WaitingTimeout: w.maybe(w.upTo(3 * time.Second)), AcquireTimeout: w.maybe(w.upTo(20 * time.Second)),
			Forceful: w.rng.IntN(3) == 0,
		},
	}
	if w.rng.IntN(4) == 0 {
		r.Mode = priority.Shared
	}
	return r
}

func (w *world) override(step int) override.Override {
	o := override.Override{
		ID: fmt.Sprintf("op-%d", step), By: "ana", Reason: "drill", Match: override.Match{Scope: w.scope()},
		Until: w.operator.Now().Add(time.Second + w.upTo(15*time.Second)),
	}
	switch w.rng.IntN(7) {
	case 0:
		o.Kind, o.Priority, o.Forceful = override.Boost, new(priority.Level(50)), new(true)
		if w.rng.IntN(3) == 0 {
			o.Priority = new(priority.Emergency)
		}
	case 1:
		o.Kind, o.Priority = override.Cap, new(priority.Level(5))
	case 2:
		o.Kind, o.Match.PriorityBelow = override.Freeze, new(priority.Level(30))
	case 3:
		o.Kind, o.WaitingTimeout = override.Hold, w.maybe(w.upTo(time.Second))
	case 4:
		o.Kind, o.WaitingTimeout = override.PreemptNow, w.maybe(w.upTo(time.Second))
	case 5:
		o.Kind, o.LeaseTimeout = override.Extend, new(20*time.Second)
	case 6:
		o.Kind = override.Bypass
	}
	return o
}
