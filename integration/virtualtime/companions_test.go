package virtualtime

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

const holdID = "shop/order-17"

// hold acquires the lock for a hold that others can join.
func hold(p *program, r lockguard.Requirement) *lockguard.Hold {
	r.Scope, r.Hold = scope, holdID
	return came(p, func(ctx context.Context) (*lockguard.Hold, error) { return p.Guard.Acquire(ctx, r) })
}

func join(p *program, of *lockguard.Hold, options ...lockguard.JoinOption) *lockguard.Hold {
	return came(p, func(ctx context.Context) (*lockguard.Hold, error) {
		return p.Guard.Join(ctx, lockguard.Requirement{}, of.Reference(), options...)
	})
}

func adopt(p *program, r lockguard.Requirement, of *lockguard.Hold) *lockguard.Hold {
	return came(p, func(ctx context.Context) (*lockguard.Hold, error) { return p.Guard.Adopt(ctx, r, of.Reference()) })
}

// came is what came of a call: a hold that is released at the end of the test, if it is not over by then.
func came(p *program, call func(context.Context) (*lockguard.Hold, error)) *lockguard.Hold {
	hold, err := call(p.World.Context())
	require.NoError(p.World, err)
	p.World.Cleanup(func() { _ = hold.Release(context.Background()) })
	synctest.Wait()
	return hold
}

// However many join to clean up, or adopt the hold, its grace is one.
func TestGraceOfAHoldIsNotBegunAnewByItsCompanions(t *testing.T) {
	run(t, func(w *world) {
		agent, helper, late, next, boss := w.Program("agent", long), w.Program("helper", long), w.Program("late", long), w.Program("next", long), w.Program("boss", long)

		// given a hold with half an hour to clean up, and a boss who asks for it by force after an hour
		first := hold(agent, lockguard.Requirement{Terms: priority.Terms{CleanupTimeout: 30 * time.Minute, LeaseTimeout: day}})
		w.Until(time.Hour)
		work := boss.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5, Forceful: true}}, lasting(time.Minute))
		require.ErrorAs(w, context.Cause(first.Context()), new(*lockguard.PreemptedError))

		// when others come to help, and another takes the place of the first
		w.Until(70 * time.Minute)
		helping := join(helper, first, lockguard.ForCleanup())
		w.Until(80 * time.Minute)
		second := adopt(next, lockguard.Requirement{}, first)
		w.Until(85 * time.Minute)
		lately := join(late, second, lockguard.ForCleanup())

		// then those who help may work on, and each knows when the grace ends
		require.NoError(w, helping.Context().Err())
		require.NoError(w, lately.Context().Err())
		var preempted *lockguard.PreemptedError
		require.ErrorAs(w, context.Cause(second.Context()), &preempted)
		require.WithinDuration(w, w.At(90*time.Minute), preempted.Deadline, time.Second)
		for _, p := range []*program{helper, next, late} {
			require.WithinDuration(w, w.At(90*time.Minute), virtual.Only[lock.PreemptRequested](p).Deadline, time.Second)
		}

		// which is when the boss has the lock
		w.Until(89*time.Minute + 50*time.Second)
		require.NoError(w, helping.Context().Err())
		w.Until(91 * time.Minute)
		require.Error(w, helping.Context().Err())
		require.Error(w, lately.Context().Err())
		require.Equal(w, 90*time.Minute, work.Began().Truncate(time.Second))
	})
}

// The lease is that of the hold: it goes on when somebody joins, and what one has
// extended all have.
func TestLeaseOfAHoldIsThatOfAllItsCompanions(t *testing.T) {
	for _, extends := range []bool{false, true} {
		run(t, func(w *world) {
			agent, activity, other := w.Program("agent", long), w.Program("activity", long), w.Program("other", long)
			first := hold(agent, lockguard.Requirement{Terms: priority.Terms{LeaseTimeout: time.Hour, CleanupTimeout: time.Minute}}) // and time to be asked
			w.Until(50 * time.Minute)
			second := join(activity, first)
			require.WithinDuration(w, w.At(time.Hour), second.Info().LeaseDeadline, time.Second)
			end := time.Hour
			if extends {
				require.NoError(w, second.Extend(w.Context(), time.Hour))
				end = 110 * time.Minute
			}

			// when another, who is no more important, wants the lock
			other.Do(lockguard.Requirement{}, lasting(time.Minute))

			// then all are asked at the end of the lease, none before
			w.Until(end - 10*time.Second)
			require.NoError(w, first.Context().Err())
			require.NoError(w, second.Context().Err())
			w.Until(end + 10*time.Second)
			for _, h := range []*lockguard.Hold{first, second} {
				require.ErrorAs(w, context.Cause(h.Context()), new(*lockguard.LeaseExpiredError))
			}
		})
	}
}

// While the lock is delayed after the unclean end of a hold, that hold can be
// resumed; a waiter for the end of the delay learns of that.
func TestWaiterForTheEndOfADelayAsksAHoldThatIsResumed(t *testing.T) {
	run(t, func(w *world) {
		agent, again, boss := w.Program("agent", long), w.Program("again", long), w.Program("boss", long)
		r := lockguard.Requirement{Terms: priority.Terms{LockDelay: 10 * time.Minute, CleanupTimeout: time.Minute, LeaseTimeout: day}}
		first := hold(agent, r)
		work := boss.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5}}, lasting(time.Minute))

		// given a hold whose process has died
		w.Until(time.Hour)
		require.True(w, w.Expire(agent.Session().ID))
		w.Until(61 * time.Minute)

		// when it is resumed
		second := adopt(again, r, first)
		require.Equal(w, first.Token(), second.Token())

		// then the boss asks for it at once
		w.Until(61*time.Minute + time.Second)
		require.ErrorAs(w, context.Cause(second.Context()), new(*lockguard.PreemptedError))

		// and has it when the delay after the first process is over
		require.NoError(w, second.Release(w.Context()))
		w.Until(90 * time.Minute)
		require.Equal(w, 70*time.Minute, work.Began().Round(time.Minute))
	})
}
