package locks

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A request may die between its decision and the transaction that carries it
// out. Each of these transactions contains the request's own node, so the
// server refuses it: the dead grant nothing, take nothing and give nothing.
func TestTransactionOfARequestThatIsGoneChangesNothing(t *testing.T) {
	t.Parallel()

	// doomed returns a client on whose nth transaction an administrator deletes
	// its request, right before the transaction is sent.
	doomed := func(h *house) (c *recipes.Client, deletes func(nth int, owner string)) {
		wire := &tripwire{}
		c = h.client(through(wire))
		require.NoError(h.t, c.Ready(h.t.Context()))
		shell, onlooker := h.shell(), h.client()
		require.NoError(h.t, onlooker.Ready(h.t.Context()))
		return c, func(nth int, owner string) {
			wire.set(beforeTransaction, nth, func() {
				state, err := onlooker.Lock(h.t.Context(), "users")
				if err != nil {
					h.t.Error(err)
					return
				}
				for _, c := range append(state.Holders, state.Waiters...) {
					if c.Owner == owner {
						if err := shell.Delete(h.node(c.ID), -1); err != nil {
							h.t.Error(err)
						}
						h.story.tell("admin", "deleted the node of %s", owner)
					}
				}
			})
		}
	}

	t.Run("it does not grant itself a lock that became free", func(t *testing.T) {
		t.Parallel()
		h := shareHouse(t)

		// given a holder, and two waiters
		mortal := h.client()
		h.hold(h.lock(mortal), "holder")
		c, deleteBefore := doomed(h)
		victim := h.ask(h.lock(c), "victim")
		victim.queued()
		next := h.ask(h.lock(h.client()), "next")
		next.queued()

		// when the holder dies, and the first waiter is deleted as it takes the lock
		deleteBefore(0, "victim")
		h.expire(mortal)

		// then the second one holds, and nobody else
		var evicted *recipes.EvictedError
		require.ErrorAs(t, victim.refused(), &evicted)
		next.granted()
		require.Equal(t, []string{"next"}, owners(h.state(h.client()).Holders))
	})

	t.Run("it does not hand over a lock that it has lost", func(t *testing.T) {
		t.Parallel()
		h := shareHouse(t)

		// given a holder, and a waiter
		c, deleteBefore := doomed(h)
		holder := h.hold(h.lock(c), "holder")
		waiter := h.ask(h.lock(h.client()), "waiter")
		waiter.queued()

		// when the holder is deleted as it hands over
		deleteBefore(0, "holder")
		err := holder.grant.Release(t.Context())

		// then it learns that it had lost, and the waiter holds
		var lost *recipes.LostError
		require.ErrorAs(t, err, &lost)
		require.Equal(t, recipes.LossDeleted, lost.Reason)
		waiter.granted()
		require.Greater(t, waiter.token(), lost.Token)
	})

	t.Run("it asks nobody to go", func(t *testing.T) {
		t.Parallel()
		h := shareHouse(t)

		// given a holder
		holder := h.hold(h.lock(h.client()), "holder")
		c, deleteBefore := doomed(h)

		// when a more important request is deleted as it asks the holder to go
		deleteBefore(0, "victim") // its first is not refused before: it saw the holder
		victim := h.ask(h.lock(c), "victim", at(1))

		// then the holder does not hear of it
		var evicted *recipes.EvictedError
		require.ErrorAs(t, victim.refused(), &evicted)
		require.Empty(t, h.state(h.client()).Holders[0].PreemptedBy)
		require.Zero(t, count[recipes.PreemptAsked](holder.told))
		holder.release()
	})

	t.Run("it does not take over", func(t *testing.T) {
		t.Parallel()
		h := shareHouse(t)

		// given a holder
		holder := h.hold(h.lock(h.client()), "holder")
		c, deleteBefore := doomed(h)

		// when a forceful request asks the holder to go, and is deleted as it takes the lock
		deleteBefore(1, "victim")
		victim := h.ask(h.lock(c), "victim", at(1), forceful)

		// then the holder still holds
		var evicted *recipes.EvictedError
		require.ErrorAs(t, victim.refused(), &evicted)
		require.Equal(t, 1, count[recipes.PreemptSent](victim.told))
		require.Equal(t, []string{"holder"}, owners(h.state(h.client()).Holders))
		holder.release()
		require.Zero(t, count[recipes.Lost](holder.told))
	})
}

// What a request decided on may be old news when its transaction is carried
// out: then the version of the lock node is another one, and the server
// refuses it.
func TestTransactionThatWasDecidedOnOldNewsChangesNothing(t *testing.T) {
	t.Parallel()

	// late returns a client that is overtaken: right before its next
	// transaction is sent, act does something. answered is closed when the
	// transaction has been carried out.
	late := func(h *house) (c *recipes.Client, overtake func(act func()) (answered <-chan struct{})) {
		wire := &tripwire{}
		c = h.client(through(wire))
		require.NoError(h.t, c.Ready(h.t.Context()))
		return c, func(act func()) <-chan struct{} {
			answered := make(chan struct{})
			wire.set(beforeTransaction, 0, func() {
				act()
				wire.set(atAnswer, 0, func() { close(answered) })
			})
			return answered
		}
	}
	// holds takes the lock on the spot, where a test may not fail at once.
	holds := func(h *house, l *recipes.PriorityLock, r recipes.Request) *recipes.Grant {
		g, err := l.Acquire(context.Background(), r)
		if err != nil {
			h.t.Error(err)
		}
		h.story.tell(r.Owner, "holds, error %v", err)
		return g
	}

	t.Run("a waiter that saw the holder gone", func(t *testing.T) {
		t.Parallel()
		h := shareHouse(t)

		// given a holder that dies, and a waiter
		mortal := h.client()
		h.hold(h.lock(mortal), "mortal")
		c, overtake := late(h)
		waiter := h.ask(h.lock(c), "waiter")
		waiter.queued()

		// when a more important one takes the lock before the waiter can
		var important *recipes.Grant
		other := h.lock(h.client())
		answered := overtake(func() {
			important = holds(h, other, recipes.Request{Owner: "important", Priority: 5, CleanupTimeout: time.Hour})
		})
		h.expire(mortal)
		<-answered

		// then that one holds, and the waiter waits for it
		waiter.waits()
		require.Equal(t, []string{"important"}, owners(h.state(h.client()).Holders))
		require.NoError(t, important.Release(t.Context()))
		waiter.granted()
	})

	t.Run("a newcomer that saw nobody", func(t *testing.T) {
		t.Parallel()
		h := shareHouse(t)

		for _, warm := range []bool{false, true} {
			// given a client that finds the lock free, by looking or from memory
			c, overtake := late(h)
			require.NoError(t, h.warm(c))
			if warm {
				first := h.hold(h.lock(c), "first")
				first.release()
			}

			// when another one takes it before it can
			var faster *recipes.Grant
			other := h.lock(h.client())
			answered := overtake(func() { faster = holds(h, other, recipes.Request{Owner: "faster"}) })
			newcomer := h.ask(h.lock(c), "newcomer")
			<-answered

			// then that one holds, and the newcomer waits for it
			newcomer.queued()
			require.Equal(t, []string{"faster"}, owners(h.state(h.client()).Holders))
			require.NoError(t, faster.Release(t.Context()))
			newcomer.granted()
			newcomer.release()
		}
	})

	t.Run("a holder that saw its successor", func(t *testing.T) {
		t.Parallel()
		h := shareHouse(t)

		// given a holder, and two waiters
		c, overtake := late(h)
		holder := h.hold(h.lock(c), "holder")
		leaving := h.ask(h.lock(h.client()), "leaving")
		leaving.queued()
		next := h.ask(h.lock(h.client()), "next")
		next.queued()

		// when the first one leaves before the holder hands over to it
		answered := overtake(func() {
			leaving.cancel()
			<-leaving.done
		})
		holder.release()
		<-answered

		// then the second one holds
		require.ErrorIs(t, leaving.refused(), context.Canceled)
		next.granted()
		require.Greater(t, next.token(), holder.token())
	})
	t.Run("a waiter that was passed, and knocks", func(t *testing.T) {
		t.Parallel()
		h := shareHouse(t)
		shell := h.shell()

		// given a waiter whose holder goes
		holder := h.hold(h.lock(h.client()), "holder")
		lockNode := h.lockNode(holder.grant.ID())
		wire := &tripwire{}
		waiter := h.ask(h.lock(h.client(through(wire))), "waiter")
		waiter.queued()
		takes := func(guid string) (node string) {
			_, stat, err := shell.Get(lockNode)
			if err == nil {
				var r []zk.MultiResponse
				r, err = shell.Multi(
					&zk.CreateRequest{
						Path: lockNode + "/2147483647-x-" + guid + "-", Data: []byte(`{"format":1,"owner":"o","lease_timeout_ms":3600000,"mode":"exclusive","granted":true}`),
						Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral | zk.FlagSequence,
					},
					&zk.SetDataRequest{Path: lockNode, Data: []byte(`{"format":1,"holders":["` + guid + `"]}`), Version: stat.Version})
				if err == nil {
					return r[0].String
				}
			}
			t.Error(err)
			return ""
		}

		// when one takes the lock past it, and another one right before it knocks
		const one, other = "aaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbb"
		knocked := make(chan string, 1)
		wire.set(beforeTransaction, 0, func() {
			first := takes(one)
			wire.set(beforeTransaction, 0, func() {
				if err := shell.Delete(first, -1); err != nil {
					t.Error(err)
				}
				knocked <- takes(other)
			})
		})
		require.NoError(t, shell.Delete(h.node(holder.grant.ID()), -1))
		node := <-knocked

		// then that one holds, and the waiter waits for it
		waiter.waits()
		state := h.state(h.client())
		require.Len(t, state.Holders, 1)
		require.Equal(t, other, state.Holders[0].ID)
		require.NoError(t, shell.Delete(node, -1))
		waiter.granted()
	})
}
