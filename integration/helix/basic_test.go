package helix

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Helix 3
func TestEqualTakesTheLockWhoseLeaseHasRunOut(t *testing.T) {
	h := newFixture(t)

	// given that B holds, and its lease has run out, of which it hears nothing
	b := h.holds("B", lease(50*time.Millisecond))
	h.leaseRunsOut()
	b.undisturbed()

	// when A asks
	a := h.holds("A")

	// then A holds, and B learns why it has to release
	require.Equal(t, "A", h.holder())
	require.Greater(t, a.token(), b.token())
	requireLeaseOver(t, b.interrupted())

	// and only A can release it, or extend it
	b.loses()
	var lost *lockguard.LostError
	require.ErrorAs(t, b.Granted().Extend(t.Context(), time.Hour), &lost)
	require.ErrorAs(t, b.Granted().Release(t.Context()), &lost)
	require.Equal(t, lock.LossTaken, lost.Reason)
	require.Equal(t, "A", lost.By)
	require.Equal(t, "A", h.holder())
	a.release()
	require.Empty(t, h.holder())
}

// leaseRunsOut waits until the lease of the holder has run out.
func (f *fixture) leaseRunsOut() {
	f.Helper()
	harness.Eventually(f, func() bool { return f.state().Holders[0].LeaseLeft == 0 }, "the lease has run out")
}

// requireLeaseOver checks the cause of an interruption: the holder was
// preempted, or has heard of that too late.
func requireLeaseOver(t testing.TB, cause error) {
	t.Helper()
	if _, asked := errors.AsType[*lockguard.LeaseExpiredError](cause); asked {
		return
	}
	var lost *lockguard.LostError
	require.ErrorAs(t, cause, &lost)
	require.Equal(t, priority.LeaseExpired, lost.For)
}

// Helix 4: a record without a priority counts as one with the lowest.
func TestHolderWithoutPriorityIsNotOutranked(t *testing.T) {
	h := newFixture(t)

	// given that A has held the lock, and B holds it without having said how important it is
	ca := h.Client()
	past := h.past(ca, "A", at(0))
	b := h.holds("B")
	require.Equal(t, priority.Default, h.state().Holders[0].Priority)

	h.unchanged(func() {
		// when A of priority 0 tries, by force even, then it is refused
		require.True(t, lock.IsNotAcquired(h.ask(ca, "A", at(0), try).Refused()))
		require.True(t, lock.IsNotAcquired(h.ask(ca, "A", at(0), try, forceful, waiting(0)).Refused()))

		// and when it releases what it had, or extends it, that is an error
		require.ErrorIs(t, past.Release(t.Context()), lockguard.ErrReleased)
		require.ErrorIs(t, past.Extend(t.Context(), time.Hour), lockguard.ErrReleased)
	})

	// and when it queues, it waits like any equal
	a := h.ask(ca, "A", at(0), forceful, waiting(0))
	await[lock.Queued](a)
	a.IsPending()
	b.undisturbed()
}

// Helix 6
func TestOfManyThatTryAtOnceExactlyOneHolds(t *testing.T) {
	t.Parallel()
	const rounds = 40
	for _, crowd := range []int{2, 8} {
		t.Run(fmt.Sprint(crowd, " users"), func(t *testing.T) {
			h := newFixture(t)
			guards := make([]*lockguard.Guard, crowd)
			for i := range guards {
				c := h.Client()
				require.NoError(t, c.Ready(t.Context()))
				guards[i], _ = h.guard(c, fmt.Sprint("user ", i))
			}
			for range rounds {
				// given a free lock, when all try at the same time
				holds, errs := make([]*lockguard.Hold, crowd), make([]error, crowd)
				start := make(chan struct{})
				var race sync.WaitGroup
				for i, g := range guards {
					race.Go(func() {
						<-start
						holds[i], errs[i] = g.Acquire(t.Context(), requirement(at(priority.Level(i%3)), try))
					})
				}
				close(start)
				race.Wait()

				// then exactly one holds, the others were refused, and all clients see who
				var winners []*lockguard.Hold
				for i, hold := range holds {
					if errs[i] == nil {
						winners = append(winners, hold)
						continue
					}
					require.True(t, lock.IsNotAcquired(errs[i]), "%v", errs[i])
				}
				require.Len(t, winners, 1)
				require.Equal(t, winners[0].Info().Requirement.Owner, h.holder())
				require.NoError(t, winners[0].Release(t.Context()))
			}
		})
	}
}

// Helix 48: each client is a stranger to the others, whatever owner and process they have.
func TestSameOwnerOfTwoClientsIsTwoStrangers(t *testing.T) {
	h := newFixture(t)

	// given that one holds the lock as "backup"
	there := h.holds("backup")

	// when another asks as "backup" too
	here := h.Client()
	h.unchanged(func() {
		// then it is refused, and told which "backup" holds
		var busy *lock.NotAcquiredError
		require.ErrorAs(t, h.ask(here, "backup", try).Refused(), &busy)
		require.Len(t, busy.Holders, 1)
		require.Equal(t, there.token(), busy.Holders[0].Token)
		require.Equal(t, os.Getpid(), busy.Holders[0].PID)
	})
	second := h.ask(here, "backup")
	await[lock.Queued](second)
	second.IsPending()

	// and is granted when the other one releases, not before
	there.release()
	require.Greater(t, second.token(), there.token())

	// and this client is a stranger to itself as well, without the context of its Hold
	require.ErrorAs(t, h.ask(here, "backup", try).Refused(), new(*lock.NotAcquiredError))
}

// Helix 7
func TestHandleCannotBeClosedWhileItHolds(t *testing.T) {
	h := newFixture(t)

	// given that A holds
	c := h.Client()
	a := h.hold(c, "A")

	// when it closes its handle
	err := c.Close(t.Context())

	// then it learns that it must release first, and what it holds
	var busy *lock.BusyError
	require.ErrorAs(t, err, &busy)
	require.Equal(t, []string{scope}, busy.Held)
	require.ErrorContains(t, err, "release before closing")

	// and still holds, with all rights
	require.Equal(t, "A", h.holder())
	require.NoError(t, a.Granted().Context().Err())
	require.NoError(t, a.Granted().Extend(t.Context(), time.Hour))
	a.release()
	require.NoError(t, c.Close(t.Context()))
}

// Helix 8
func TestHandleThatIsClosedSaysSo(t *testing.T) {
	h := newFixture(t)

	// given that A does not hold, and B does
	c := h.Client()
	guard, _ := h.guard(c, "A")
	past := h.past(c, "A")
	b := h.holds("B")

	// when A closes its handle
	require.NoError(t, c.Close(t.Context()))

	// then whatever it does next fails because of that
	for what, err := range map[string]error{
		"close":    c.Close(t.Context()),
		"ready":    c.Ready(t.Context()),
		"acquire":  second(guard.Acquire(t.Context(), requirement())),
		"try":      second(guard.Acquire(t.Context(), requirement(try))),
		"do":       guard.Do(t.Context(), requirement(), func(context.Context) error { panic("ran") }),
		"inspect":  second(c.Lock(t.Context(), scope)),
		"list all": third(c.Locks(t.Context())),
	} {
		require.ErrorIs(t, err, lock.ErrClosed, what)
		require.ErrorContains(t, err, "closed", what)
	}
	require.ErrorIs(t, past.Release(t.Context()), lockguard.ErrReleased)

	// and nothing has happened to B
	require.Equal(t, "B", h.holder())
	b.undisturbed()
}

func second[T any](_ T, err error) error { return err }

func third[T, U any](_ T, _ U, err error) error { return err }
