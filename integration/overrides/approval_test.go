package overrides

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// polite is a request that has patience for ten seconds.
func polite() lockguard.Requirement {
	return lockguard.Requirement{Terms: priority.Terms{Priority: 5, WaitingTimeout: new(10 * time.Second)}}
}

func TestApprovalAfterTheGraceCutsNothingShort(t *testing.T) {
	story(t, func(w *world) {
		// given a holder that was promised a minute, and wants more
		ana := operator{asked: make(chan lockguard.Pending, 1), say: make(chan error), gently: true}
		batch, critical := w.program("batch"), w.program("critical", lockguard.WithApprover(ana))
		held := batch.Do(lockguard.Requirement{Terms: priority.Terms{CleanupTimeout: time.Minute}}, untilCancelled, lasting(hour))
		waits := critical.Do(polite(), lasting(0))
		<-ana.asked

		// when somebody approves after twenty seconds
		w.Pass(10 * time.Second)
		ana.say <- nil

		// then the lock is taken when the minute is over
		require.NoError(w, waits.Returned())
		require.InDelta(w, time.Minute, waits.Began(), float64(time.Second))
		require.Equal(w, lock.LossTaken, virtual.LostBy(w, held.Returned()).Reason)
	})
}

func TestWhoIsAskedHearsThatTheHolderHasGone(t *testing.T) {
	story(t, func(w *world) {
		causes := make(chan error, 1)
		batch := w.program("batch")
		critical := w.program("critical", lockguard.WithApprover(approver(func(ctx context.Context) error {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return context.Cause(ctx)
		})))
		batch.Do(lockguard.Requirement{Terms: priority.Terms{CleanupTimeout: time.Minute}}, untilCancelled, lasting(30*time.Second))
		waits := critical.Do(polite(), lasting(0))
		require.NoError(w, waits.Returned())
		require.ErrorIs(w, <-causes, lockguard.ErrHoldersGone)

		// but not when the request was given up
		second := batch.Do(lockguard.Requirement{Terms: priority.Terms{CleanupTimeout: time.Minute}}, untilCancelled, lasting(hour))
		w.Pass(time.Second)
		require.NotNil(w, second.Hold())
		r := polite()
		r.AcquireTimeout = new(time.Minute)
		require.Error(w, critical.Do(r, lasting(0)).Returned())
		require.NotErrorIs(w, <-causes, lockguard.ErrHoldersGone)
	})
}

// An approver decides without looking at what is pending.
type approver func(ctx context.Context) error

func (a approver) Approve(ctx context.Context, _ lockguard.Pending) (lockguard.Decision, error) {
	return lockguard.Decision{}, a(ctx)
}

func TestApprovalIsAboutTheHoldersThatWereShownAlone(t *testing.T) {
	story(t, func(w *world) {
		// given a polite request that waits for an approval
		ana := operator{asked: make(chan lockguard.Pending, 2), say: make(chan error), ended: make(chan error, 2)}
		batch, critical, vip := w.program("batch"), w.program("critical", lockguard.WithApprover(ana)), w.program("vip")
		batch.Do(lockguard.Requirement{Terms: priority.Terms{CleanupTimeout: time.Minute}}, untilCancelled, lasting(30*time.Second))
		waits := critical.Do(polite(), lasting(0))
		require.Equal(w, "batch", (<-ana.asked).Holders[0].Owner)

		// when that holder finishes, and somebody more important has the lock
		held := vip.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 9, LeaseTimeout: 10 * time.Minute, CleanupTimeout: time.Minute}}, untilCancelled, lasting(9*time.Second))
		w.Pass(time.Minute)
		require.NotNil(w, held.Hold())

		// then the question is gone, and a decision comes too late
		select {
		case ana.say <- nil:
			require.Fail(w, "the question about a holder that has gone is still open")
		default:
		}
		require.ErrorIs(w, <-ana.ended, lockguard.ErrHoldersGone)
		require.NoError(w, waits.Returned())
		require.ErrorAs(w, held.Returned(), new(*lockguard.LeaseExpiredError))
		require.NotErrorAs(w, held.Returned(), new(*lockguard.LostError), "it has finished its cleanup: %v", held.Returned())
		require.Empty(w, batch.acts(opstore.AuditTakeover))
		require.Empty(w, ana.asked)
	})
}

func TestApprovalThatComesWithTheNextHolderIsVoid(t *testing.T) {
	story(t, func(w *world) {
		// given an approved request, which could not act on that before its holder
		// went by itself, because somebody more important stood in front
		ana := operator{asked: make(chan lockguard.Pending, 2), say: make(chan error)}
		batch, critical, vip := w.program("batch"), w.program("critical", lockguard.WithApprover(ana)), w.program("vip")
		batch.Do(lockguard.Requirement{Terms: priority.Terms{CleanupTimeout: time.Minute}}, untilCancelled, lasting(30*time.Second))
		waits := critical.Do(polite(), lasting(0))
		<-ana.asked
		held := vip.Do(lockguard.Requirement{Terms: priority.Terms{Priority: 9, WaitingTimeout: new(hour), LeaseTimeout: 10 * time.Minute, CleanupTimeout: time.Minute}}, untilCancelled, lasting(20*time.Second))
		ana.say <- nil
		w.Pass(time.Minute)
		require.NotNil(w, held.Hold())
		require.Nil(w, waits.Hold())

		// when the lease of that one is over
		w.Pass(11 * time.Minute)

		// then it has its grace, and people are asked about it
		require.ErrorAs(w, held.Returned(), new(*lockguard.LeaseExpiredError))
		require.NotErrorAs(w, held.Returned(), new(*lockguard.LostError), "it has finished its cleanup: %v", held.Returned())
		require.Empty(w, batch.acts(opstore.AuditTakeover))
		require.Equal(w, "vip", (<-ana.asked).Holders[0].Owner)
		require.NoError(w, waits.Returned())
	})
}
