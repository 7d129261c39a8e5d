package classic

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// Curator X3
func TestPersistentMutexOutlivesItsSessionAndIsReleasedByItsOwner(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c, shell := h.client(), h.shell()
	holder := h.hold("ann", h.mutex(c, persistent).Acquire)
	token := holder.token()
	waiter := h.queue("bob", h.client())

	h.expire(c)

	require.Eventually(t, func() bool { id, _ := c.Session(); return id != 0 }, soon, time.Millisecond)
	require.NoError(t, c.Ready(t.Context()))
	require.NoError(t, holder.grant.Check())
	require.Zero(t, holder.grant.Deadline())
	require.Equal(t, token, holder.token())
	waiter.waits()
	require.True(t, h.exists(shell, holder.grant.Path()))
	holder.release()
	waiter.granted()
	require.False(t, h.exists(shell, holder.grant.Path()))
}

// Kazoo K12
func TestPersistentMutexOutlivesItsClient(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c, other, shell := h.client(), h.client(), h.shell()
	g, err := h.mutex(c, persistent, kazoo).Acquire(t.Context())
	require.NoError(t, err)

	require.NoError(t, c.Close(t.Context()))

	require.True(t, h.exists(shell, g.Path()))
	_, err = h.mutex(other).TryAcquire(t.Context())
	require.ErrorAs(t, err, new(*recipes.NotAcquiredError))
	require.ErrorIs(t, g.Release(t.Context()), recipes.ErrClosed)
	participants, err := h.mutex(other).Participants(t.Context())
	require.NoError(t, err)
	require.Zero(t, participants[0].Session)
	require.NoError(t, shell.Delete(h.at(g.Path()), -1))
	h.hold("bob", h.mutex(other).TryAcquire)
}

func TestPersistentMutexWhoseNodeIsDeletedAfterItsSessionIsLost(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c, shell := h.client(), h.shell()
	told := h.listen("ann")
	holder := h.hold("ann", h.mutex(c, persistent, telling(told)).Acquire)
	id := h.expire(c)
	require.Eventually(t, func() bool { now, _ := c.Session(); return now != 0 && now != id }, soon, time.Millisecond)
	require.NoError(t, c.Ready(t.Context()))

	require.NoError(t, h.client().Revoke(t.Context(), holder.grant.Path()))
	await[recipes.PreemptAsked](t, told)
	require.NoError(t, shell.Delete(h.at(holder.grant.Path()), -1))

	require.Equal(t, recipes.LossDeleted, holder.lost().Reason)
}

// It keeps its place, unlike one that goes with its session.
func TestPersistentWaiterKeepsItsPlaceWhenItsSessionEnds(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client()
	holder := h.hold("ann", h.mutex(h.client()).Acquire)
	told := h.listen("bob")
	waiter := h.ask("bob", h.mutex(c, persistent, telling(told)).Acquire)
	await[recipes.Queued](t, told)
	next := h.queue("eve", h.client())
	node := h.crowdOf(h.shell(), users, 3)[1]

	h.expire(c)
	await[recipes.Requeued](t, told)
	holder.release()

	require.Equal(t, node, nodeName(waiter.granted()))
	next.waits()
	waiter.release()
	next.granted()
}

func TestPersistentWaiterThatLeavesAfterItsSessionLeavesNothing(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	shell := h.shell()
	wire := &wire{}
	c := h.client(through(wire))
	holder := h.hold("ann", h.mutex(h.client()).Acquire)
	told := h.listen("bob")
	waiter := h.ask("bob", h.mutex(c, persistent, telling(told)).Acquire)
	await[recipes.Queued](t, told)

	h.expire(c)
	waiter.cancel()

	require.Error(t, waiter.refused())
	h.crowdOf(shell, users, 1)
	holder.release()
}

// N3 for a node that no session removes.
func TestPersistentNodeWhoseCreationWasNotAnsweredIsAdoptedInTheNextSession(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	shell := h.shell()
	h.make(shell, users, nil, 0)
	wire := &wire{}
	c := h.client(through(wire))
	require.NoError(t, c.Ready(t.Context()))
	wire.behind(opCreate, 0, func() {
		h.crowdOf(shell, users, 1)
		h.expire(c)
		wire.cut()
	})
	u := h.hold("ann", h.mutex(c, persistent).Acquire)
	require.True(t, wire.unset())
	require.Equal(t, []string{nodeName(u.grant)}, h.children(shell, users))
	u.release()
	require.Empty(t, h.children(shell, users))
}

func TestReleaseOfAPersistentMutexThatWasDeletedIsALoss(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	shell := h.shell()
	w := &wire{}
	u := h.hold("ann", h.mutex(h.client(through(w)), persistent).Acquire)
	u.token()

	// when the node is deleted a moment before
	w.before(opDelete, 0, func() {
		if err := shell.Delete(h.at(u.grant.Path()), -1); err != nil {
			t.Error(err)
		}
	})
	err := u.grant.Release(t.Context())

	require.True(t, w.unset())
	var loss *recipes.LostError
	require.ErrorAs(t, err, &loss)
	require.Equal(t, recipes.LossDeleted, loss.Reason)
}
