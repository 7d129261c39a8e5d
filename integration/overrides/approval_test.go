package overrides

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// polite is a request that has patience for ten seconds.
func polite() lockguard.Requirement {
	return lockguard.Requirement{Priority: 5, WaitingTimeout: new(10 * time.Second)}
}

func TestApprovedRequestTakesTheLockFromAHolderThatDoesNotFinish(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a polite request, and a holder that does not finish its cleanup
		ana := operator{asked: make(chan lockguard.Pending, 1), say: make(chan error)}
		batch, critical := w.program("batch"), w.program("critical", lockguard.WithApprover(ana))
		held := batch.do(lockguard.Requirement{CleanupTimeout: time.Minute}, untilCancelled, lasting(hour))
		waits := critical.do(polite(), lasting(0))
		pending := <-ana.asked
		w.pass(0)
		require.Equal(t, 10*time.Second, w.now())
		require.Equal(t, "batch", pending.Holders[0].Owner)
		require.InDelta(t, 10*time.Second, pending.Err.Waited, float64(time.Second))
		place := w.lock(batch).Waiters[0].ID

		// when somebody approves five minutes later
		w.pass(5 * time.Minute)
		require.Equal(t, place, w.lock(batch).Waiters[0].ID, "it has its place")
		require.Nil(t, waits.hold())
		ana.say <- nil

		// then it takes the lock at once, and the audit trail says by whose leave
		require.NoError(t, waits.returned())
		require.Equal(t, 5*time.Minute+10*time.Second, waits.began())
		takeovers := batch.acts(recipes.AuditTakeover)
		require.Len(t, takeovers, 1)
		require.Equal(t, "a-0000000007", takeovers[0].Approval)
		require.Equal(t, recipes.LossTaken, lostBy(t, held.returned()).Reason)
		require.Equal(t, []string{"Waiting", "Queued", "PreemptSent", "ApprovalPending", "ApprovalDecided", "PreemptSent", "TakenOver", "Acquired", "Released"}, critical.told())
	})
}

func TestApprovalAfterTheGraceCutsNothingShort(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder that was promised a minute, and wants more
		ana := operator{asked: make(chan lockguard.Pending, 1), say: make(chan error), gently: true}
		batch, critical := w.program("batch"), w.program("critical", lockguard.WithApprover(ana))
		held := batch.do(lockguard.Requirement{CleanupTimeout: time.Minute}, untilCancelled, lasting(hour))
		waits := critical.do(polite(), lasting(0))
		<-ana.asked

		// when somebody approves after twenty seconds
		w.pass(10 * time.Second)
		ana.say <- nil

		// then the lock is taken when the minute is over
		require.NoError(t, waits.returned())
		require.InDelta(t, time.Minute, waits.began(), float64(time.Second))
		require.Equal(t, recipes.LossTaken, lostBy(t, held.returned()).Reason)
	})
}

func TestWhoIsAskedHearsThatTheHolderHasGone(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		causes := make(chan error, 1)
		batch := w.program("batch")
		critical := w.program("critical", lockguard.WithApprover(approver(func(ctx context.Context) error {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return context.Cause(ctx)
		})))
		batch.do(lockguard.Requirement{CleanupTimeout: time.Minute}, untilCancelled, lasting(30*time.Second))
		waits := critical.do(polite(), lasting(0))
		require.NoError(t, waits.returned())
		require.ErrorIs(t, <-causes, lockguard.ErrHoldersGone)

		// but not when the request was given up
		second := batch.do(lockguard.Requirement{CleanupTimeout: time.Minute}, untilCancelled, lasting(hour))
		w.pass(time.Second)
		require.NotNil(t, second.hold())
		r := polite()
		r.AcquireTimeout = new(time.Minute)
		require.Error(t, critical.do(r, lasting(0)).returned())
		require.NotErrorIs(t, <-causes, lockguard.ErrHoldersGone)
	})
}

func TestWhoIsAskedHearsThatSomebodyElseHoldsTheLock(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		causes := make(chan error, 2)
		batch, vip := w.program("batch"), w.program("vip")
		critical := w.program("critical", lockguard.WithApprover(approver(func(ctx context.Context) error {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return context.Cause(ctx)
		})))
		batch.do(lockguard.Requirement{CleanupTimeout: time.Minute}, untilCancelled, lasting(30*time.Second))
		waits := critical.do(polite(), lasting(0))
		w.pass(20 * time.Second)
		held := vip.do(lockguard.Requirement{Priority: 9, LeaseTimeout: 10 * time.Minute, CleanupTimeout: time.Minute}, untilCancelled, lasting(9*time.Second))
		w.pass(time.Minute)
		require.NotNil(t, held.hold())
		require.Nil(t, waits.hold())
		require.Len(t, causes, 1)
		require.ErrorIs(t, <-causes, lockguard.ErrHoldersGone)
		require.NoError(t, waits.returned())
	})
}

// An approver decides without looking at what is pending.
type approver func(ctx context.Context) error

func (a approver) Approve(ctx context.Context, _ lockguard.Pending) (lockguard.Decision, error) {
	return lockguard.Decision{}, a(ctx)
}

func TestDeniedRequestLeavesTheHolderAlone(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		ana := operator{asked: make(chan lockguard.Pending, 1), say: make(chan error)}
		batch, critical := w.program("batch"), w.program("critical", lockguard.WithApprover(ana))
		held := batch.do(lockguard.Requirement{CleanupTimeout: time.Minute}, untilCancelled, lasting(30*time.Second))
		waits := critical.do(polite(), lasting(0))
		<-ana.asked
		errNo := errors.New("denied by ana")
		ana.say <- errNo
		err := waits.returned()
		require.ErrorIs(t, err, errNo)
		require.ErrorAs(t, err, new(*recipes.CleanupPendingError))
		require.Empty(t, w.lock(batch).Waiters)
		require.ErrorAs(t, held.returned(), new(*lockguard.PreemptedError))
		require.Equal(t, 30*time.Second, held.ended, "it has finished its cleanup")
	})
}

func TestUndecidedRequestGetsTheLockWhenTheHolderHasFinished(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		ana := operator{asked: make(chan lockguard.Pending, 1), say: make(chan error)}
		batch, critical := w.program("batch"), w.program("critical", lockguard.WithApprover(ana))
		held := batch.do(lockguard.Requirement{CleanupTimeout: time.Minute}, untilCancelled, lasting(30*time.Second))
		waits := critical.do(polite(), lasting(0))
		require.NoError(t, waits.returned())
		require.Equal(t, 30*time.Second, waits.began())
		require.ErrorAs(t, held.returned(), new(*lockguard.PreemptedError))
		require.Empty(t, batch.acts(recipes.AuditTakeover))
	})
}

func TestAcquireTimeoutBoundsTheWaitForADecision(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		ana := operator{asked: make(chan lockguard.Pending, 1), say: make(chan error)}
		batch, critical := w.program("batch"), w.program("critical", lockguard.WithApprover(ana))
		held := batch.do(lockguard.Requirement{CleanupTimeout: time.Minute}, untilCancelled, lasting(hour))
		r := polite()
		r.AcquireTimeout = new(time.Minute)
		waits := critical.do(r, lasting(0))
		require.ErrorAs(t, waits.returned(), new(*recipes.NotAcquiredError))
		require.Equal(t, time.Minute, waits.ended)
		require.ErrorAs(t, held.returned(), new(*lockguard.PreemptedError))
	})
}

func TestApprovalIsAboutTheHoldersThatWereShownAlone(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a polite request about which somebody is to decide
		ana := operator{asked: make(chan lockguard.Pending, 2), say: make(chan error)}
		batch, critical, vip := w.program("batch"), w.program("critical", lockguard.WithApprover(ana)), w.program("vip")
		batch.do(lockguard.Requirement{CleanupTimeout: time.Minute}, untilCancelled, lasting(30*time.Second))
		waits := critical.do(polite(), lasting(0))
		require.Equal(t, "batch", (<-ana.asked).Holders[0].Owner)

		// when that holder finishes, and somebody more important has the lock
		held := vip.do(lockguard.Requirement{Priority: 9, LeaseTimeout: 10 * time.Minute, CleanupTimeout: time.Minute}, untilCancelled, lasting(9*time.Second))
		w.pass(time.Minute)
		require.NotNil(t, held.hold())

		// then nobody is asked any more, and a decision comes too late
		select {
		case ana.say <- nil:
			require.Fail(t, "the question about a holder that has gone is still open")
		default:
		}
		require.NoError(t, waits.returned())
		require.ErrorAs(t, held.returned(), new(*lockguard.LeaseExpiredError))
		require.NotErrorAs(t, held.returned(), new(*lockguard.LostError), "it has finished its cleanup: %v", held.returned())
		require.Empty(t, batch.acts(recipes.AuditTakeover))
		require.Empty(t, ana.asked)
	})
}

func TestApprovalThatComesWithTheNextHolderIsVoid(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given an approved request, which could not act on that before its holder
		// went by itself, because somebody more important stood in front
		ana := operator{asked: make(chan lockguard.Pending, 2), say: make(chan error)}
		batch, critical, vip := w.program("batch"), w.program("critical", lockguard.WithApprover(ana)), w.program("vip")
		batch.do(lockguard.Requirement{CleanupTimeout: time.Minute}, untilCancelled, lasting(30*time.Second))
		waits := critical.do(polite(), lasting(0))
		<-ana.asked
		held := vip.do(lockguard.Requirement{Priority: 9, WaitingTimeout: new(hour), LeaseTimeout: 10 * time.Minute, CleanupTimeout: time.Minute}, untilCancelled, lasting(20*time.Second))
		ana.say <- nil
		w.pass(time.Minute)
		require.NotNil(t, held.hold())
		require.Nil(t, waits.hold())

		// when the lease of that one is over
		w.pass(11 * time.Minute)

		// then it has its grace, and people are asked about it
		require.ErrorAs(t, held.returned(), new(*lockguard.LeaseExpiredError))
		require.NotErrorAs(t, held.returned(), new(*lockguard.LostError), "it has finished its cleanup: %v", held.returned())
		require.Empty(t, batch.acts(recipes.AuditTakeover))
		require.Equal(t, "vip", (<-ana.asked).Holders[0].Owner)
		require.NoError(t, waits.returned())
	})
}
