package overrides

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

var mark = recipes.Mark{ID: "INC-7", By: "ana", Reason: "failing disks"}

func TestBoostedWaiterGoesFirstAndTheHolderIsToldByWhom(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder, and two that wait
		holder, low, mid := w.program("holder"), w.program("low"), w.program("mid")
		held := holder.do(lockguard.Requirement{Priority: 7, CleanupTimeout: time.Minute}, untilCancelled, lasting(30*time.Second))
		second := mid.do(lockguard.Requirement{Priority: 5}, lasting(hour))
		third := low.do(lockguard.Requirement{Priority: 3}, lasting(hour))
		require.Equal(t, "mid", w.lock(holder).Waiters[0].Owner)

		// when the last of them is boosted over all
		w.board.put(boost("low", 9))
		w.pass(0)

		// then it is next, says why, and has asked the holder to go
		waiters := w.lock(holder).Waiters
		require.Equal(t, []string{"low", "mid"}, []string{waiters[0].Owner, waiters[1].Owner})
		require.Equal(t, priority.Level(9), waiters[0].Priority)
		require.Equal(t, &mark, waiters[0].Override)
		var overridden *lockguard.OverriddenError
		require.ErrorAs(t, held.returned(), &overridden)
		require.Equal(t, mark, overridden.Override)
		require.Equal(t, time.Minute, overridden.Grace)
		w.pass(time.Second)
		require.Equal(t, 30*time.Second, third.began())
		require.Nil(t, second.hold())

		// and what the override has done is on record once
		acts := holder.acts(recipes.AuditOverrideAct)
		require.Len(t, acts, 1)
		require.Equal(t, map[string]string{"priority": "9"}, acts[0].After)
		require.Equal(t, "low", acts[0].Job)

		// and it keeps what it has when the override ends
		w.board.put()
		w.pass(0)
		require.NoError(t, third.hold().Check())
		require.NoError(t, third.returned())
		require.NoError(t, second.returned())
	})
}

func TestForcefulEmergencyEvictsWhomNobodyElseMayAsk(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder that is to be left alone for a day, and that does not go
		holder, batch := w.program("holder"), w.program("batch")
		held := holder.do(lockguard.Requirement{Priority: 100, MinRuntime: day, CleanupTimeout: hour}, lasting(2*hour))
		waits := batch.do(lockguard.Requirement{NeverPreempts: true}, lasting(0))

		// when somebody who never preempts is boosted to emergency, by force
		w.pass(time.Minute)
		w.board.put(incident(override.Boost, func(o *override.Override) {
			o.Match.Job, o.Priority, o.Forceful, o.WaitingTimeout = "batch", new(priority.Emergency), new(true), new(10*time.Second)
		}))

		// then that one has the lock when its patience is over
		require.NoError(t, waits.returned())
		require.Equal(t, time.Minute+10*time.Second, waits.began())
		lost := lostBy(t, held.returned())
		require.Equal(t, recipes.LossOverridden, lost.Reason)
		require.Equal(t, &mark, lost.Override)

		// and the takeover was on record before
		takeovers := batch.acts(recipes.AuditTakeover)
		require.Len(t, takeovers, 1)
		require.Equal(t, "INC-7", takeovers[0].Override)
		require.Equal(t, "outranked", takeovers[0].Reason)
		require.Equal(t, held.hold().Token(), takeovers[0].Victims[0].Token)
		require.Equal(t, "holder", takeovers[0].Victims[0].Owner)
	})
}

func lostBy(t *testing.T, err error) *lockguard.LostError {
	t.Helper()
	var lost *lockguard.LostError
	require.ErrorAs(t, err, &lost)
	return lost
}

func TestFrozenWaitersLeaveTheQueueAndComeBack(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder, and one that waits
		holder, batch := w.program("holder"), w.program("batch")
		held := holder.do(lockguard.Requirement{Priority: 9}, lasting(10*time.Minute))
		waits := batch.do(lockguard.Requirement{AcquireTimeout: new(hour)}, lasting(0))
		require.Len(t, w.lock(holder).Waiters, 1)

		// when everybody below 5 is frozen
		w.pass(time.Minute)
		w.board.put(incident(override.Freeze, func(o *override.Override) { o.Match.PriorityBelow = new(priority.Level(5)) }))
		w.pass(0)

		// then it is out of the queue, and stays there when the lock is free
		require.Empty(t, w.lock(holder).Waiters)
		require.NoError(t, held.returned())
		w.pass(time.Minute)
		require.False(t, w.lock(holder).Held())
		require.Nil(t, waits.hold())

		// until that ends
		w.board.put()
		require.NoError(t, waits.returned())
		require.Equal(t, 11*time.Minute, waits.began())
		require.Equal(t, []string{"Waiting", "Queued", "Frozen", "Thawed", "Acquired", "Released"}, batch.told())
	})
}

func TestHolderThatIsGivenMoreTimeIsNotAskedBefore(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		holder, next := w.program("holder"), w.program("next")
		held := holder.do(lockguard.Requirement{LeaseTimeout: 10 * time.Minute, CleanupTimeout: time.Second}, untilCancelled)
		waits := next.do(lockguard.Requirement{}, lasting(0))
		w.pass(9 * time.Minute)
		w.board.put(incident(override.Extend, func(o *override.Override) { o.Match.Job, o.LeaseTimeout = "holder", new(30*time.Minute) }))
		w.pass(0)
		require.InDelta(t, 21*time.Minute, w.lock(holder).Holders[0].LeaseLeft, float64(time.Second))

		var expired *lockguard.LeaseExpiredError
		require.ErrorAs(t, held.returned(), &expired)
		require.Equal(t, 30*time.Minute, expired.Lease)
		require.Equal(t, 30*time.Minute, held.ended)
		require.NoError(t, waits.returned())
		require.Equal(t, []string{"Waiting", "Acquired", "Extended", "PreemptRequested", "Released"}, holder.told())
	})
}

func TestBypassedWaiterRunsBesideTheHolder(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		holder, batch := w.program("holder"), w.program("batch")
		held := holder.do(lockguard.Requirement{}, lasting(hour))
		waits := batch.do(lockguard.Requirement{}, lasting(time.Minute))
		w.board.put(incident(override.Bypass, func(o *override.Override) { o.Match.Job = "batch" }))
		w.pass(0)
		require.Zero(t, waits.hold().Token())
		require.Equal(t, "INC-7", waits.hold().Info().Bypass.ID)
		require.Empty(t, w.lock(holder).Waiters)
		w.board.put()
		require.NoError(t, waits.returned())
		require.Equal(t, time.Minute, waits.ended, "it goes on when the bypass has ended")
		require.NoError(t, held.returned())
	})
}

func TestWaiterSaysUnderWhichLockItWaits(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		holder, nested := w.program("holder"), w.program("nested")
		held := holder.do(lockguard.Requirement{}, lasting(time.Minute))
		x := nested.run(func(*run) error {
			return nested.guard.Do(t.Context(), lockguard.Requirement{Scope: "outer"}, func(ctx context.Context) error {
				return nested.guard.Do(ctx, lockguard.Requirement{Scope: scope}, lasting(0))
			})
		})
		outer, err := nested.client.Lock(t.Context(), "outer")
		require.NoError(t, err)
		require.Equal(t, []string{outer.Holders[0].ID}, w.lock(holder).Waiters[0].Under)
		require.NoError(t, held.returned())
		require.NoError(t, x.returned())
	})
}

func TestTakeoverThatIsNotOnRecordIsNotDone(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		holder, urgent := w.program("holder"), w.program("urgent")
		errFull := errors.New("the disk is full")
		urgent.trail.fail(errFull)
		held := holder.do(lockguard.Requirement{CleanupTimeout: time.Minute}, lasting(hour))
		waits := urgent.do(lockguard.Requirement{Priority: 5, Forceful: true}, lasting(0))
		require.ErrorIs(t, waits.returned(), errFull)
		require.Equal(t, time.Minute, waits.ended)
		require.NoError(t, held.hold().Check())
		require.Empty(t, w.lock(holder).Waiters)
		require.Empty(t, holder.acts(recipes.AuditTakeover))
		require.ErrorAs(t, held.returned(), new(*lockguard.PreemptedError))
	})
}

func TestOperatorTakesTheLockAndKeepsIt(t *testing.T) {
	for _, c := range []struct {
		name  string
		grace *time.Duration
		took  time.Duration // until it has it
		cause recipes.LossReason
	}{
		{"after the cleanup", nil, 20 * time.Second, ""},
		{"by force", new(5 * time.Second), 5 * time.Second, recipes.LossOverridden},
	} {
		t.Run(c.name, func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				// given a holder that needs a while, somebody that waits, and a freeze
				holder, other, desk := w.program("holder"), w.program("other"), w.program("desk")
				held := holder.do(lockguard.Requirement{Priority: 1000, CleanupTimeout: time.Minute}, untilCancelled, lasting(20*time.Second))
				waits := other.do(lockguard.Requirement{Priority: 2000, NeverPreempts: true}, lasting(0))
				w.board.put(incident(override.Freeze, func(o *override.Override) { o.ID, o.Match.Job = "INC-8", "ana" }))

				// when an operator takes the lock for half an hour
				o := incident(override.Hold, func(o *override.Override) {
					o.Match.Scope, o.WaitingTimeout, o.Until = scope, c.grace, time.Now().Add(30*time.Minute)
				})
				w.board.post(o)
				taken := desk.run(func(x *run) error {
					return desk.guard.Override(t.Context(), o, func(ctx context.Context) error {
						x.begin(ctx)
						return untilCancelled(ctx)
					})
				})

				// then the holder is told by whom, and goes or is evicted
				err := held.returned()
				var overridden *lockguard.OverriddenError
				require.ErrorAs(t, err, &overridden)
				require.Equal(t, mark, overridden.Override)
				if c.cause == "" {
					require.NotErrorAs(t, err, new(*lockguard.LostError))
					require.Empty(t, desk.acts(recipes.AuditTakeover))
				} else {
					require.Equal(t, c.cause, lostBy(t, err).Reason)
					require.Len(t, desk.acts(recipes.AuditTakeover), 1)
				}
				w.pass(time.Second)
				require.Equal(t, c.took, taken.began())
				me := w.lock(holder).Holders[0]
				require.Equal(t, "ana", me.Owner)
				require.Equal(t, priority.Emergency, me.Priority)
				require.Equal(t, &mark, me.Override)
				acts := desk.acts(recipes.AuditOverrideAct)
				require.Len(t, acts, 1)
				require.Equal(t, taken.hold().Info().ID, acts[0].Act)

				// and it is the operator's for a lease of half an hour: who has no
				// time to clean up may hear of the end alone
				err = taken.returned()
				require.True(t, errors.As(err, new(*lockguard.LeaseExpiredError)) || lostBy(t, err).For == priority.LeaseExpired, err)
				require.InDelta(t, c.took+30*time.Minute, taken.ended, float64(time.Second))
				require.NoError(t, waits.returned())
			})
		})
	}
}
