package lockguard

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

var shop = Reference{Scope: scope, Hold: "shop/order-17", ID: "4e1c", Token: 7}

// joined returns a companion that joins a hold with a minute of cleanup.
func (s setup) joined(ctx context.Context, t *testing.T, options ...JoinOption) *Hold {
	t.Helper()
	hold, err := s.Join(ctx, required(), shop, options...)
	require.NoError(t, err)
	return hold
}

func TestCompanionIsInterruptedByItsOwnMailbox(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		hold := s.joined(t.Context(), t)
		require.Equal(t, "shop/order-17", hold.Reference().Hold)
		require.Equal(t, "shop/order-17", about[Acquired](t, s.events).Hold)

		s.locker.last().preempt(10 * time.Second)
		requirePreempted(t, context.Cause(hold.Context()))
		require.NoError(t, hold.Release(t.Context()))
		require.Equal(t, []string{"Waiting", "Acquired", "PreemptRequested", "Released"}, s.events.names())
	})
}

// What a member asked for counts for nothing but how long it waits for an answer: all terms are those of the hold.
func TestMemberHasTheTermsOfTheHold(t *testing.T) {
	s := newSetup(t)
	terms := priority.Terms{
		Priority: 7, Mode: priority.Shared, LeaseTimeout: time.Hour, CleanupTimeout: time.Minute, WaitingTimeout: new(time.Second),
		Forceful: true, LockDelay: time.Minute, PreemptDelta: 3,
	}
	s.locker.prepare = func(g *fakeGrant) { g.request.Terms = terms }
	hold := s.joined(t.Context(), t)
	require.Equal(t, terms, hold.Info().Requirement.Terms)
	require.NoError(t, hold.Release(t.Context()))
}

func TestHoldThatIsAskedToGoIsNotJoined(t *testing.T) {
	s := newSetup(t)
	s.locker.before = func(context.Context, *fakeGrant) error {
		return &lock.PreemptPendingError{Scope: scope, Hold: shop.Hold, By: lock.PreemptRequested{
			By: lock.Contender{Identity: priority.Identity{Owner: "hotfix"}, Terms: priority.Terms{Priority: 9}}, Grace: time.Minute,
		}}
	}
	_, err := s.Join(t.Context(), Requirement{}, shop)
	require.Equal(t, time.Minute, requirePreempted(t, err).Grace)
	require.Equal(t, []string{"Waiting", "NotAcquired"}, s.events.names())
}

func TestCompanionForCleanupWorksUntilTheGraceIsOver(t *testing.T) {
	for _, when := range []string{"before it joins", "after it has joined"} {
		runVirtual(t, when, func(t *testing.T, s setup) {
			ask := func(g *fakeGrant) { g.preempt(10 * time.Second) }
			if when == "before it joins" {
				s.locker.prepare = ask
			}
			hold := s.joined(t.Context(), t, ForCleanup())
			require.True(t, s.locker.last().request.ForCleanup)
			if when != "before it joins" {
				ask(s.locker.last())
			}
			synctest.Wait()

			// its work, and what it needs for that, goes on
			nested := acquire(hold.Context(), t, s, Requirement{Scope: scope})
			time.Sleep(9 * time.Second)
			require.NoError(t, hold.Context().Err())
			require.NoError(t, nested.Context().Err())

			// until the grace is over
			time.Sleep(time.Second)
			synctest.Wait()
			require.ErrorIs(t, context.Cause(hold.Context()), context.DeadlineExceeded)
			require.ErrorIs(t, context.Cause(nested.Context()), context.DeadlineExceeded)
			require.NoError(t, nested.Release(t.Context()))
			require.NoError(t, hold.Release(t.Context()))
			require.Equal(t, "hotfix", only[lock.PreemptRequested](t, s.events).By.Owner)
		})
	}
}

func TestAdoptedHoldThatIsAskedToGoHasTheRestOfItsGrace(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		s.locker.prepare = func(g *fakeGrant) { g.preempt(10 * time.Second) }
		hold, err := s.Adopt(t.Context(), required(), shop)
		require.NoError(t, err)
		require.Equal(t, 10*time.Second, requirePreempted(t, context.Cause(hold.Context())).Grace)
		require.NoError(t, hold.OnCleanup(func(ctx context.Context) error {
			deadline, ok := ctx.Deadline()
			require.True(t, ok)
			require.Equal(t, 10*time.Second, time.Until(deadline))
			return nil
		}))
		require.NoError(t, hold.Release(t.Context()))
		require.Equal(t, []string{"Waiting", "Acquired", "PreemptRequested", "CleanupStarted", "CleanupDone", "Released"}, s.events.names())
	})
}

func TestRequirementOfACompanionMustFitTheReference(t *testing.T) {
	s := newSetup(t)
	for _, r := range []Requirement{{Scope: "elsewhere"}, {Hold: "another"}, {Hold: "\a"}} {
		_, err := s.Join(t.Context(), r, shop)
		require.ErrorAs(t, err, new(*RequestError))
		_, err = s.Adopt(t.Context(), r, shop)
		require.ErrorAs(t, err, new(*RequestError))
	}
	require.Empty(t, s.events.names())
	require.ErrorAs(t, Requirement{Scope: scope, Hold: "\a"}.Validate(), new(*RequestError))
}

func TestHoldWithAnIDIsNotDowngraded(t *testing.T) {
	s := newSetup(t)
	hold := acquire(t.Context(), t, s, Requirement{Scope: scope, Hold: "mine"})
	require.ErrorAs(t, hold.Downgrade(t.Context()), new(*RequestError))
	require.Zero(t, s.locker.last().downgrades)
	require.NoError(t, acquire(hold.Context(), t, s, Requirement{Scope: scope}).Release(t.Context()), "it may be nested exclusively yet")
}

func TestTicketGoesOnInTheBackground(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		turn := make(chan struct{})
		s.locker.before = func(ctx context.Context, g *fakeGrant) error {
			g.request.Notify(lock.Joined{ID: "first"})
			g.request.Notify(lock.Joined{ID: "second"}) // it had to queue again
			select {
			case <-turn:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ticket := s.Enqueue(ctx, Requirement{Scope: scope, Hold: "mine"})
		<-ticket.Joined()
		synctest.Wait()
		ref, ok := ticket.Reference()
		require.True(t, ok)
		require.Equal(t, Reference{Scope: scope, Hold: "mine", ID: "second"}, ref)
		_, err := ticket.Hold()
		require.ErrorIs(t, err, ErrWaiting)

		close(turn)
		<-ticket.Done()
		hold, err := ticket.Hold()
		require.NoError(t, err)
		ref, _ = ticket.Reference()
		require.Equal(t, hold.Reference(), ref)
		require.NotZero(t, ref.Token)

		// its context derives from that of the ticket
		cancel()
		synctest.Wait()
		require.ErrorAs(t, context.Cause(hold.Context()), new(*ShutdownError))
	})
}

func TestTicketEndsWithItsContext(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		s.locker.before = func(ctx context.Context, _ *fakeGrant) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ticket := s.Enqueue(ctx, Requirement{Scope: scope})
		synctest.Wait()
		cancel()
		<-ticket.Done()
		_, err := ticket.Hold()
		require.ErrorIs(t, err, context.Canceled)
		_, known := ticket.Reference()
		require.False(t, known)
	})
}
