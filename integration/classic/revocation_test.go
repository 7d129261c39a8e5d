package classic

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// Curator X2
func TestHolderThatIsAskedToReleaseIsToldOnceAndTheNextIsGranted(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	told := h.listen("ann")
	m := h.mutex(h.client(), telling(told))
	asking := h.client()

	// one mutex, again and again: Curator's is revocable only until its first release
	for turn := range 3 {
		// given a holder and one that waits
		holder := h.hold("ann", m.Acquire)
		waiter := h.queue("bob", asking)

		// when the holder is asked to release, twice
		require.NoError(t, asking.Revoke(t.Context(), holder.grant.Path()))
		await[recipes.PreemptAsked](t, told)
		require.NoError(t, asking.Revoke(t.Context(), holder.grant.Path()))

		// then it is told once, and holds until it releases
		require.NoError(t, holder.grant.Check())
		waiter.waits()
		require.Equal(t, "__REVOKE__", data(t, m)[0])
		holder.release()
		waiter.granted()
		require.Equal(t, turn+1, count[recipes.PreemptAsked](told))
		waiter.release()
	}
}

// Curator forgets a request that comes between the creation of the node and the watch on it.
func TestWaiterThatIsAskedToReleaseIsToldOnceItHolds(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client()
	holder := h.hold("ann", h.mutex(c).Acquire)
	told := h.listen("bob")
	waiter := h.ask("bob", h.mutex(h.client(), telling(told)).Acquire)
	await[recipes.Queued](t, told)
	participants, err := h.mutex(c).Participants(t.Context())
	require.NoError(t, err)

	require.NoError(t, c.Revoke(t.Context(), participants[1].Path))
	require.Zero(t, count[recipes.PreemptAsked](told))
	holder.release()

	waiter.granted()
	await[recipes.PreemptAsked](t, told)
}

func TestHolderHearsThatTheRequestToReleaseWasWithdrawnAndOfTheNext(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	told := h.listen("ann")
	holder := h.hold("ann", h.mutex(h.client(), telling(told)).Acquire)
	shell, other := h.shell(), h.client()

	for range 2 {
		require.NoError(t, other.Revoke(t.Context(), holder.grant.Path()))
		await[recipes.PreemptAsked](t, told)
		_, err := shell.Set(h.at(holder.grant.Path()), []byte("never mind"), -1)
		require.NoError(t, err)
		await[recipes.PreemptWithdrawn](t, told)
	}
}

// Curator can do that with a mutex alone.
func TestReadersAndWritersCanBeAskedToRelease(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	told := h.listen("ann")
	rw := h.rwmutex(h.client(), telling(told))
	for _, acquire := range []acquirer{rw.AcquireRead, rw.AcquireWrite} {
		u := h.hold("ann", acquire)
		require.NoError(t, h.client().Revoke(t.Context(), u.grant.Path()))
		await[recipes.PreemptAsked](t, told)
		u.release()
	}
}

func TestRevokeSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client()
	u := h.hold("ann", h.mutex(c).Acquire)
	path := u.grant.Path()
	u.release()
	var gone *recipes.GoneError
	require.ErrorAs(t, c.Revoke(t.Context(), path), &gone)
	require.Equal(t, path, gone.Path)
	require.ErrorContains(t, gone, "is not there any more")
	require.ErrorAs(t, c.Revoke(t.Context(), users), new(*recipes.RequestError))
	require.ErrorAs(t, c.Revoke(t.Context(), "nowhere"), new(*recipes.RequestError))
}
