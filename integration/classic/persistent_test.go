package classic

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/classic"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Curator X3
func TestPersistentMutexOutlivesItsSessionUntilItIsReleasedOrDeleted(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"released", "deleted"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			f := share(t)
			c := f.client()
			notices := f.listen("ann")
			holder := f.hold("ann", f.mutex(c, persistent, telling(notices)).Acquire)
			token := holder.Token()
			waiter := f.queue("bob", f.client())

			f.Renewed(c)

			require.NoError(t, holder.Granted().Check())
			require.Zero(t, holder.Granted().Deadline())
			require.Equal(t, token, holder.Token())
			waiter.IsPending()
			require.NoError(t, classic.Revoke(t.Context(), f.client().Client, holder.Path()))
			harness.Await[lock.PreemptRequested](t, notices) // it is watched in the next session
			if end == "deleted" {
				f.Delete(holder.Path())
				require.Equal(t, lock.LossDeleted, holder.Lost().Reason)
			} else {
				holder.Release()
			}
			waiter.Granted()
			require.False(t, f.Exists(holder.Path()))
		})
	}
}

// Kazoo K12
func TestPersistentMutexOutlivesItsClient(t *testing.T) {
	t.Parallel()
	f := share(t)
	c, other := f.client(), f.mutex(f.client())
	holder := f.hold("ann", f.mutex(c, persistent, kazoo).Acquire)

	require.NoError(t, c.Close(t.Context()))

	f.refuses(other.TryAcquire)
	require.ErrorIs(t, holder.Granted().Release(t.Context()), lock.ErrClosed)
	participants, err := other.Participants(t.Context())
	require.NoError(t, err)
	require.Zero(t, participants[0].Session)
	f.Delete(holder.Path())
	f.hold("bob", other.TryAcquire)
}

// It keeps its place, unlike one that goes with its session.
func TestPersistentWaiterKeepsItsPlaceWhenItsSessionEnds(t *testing.T) {
	t.Parallel()
	f := share(t)
	c := f.client()
	holder := f.hold("ann", f.mutex(f.client()).Acquire)
	notices := f.listen("bob")
	waiter := f.ask("bob", f.mutex(c, persistent, telling(notices)).Acquire)
	harness.Await[lock.Queued](t, notices)
	next := f.queue("eve", f.client())
	node := f.Filled(users, 3)[1]

	f.Expire(c)
	harness.Await[lock.Requeued](t, notices)
	holder.Release()

	waiter.Granted()
	require.Equal(t, node, waiter.node())
	next.IsPending()
	waiter.Release()
	next.Granted()
}

func TestPersistentWaiterThatLeavesAfterItsSessionLeavesNothing(t *testing.T) {
	t.Parallel()
	f := share(t)
	c := f.client()
	f.hold("ann", f.mutex(f.client()).Acquire)
	waiter := f.queue("bob", c, persistent)

	f.Expire(c)
	waiter.Cancel()

	require.Error(t, waiter.Refused())
	f.Filled(users, 1)
}

// N3 for a node that no session removes.
func TestPersistentNodeWhoseCreationWasNotAnsweredIsAdoptedInTheNextSession(t *testing.T) {
	t.Parallel()
	f := share(t)
	f.Create(users, nil, 0)
	c, proxy := f.proxied()
	creating := proxy.On(f.on(zktest.Create, users+"/*").Nth(1)).HoldReply()
	r := f.ask("ann", f.mutex(c, persistent).Acquire)
	reached(t, creating)
	proxy.Disconnect(f.Expire(c))
	creating.Release()

	require.Equal(t, []string{r.node()}, f.Children(users))
	r.Release()
	require.Empty(t, f.Children(users))
}
