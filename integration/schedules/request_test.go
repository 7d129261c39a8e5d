package schedules

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// ask has the onlooker ask for a run.
func (w *world) ask(job, why string) *ticks.RequestHandle {
	w.Helper()
	h, err := w.ledger.Request(w.Context(), ticks.Request{Job: job, By: "ana", Reason: why})
	require.NoError(w.T, err)
	synctest.Wait()
	return h
}

// requests are those that stand.
func (w *world) requests() int { return len(w.Tree("/lockkeeper/requests")) - 1 }

func TestARunThatSomebodyAsksForIsRunByOneDaemon(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given three daemons, two of which have the job
		list := []jobs.Job{w.job("a", "", 20*time.Second)}
		one, two := w.daemon("one", list), w.daemon("two", list, skewed(time.Second))
		three := w.daemon("three", []jobs.Job{w.job("b", "@every 10s", time.Second)})

		// when somebody asks for it, and for two more while it runs
		first := w.ask("a", "INC-7")
		require.NoError(t, first.AwaitTaken(t.Context()))
		second, third := w.ask("a", "INC-8"), w.ask("a", "INC-9")
		w.Pass(10 * time.Second)
		require.Equal(t, 1, w.goesOn("a"), "they wait for its end")
		require.Equal(t, 2, w.requests())
		taken, err := third.Withdraw(t.Context())
		require.NoError(t, err)
		require.False(t, taken)

		// then each is run once, but the one that was withdrawn
		require.NoError(t, second.AwaitTaken(t.Context()))
		require.ErrorAs(t, third.AwaitTaken(t.Context()), new(*ticks.RequestLostError))
		w.Pass(time.Minute)
		calls := w.worked("a")
		require.Len(t, calls, 2)
		require.Equal(t, []string{first.ID(), second.ID()}, []string{calls[0].run, calls[1].run})
		require.GreaterOrEqual(t, calls[1].began, calls[0].ended)
		end := w.book("a").ends[second.ID()]
		require.Equal(t, ticks.Ran, end.Outcome)
		require.True(t, end.Manual)
		require.Equal(t, "INC-8", end.Why)
		taken, err = second.Withdraw(t.Context())
		require.NoError(t, err)
		require.True(t, taken)
		require.Zero(t, w.requests())
		require.True(t, one.said("job is run by hand") || two.said("job is run by hand"))
		drainAll(one, two, three)
	})
}

func TestARequestEndsWithTheSessionOfItsClient(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		d := w.daemon("one", []jobs.Job{w.job("a", "", 30*time.Second)})
		asker := w.client("asker", short)
		first, err := asker.TickLedger("asker").Request(t.Context(), ticks.Request{Job: "a"})
		require.NoError(t, err)
		w.Pass(time.Second)
		_, err = asker.TickLedger("asker").Request(t.Context(), ticks.Request{Job: "a"})
		require.NoError(t, err)

		// when the asker is gone while one is run and the other one waits
		id, _ := asker.Session()
		require.True(t, w.Expire(id))
		w.Pass(time.Minute)

		// then what runs goes on, and the other one is forgotten
		require.Len(t, w.worked("a"), 1)
		require.Equal(t, ticks.Ran, w.book("a").ends[first.ID()].Outcome)
		require.Zero(t, w.requests())
		d.drain()
	})
}

func TestARequestOfADaemonThatDiesIsRecordedAsInterrupted(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a run that somebody has asked for
		list := []jobs.Job{w.job("a", "@every 1m", 15*time.Second)}
		one, two := w.daemon("one", list), w.daemon("two", list)
		h := w.ask("a", "INC-7")
		owner, other := w.owner("a", one, two)

		// when its daemon dies
		owner.kill()
		w.Until(70 * time.Second)

		// then no daemon runs it again, and the schedule goes on
		require.Equal(t, ticks.Interrupted, w.book("a").ends[h.ID()].Outcome)
		require.Len(t, w.worked("a"), 2)
		require.Equal(t, 1, w.goesOn("a"))
		other.drain()
	})
}

// The reply to the claim is lost, and with it, or not, the session.
func TestARequestWhoseClaimIsNotAnsweredIsRunOnce(t *testing.T) {
	for _, expires := range []bool{false, true} {
		variant(t, fmt.Sprint("session expires ", expires), func(t *testing.T, w *world) {
			one := w.daemon("one", []jobs.Job{w.job("a", "", 15*time.Second)})
			lost := w.On(zktest.Op(zktest.Multi).Containing(zktest.Delete).Path("/lockkeeper/requests/*").From("one").Nth(1)).HoldReply()
			h := w.ask("a", "INC-7")
			<-lost.Reached()
			require.Len(t, w.Tree("/lockkeeper/requests"), 1, "it was executed")
			if expires {
				one.expire()
			} else {
				id, _ := one.client.Session()
				require.True(t, w.Disconnect(id))
			}
			lost.Release()
			w.Pass(time.Minute)
			require.Len(t, w.worked("a"), 1)
			require.Equal(t, ticks.Ran, w.book("a").ends[h.ID()].Outcome)
			one.drain()
		})
	}
}

// The requesting client does not know which daemons have read the new
// configuration yet.
func TestARequestWaitsForADaemonThatHasItsJob(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a request for a job that no daemon has, and one that waits for a run
		a, b := w.job("a", "", time.Second), w.job("b", "", time.Minute)
		w.chronicle.follow(a)
		one := w.daemon("one", []jobs.Job{b})
		w.ask("b", "INC-6")
		w.Pass(time.Second)
		waits, later := w.ask("b", "INC-7"), w.ask("a", "INC-8")
		w.Pass(10 * time.Second)
		require.Equal(t, 2, w.requests())

		// when the one job comes, and the other goes
		_, err := one.Reconcile([]jobs.Job{a})
		require.NoError(t, err)
		w.Pass(10 * time.Second)
		require.Equal(t, ticks.Ran, w.book("a").ends[later.ID()].Outcome)
		require.Equal(t, 1, w.requests())

		// and is back after its run has ended
		w.Pass(time.Minute)
		_, err = one.Reconcile([]jobs.Job{a, b})
		require.NoError(t, err)
		w.Pass(90 * time.Second)
		require.Equal(t, ticks.Ran, w.book("b").ends[waits.ID()].Outcome)
		require.Zero(t, w.requests())
		one.drain()
	})
}

// The claim of a request is under way when the daemon is stopped.
func TestARequestThatIsTakenWhenTheDrainBeginsIsSeenToItsEnd(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		one := w.daemon("one", []jobs.Job{w.job("a", "", 10*time.Second)})
		late := w.On(zktest.Op(zktest.Multi).Containing(zktest.Delete).Path("/lockkeeper/requests/*").From("one").Nth(1)).HoldReply()
		h := w.ask("a", "INC-7")
		<-late.Reached()
		one.stop()
		late.Release()
		<-one.ended
		require.NoError(t, one.err)
		require.Zero(t, w.goesOn("a"))
		end, known := w.book("a").ends[h.ID()]
		require.True(t, known, "its end is recorded before the daemon has stopped")
		require.Contains(t, []ticks.Outcome{ticks.Ran, ticks.Skipped}, end.Outcome)
		one.drain()
	})
}

func TestARunByHandIsAnOverlapForWhateverElseIsDue(t *testing.T) {
	for _, c := range overlaps {
		variant(t, string(c.policy), func(t *testing.T, w *world) {
			// given daemons that are asked for runs all the time while ticks are due
			list := []jobs.Job{overlapping(w.job("a", "@every 10s", 7*time.Second), c.policy, c.most)}
			one, two := w.daemon("one", list), w.daemon("two", list, skewed(time.Second))
			ctx, cancel := context.WithCancel(t.Context())
			asked := make(chan struct{})
			go func() {
				defer close(asked)
				for ctx.Err() == nil {
					h, err := w.ledger.Request(ctx, ticks.Request{Job: "a"})
					if err != nil || h.AwaitTaken(ctx) != nil {
						return
					}
					<-time.After(3500 * time.Millisecond)
				}
			}()
			w.Until(2 * time.Minute)
			cancel()
			<-asked
			w.Pass(20 * time.Second)

			// then the books balance, and some of both have run
			drainAll(one, two)
			manual := 0
			for _, end := range w.book("a").ends {
				if end.Manual {
					manual++
				}
			}
			require.Greater(t, manual, 5)
			require.Greater(t, len(w.worked("a")), manual)
		})
	}
}
