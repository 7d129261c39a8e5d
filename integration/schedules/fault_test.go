package schedules

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// claims are the transactions that claim a run of job a.
func claims() zktest.Match {
	return zktest.Op(zktest.Multi).Containing(zktest.Create).Path("/lockkeeper/ticks/a/run-*")
}

// ends are the transactions that record the end of a run of job a.
func ends() zktest.Match {
	return zktest.Op(zktest.Multi).Containing(zktest.Delete).Path("/lockkeeper/ticks/a/run-*")
}

func TestATickWhoseClaimIsNotAnsweredRunsOnce(t *testing.T) {
	cases := map[string]struct {
		fault   func(w *world, d *daemon) // when the claim was executed, and its reply is on the way
		outcome []string
	}{
		"the connection breaks": {func(w *world, d *daemon) {
			id, _ := d.client.Session()
			w.Disconnect(id)
		}, []string{"ran", "ran"}},
		"the session expires": {func(_ *world, d *daemon) { d.expire() }, []string{"ran", "ran"}},
		"the daemon dies":     {func(_ *world, d *daemon) { d.kill() }, []string{"interrupted", "ran"}},
		"it is cut off until the next tick is due": {func(w *world, d *daemon) {
			d.cut()
			go func() { <-time.After(70 * time.Second); w.Heal(d.name) }()
		}, []string{"interrupted", "ran"}},
		"it is cut off for a moment": {func(w *world, d *daemon) {
			d.cut()
			go func() { <-time.After(4 * time.Second); w.Heal(d.name) }()
		}, []string{"ran", "ran"}},
	}
	for name, c := range cases {
		variant(t, name, func(t *testing.T, w *world) {
			// given a daemon that is ahead, and another one
			list := []jobs.Job{locked(w.job("a", "@every 1m", 10*time.Second), "db")}
			ahead := w.daemon("ahead", list, skewed(500*time.Millisecond))
			two := w.daemon("two", list)
			lost := w.On(claims().From("ahead").Nth(1)).HoldReply()

			// when the answer to its claim does not come
			<-lost.Reached()
			require.Len(t, w.state("a").Runs, 1)
			require.Empty(t, w.worked("a"))
			c.fault(w, ahead)
			lost.Release()
			w.Until(3*time.Minute - 10*time.Second)

			// then the tick has one outcome
			require.Equal(t, c.outcome, w.outcomes("a"))
			drainAll(two)
		})
	}
}

func TestARunWhoseEndIsNotAnsweredEndsOnce(t *testing.T) {
	for name, fault := range map[string]func(*zktest.Fault) *zktest.Rule{"request": (*zktest.Fault).DropRequest, "reply": (*zktest.Fault).DropReply} {
		variant(t, name, func(t *testing.T, w *world) {
			list := []jobs.Job{overlapping(w.job("a", "@every 10s", 12*time.Second), jobs.OverlapBufferOne, 0)}
			one, two := w.daemon("one", list), w.daemon("two", list, skewed(-time.Second))
			fault(w.On(ends().Nth(1).Times(3)))
			w.Until(time.Minute + 5*time.Second)
			drainAll(one, two)
			requireTicks(t, w.outcomes("a"), "ran", "ran", "ran")
		})
	}
}

// A session that ends while a run goes on: under a lock the work is stopped,
// and the tick is interrupted or lost, once.
func TestASessionThatEndsInTheMiddleOfARun(t *testing.T) {
	for _, underLock := range []bool{false, true} {
		for _, stalled := range []bool{false, true} {
			variant(t, fmt.Sprintf("lock %t, stalled %t", underLock, stalled), func(t *testing.T, w *world) {
				// given two daemons with a job
				j := w.job("a", "@every 1m", 40*time.Second)
				if underLock {
					j = locked(j, "db")
				}
				one, two := w.daemon("one", []jobs.Job{j}), w.daemon("two", []jobs.Job{j}, skewed(-time.Second))
				w.Until(time.Minute + 5*time.Second)
				owner, _ := w.owner("a", one, two)

				// when the session of the one that runs it ends
				if stalled {
					id, _ := owner.client.Session()
					require.True(t, w.StallPings(id))
				} else {
					owner.expire()
				}
				w.Until(4*time.Minute - 5*time.Second)
				drainAll(one, two)

				// then the work under a lock was told, and all other ticks have run
				call := w.worked("a")[0]
				want := "ran" // its session was not checked
				if underLock {
					require.Less(t, call.ended, 80*time.Second)
					require.ErrorAs(t, call.cause, new(*lock.LostError))
					want = "lost"
				}
				require.Equal(t, []string{want, "ran", "ran"}, w.outcomes("a"))
			})
		}
	}
}
