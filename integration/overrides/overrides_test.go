package overrides

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

var mark = lock.Mark{ID: "INC-7", By: "ana", Reason: "failing disks"}

func TestBoostedWaiterGoesFirstAndTheHolderLearnsByWhom(t *testing.T) {
	story(t, func(w *world) {
		// given a holder, and two that wait
		holder, low, mid := w.program("holder"), w.program("low"), w.program("mid")
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 7, CleanupTimeout: time.Minute}}, untilCancelled, lasting(30*time.Second))
		second := mid.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5}}, lasting(hour))
		third := low.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 3}}, lasting(hour))
		require.Equal(w, "mid", holder.Lock(scope).Waiters[0].Owner)

		// when the last of them is boosted over all
		w.board.put(boost("low", 9))
		w.Pass(0)

		// then it is next, says why, and has preempted the holder
		waiters := holder.Lock(scope).Waiters
		require.Equal(w, []string{"low", "mid"}, []string{waiters[0].Owner, waiters[1].Owner})
		require.Equal(w, priority.Level(9), waiters[0].Priority)
		require.Equal(w, &mark, waiters[0].Override)
		var overridden *lockguard.OverriddenError
		require.ErrorAs(w, held.Returned(), &overridden)
		require.Equal(w, mark, overridden.Override)
		require.Equal(w, time.Minute, overridden.Grace)
		w.Pass(time.Second)
		require.Equal(w, 30*time.Second, third.Began().Truncate(exact))
		require.Nil(w, second.Hold())

		// and what the override has done is on record once
		acts := holder.acts(opstore.AuditOverrideAct)
		require.Len(w, acts, 1)
		require.Equal(w, map[string]string{"priority": "9"}, acts[0].After)
		require.Equal(w, "low", acts[0].Job)

		// and it keeps what it has when the override ends
		w.board.put()
		w.Pass(0)
		require.NoError(w, third.Hold().Check())
		require.NoError(w, third.Returned())
		require.NoError(w, second.Returned())
	})
}

func TestForcefulEmergencyEvictsAProtectedHolder(t *testing.T) {
	story(t, func(w *world) {
		// given a holder that is to be left alone for a day, and that does not go
		holder, batch := w.program("holder"), w.program("batch")
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 100, MinRuntime: virtual.Day, CleanupTimeout: hour}}, lasting(2*hour))
		waits := batch.Do(lockguard.Requirement{Terms: priority.Terms{NeverPreempts: true}}, lasting(0))

		// when somebody who never preempts is boosted to emergency, by force
		w.Pass(time.Minute)
		w.board.put(incident(override.Boost, func(o *override.Override) {
			o.Match.Job, o.Priority, o.Forceful, o.WaitingTimeout = "batch", new(priority.Emergency), new(true), new(10*time.Second)
		}))

		// then that one has the lock when its patience is over
		require.NoError(w, waits.Returned())
		require.Equal(w, time.Minute+10*time.Second, waits.Began().Truncate(exact))
		require.Equal(w, 10*time.Second, virtual.Only[lock.PreemptRequested](holder.Program).Grace)
		lost := virtual.LostBy(w, held.Returned())
		require.Equal(w, lock.LossOverridden, lost.Reason)
		require.Equal(w, &mark, lost.Override)

		// and the takeover was on record before
		takeovers := batch.acts(opstore.AuditTakeover)
		require.Len(w, takeovers, 1)
		require.Equal(w, "INC-7", takeovers[0].Override)
		require.Equal(w, "outranked", takeovers[0].Reason)
		require.Equal(w, held.Hold().Token(), takeovers[0].Victims[0].Token)
		require.Equal(w, "holder", takeovers[0].Victims[0].Owner)
	})
}

func TestHolderThatIsGivenMoreTimeIsNotAskedBefore(t *testing.T) {
	story(t, func(w *world) {
		holder, next := w.program("holder"), w.program("next")
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{LeaseTimeout: 10 * time.Minute, CleanupTimeout: time.Second}}, untilCancelled)
		waits := next.Do(lockguard.Requirement{}, lasting(0))
		w.Pass(9 * time.Minute)
		w.board.put(incident(override.Extend, func(o *override.Override) { o.Match.Job, o.LeaseTimeout = "holder", new(30*time.Minute) }))
		w.Pass(0)
		require.InDelta(w, 21*time.Minute, holder.Lock(scope).Holders[0].LeaseLeft, float64(time.Second))

		var expired *lockguard.LeaseExpiredError
		require.ErrorAs(w, held.Returned(), &expired)
		require.Equal(w, 30*time.Minute, expired.Lease)
		require.Equal(w, 30*time.Minute, held.Ended().Truncate(exact))
		require.NoError(w, waits.Returned())
		require.Equal(w, []string{"Acquired", "Extended", "PreemptRequested", "Released"}, holder.told())
	})
}

func TestBypassedWaiterRunsBesideTheHolder(t *testing.T) {
	story(t, func(w *world) {
		holder, batch := w.program("holder"), w.program("batch")
		held := holder.Do(lockguard.Requirement{}, lasting(hour))
		waits := batch.Do(lockguard.Requirement{}, lasting(time.Minute))
		w.board.put(incident(override.Bypass, func(o *override.Override) { o.Match.Job = "batch" }))
		w.Pass(0)
		require.Zero(w, waits.Hold().Token())
		require.Equal(w, "INC-7", waits.Hold().Info().Bypass.ID)
		require.Empty(w, holder.Lock(scope).Waiters)
		w.board.put()
		require.NoError(w, waits.Returned())
		require.Equal(w, time.Minute, waits.Ended().Truncate(exact), "it goes on when the bypass has ended")
		require.NoError(w, held.Returned())
	})
}

func TestWaiterSaysUnderWhichLockItWaits(t *testing.T) {
	story(t, func(w *world) {
		holder, nested := w.program("holder"), w.program("nested")
		held := holder.Do(lockguard.Requirement{}, lasting(time.Minute))
		x := nested.Start(func(ctx context.Context, _ *virtual.Work) error {
			return nested.Guard.Do(ctx, lockguard.Requirement{Scope: "outer"}, func(ctx context.Context) error {
				return nested.Guard.Do(ctx, lockguard.Requirement{Scope: scope}, lasting(0))
			})
		})
		outer, err := nested.Client.Lock(w.Context(), "outer")
		require.NoError(w, err)
		require.Equal(w, []string{outer.Holders[0].ID}, holder.Lock(scope).Waiters[0].Under)
		require.NoError(w, held.Returned())
		require.NoError(w, x.Returned())
	})
}

func TestTakeoverThatIsNotOnRecordIsNotDone(t *testing.T) {
	story(t, func(w *world) {
		holder, urgent := w.program("holder"), w.program("urgent")
		errFull := errors.New("the disk is full")
		urgent.trail.fail(errFull)
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{CleanupTimeout: time.Minute}}, lasting(hour))
		waits := urgent.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 5, Forceful: true}}, lasting(0))
		require.ErrorIs(w, waits.Returned(), errFull)
		require.Equal(w, time.Minute, waits.Ended().Truncate(exact))
		require.NoError(w, held.Hold().Check())
		require.Empty(w, holder.Lock(scope).Waiters)
		require.Empty(w, holder.acts(opstore.AuditTakeover))
		require.ErrorAs(w, held.Returned(), new(*lockguard.PreemptedError))
	})
}

func TestOperatorTakesTheLockAndKeepsIt(t *testing.T) {
	for _, c := range []struct {
		name  string
		grace *time.Duration
		took  time.Duration // until it has it
		cause lock.LossReason
	}{
		{"after the cleanup", nil, 20 * time.Second, ""},
		{"by force", new(5 * time.Second), 5 * time.Second, lock.LossOverridden},
	} {
		t.Run(c.name, func(t *testing.T) {
			story(t, func(w *world) {
				// given a holder that needs a while, somebody that waits, and a freeze
				holder, other, desk := w.program("holder"), w.program("other"), w.program("desk")
				held := holder.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 1000, CleanupTimeout: time.Minute}}, untilCancelled, lasting(20*time.Second))
				waits := other.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 2000, NeverPreempts: true}}, lasting(0))
				w.board.put(incident(override.Freeze, func(o *override.Override) { o.ID, o.Match.Job = "INC-8", "ana" }))

				// when an operator takes the lock for half an hour
				o := incident(override.Hold, func(o *override.Override) {
					o.Match.Scope, o.WaitingTimeout, o.Until = scope, c.grace, time.Now().Add(30*time.Minute)
				})
				w.board.post(o)
				taken := desk.Start(func(ctx context.Context, x *virtual.Work) error {
					return desk.Guard.Override(ctx, o, x.Under(untilCancelled))
				})

				// then the holder learns by whom, and releases or is evicted
				err := held.Returned()
				var overridden *lockguard.OverriddenError
				require.ErrorAs(w, err, &overridden)
				require.Equal(w, mark, overridden.Override)
				if c.cause == "" {
					require.NotErrorAs(w, err, new(*lockguard.LostError))
					require.Empty(w, desk.acts(opstore.AuditTakeover))
				} else {
					require.Equal(w, c.cause, virtual.LostBy(w, err).Reason)
					require.Len(w, desk.acts(opstore.AuditTakeover), 1)
				}
				w.Pass(time.Second)
				require.Equal(w, c.took, taken.Began().Truncate(exact))
				me := holder.Lock(scope).Holders[0]
				require.Equal(w, "ana", me.Owner)
				require.Equal(w, priority.Emergency, me.Priority)
				require.Equal(w, &mark, me.Override)
				acts := desk.acts(opstore.AuditOverrideAct)
				require.Len(w, acts, 1)
				require.Equal(w, taken.Hold().Info().ID, acts[0].Act)

				// and it is the operator's for a lease of half an hour: who has no
				// time to clean up may hear of the end alone
				err = taken.Returned()
				require.True(w, errors.As(err, new(*lockguard.LeaseExpiredError)) || virtual.LostBy(w, err).For == priority.LeaseExpired, err)
				require.InDelta(w, c.took+30*time.Minute, taken.Ended(), float64(time.Second))
				require.NoError(w, waits.Returned())
			})
		})
	}
}
