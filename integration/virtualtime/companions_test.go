package virtualtime

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

const holdID = "shop/order-17"

// hold acquires the lock for a hold that others can join.
func (p *program) hold(r lockguard.Requirement) *lockguard.Hold {
	p.w.t.Helper()
	r.Scope, r.Hold = scope, holdID
	hold, err := p.guard.Acquire(p.w.t.Context(), r)
	require.NoError(p.w.t, err)
	synctest.Wait()
	return hold
}

func (p *program) join(of *lockguard.Hold, options ...lockguard.JoinOption) *lockguard.Hold {
	p.w.t.Helper()
	hold, err := p.guard.Join(p.w.t.Context(), lockguard.Requirement{}, of.Reference(), options...)
	require.NoError(p.w.t, err)
	synctest.Wait()
	return hold
}

func (p *program) adopt(r lockguard.Requirement, of *lockguard.Hold) *lockguard.Hold {
	p.w.t.Helper()
	hold, err := p.guard.Adopt(p.w.t.Context(), r, of.Reference())
	require.NoError(p.w.t, err)
	synctest.Wait()
	return hold
}

func letGo(t *testing.T, holds ...*lockguard.Hold) {
	t.Helper()
	for _, h := range holds {
		_ = h.Release(context.WithoutCancel(t.Context()))
	}
}

// However many join to clean up, or adopt the hold, its grace is one.
func TestGraceOfAHoldIsNotBegunAnewByItsCompanions(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		agent, helper, late, next, boss := w.program("agent", long), w.program("helper", long), w.program("late", long), w.program("next", long), w.program("boss", long)

		// given a hold with half an hour to clean up, and a boss who asks for it by force after an hour
		first := agent.hold(lockguard.Requirement{CleanupTimeout: 30 * time.Minute, LeaseTimeout: day})
		w.until(time.Hour)
		work := boss.do(lockguard.Requirement{Priority: 5, Forceful: true}, lasting(time.Minute))
		require.ErrorAs(t, context.Cause(first.Context()), new(*lockguard.PreemptedError))

		// when others come to help, and another takes the place of the first
		w.until(70 * time.Minute)
		helping := helper.join(first, lockguard.ForCleanup())
		w.until(80 * time.Minute)
		second := next.adopt(lockguard.Requirement{}, first)
		w.until(85 * time.Minute)
		lately := late.join(second, lockguard.ForCleanup())

		// then those who help may work on, and each knows when the grace ends
		require.NoError(t, helping.Context().Err())
		require.NoError(t, lately.Context().Err())
		var preempted *lockguard.PreemptedError
		require.ErrorAs(t, context.Cause(second.Context()), &preempted)
		require.WithinDuration(t, w.start.Add(90*time.Minute), preempted.Deadline, time.Second)
		for _, p := range []*program{helper, next, late} {
			require.WithinDuration(t, w.start.Add(90*time.Minute), only[lockguard.PreemptRequested](p).Deadline, time.Second)
		}

		// which is when the boss has the lock
		w.until(89*time.Minute + 50*time.Second)
		require.NoError(t, helping.Context().Err())
		w.until(91 * time.Minute)
		require.Error(t, helping.Context().Err())
		require.Error(t, lately.Context().Err())
		require.Equal(t, 90*time.Minute, work.began().Truncate(time.Second))
		letGo(t, first, second, helping, lately)
	})
}

// The lease is that of the hold: it goes on when somebody joins, and what one has
// extended all have.
func TestLeaseOfAHoldIsThatOfAllItsCompanions(t *testing.T) {
	for _, extends := range []bool{false, true} {
		story(t, func(t *testing.T, w *world) {
			agent, activity, other := w.program("agent", long), w.program("activity", long), w.program("other", long)
			first := agent.hold(lockguard.Requirement{LeaseTimeout: time.Hour, CleanupTimeout: time.Minute}) // and time to be asked
			w.until(50 * time.Minute)
			second := activity.join(first)
			require.WithinDuration(t, w.start.Add(time.Hour), second.Info().LeaseDeadline, time.Second)
			end := time.Hour
			if extends {
				require.NoError(t, second.Extend(t.Context(), time.Hour))
				end = 110 * time.Minute
			}

			// when another, who is no more important, wants the lock
			other.do(lockguard.Requirement{}, lasting(time.Minute))

			// then all are asked at the end of the lease, none before
			w.until(end - 10*time.Second)
			require.NoError(t, first.Context().Err())
			require.NoError(t, second.Context().Err())
			w.until(end + 10*time.Second)
			for _, h := range []*lockguard.Hold{first, second} {
				require.ErrorAs(t, context.Cause(h.Context()), new(*lockguard.LeaseExpiredError))
			}
			letGo(t, first, second)
		})
	}
}

// While nobody is granted the lock after the unclean end of a hold, that hold can be
// resumed; whoever waits for the end of the delay hears of it.
func TestWaiterForTheEndOfADelayAsksAHoldThatIsResumed(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		agent, again, boss := w.program("agent", long), w.program("again", long), w.program("boss", long)
		r := lockguard.Requirement{LockDelay: 10 * time.Minute, CleanupTimeout: time.Minute, LeaseTimeout: day}
		first := agent.hold(r)
		work := boss.do(lockguard.Requirement{Priority: 5}, lasting(time.Minute))

		// given a hold whose process has died
		w.until(time.Hour)
		require.True(t, w.zk.Expire(agent.session().ID))
		w.until(61 * time.Minute)

		// when it is resumed
		second := again.adopt(r, first)
		require.Equal(t, first.Token(), second.Token())

		// then the boss asks for it at once
		w.until(61*time.Minute + time.Second)
		require.ErrorAs(t, context.Cause(second.Context()), new(*lockguard.PreemptedError))

		// and has it when the delay after the first process is over
		letGo(t, second, first)
		w.until(90 * time.Minute)
		require.Equal(t, 70*time.Minute, work.began().Round(time.Minute))
	})
}
