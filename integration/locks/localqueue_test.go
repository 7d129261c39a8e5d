package locks

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// inLine has requests of a client queue inside of it.
func inLine(turns int) func(*recipes.Config) {
	return func(cfg *recipes.Config) { cfg.LocalQueue = turns }
}

// line has somebody hold the lock, and others stand in line behind.
func (h *house) line(c *recipes.Client, n int, change ...func(*recipes.Request)) (holder *user, behind []*user) {
	h.t.Helper()
	holder = h.hold(h.lock(c), "holder", change...)
	for i := range n {
		u := h.ask(h.lock(c), fmt.Sprint("behind ", i), change...)
		u.queued()
		behind = append(behind, u)
	}
	return holder, behind
}

// first waits until one of these has the lock.
func (h *house) first(users ...*user) *user {
	h.t.Helper()
	deadline := time.After(soon)
	for {
		for _, u := range users {
			select {
			case <-u.done:
				u.granted()
				return u
			case <-deadline:
				require.FailNow(h.t, "nobody has the lock")
			case <-time.After(time.Millisecond):
			}
		}
	}
}

func TestRequestsOfOneClientStandInLineBehindOneNode(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client(inLine(8))
	ann, behind := h.line(c, 3)
	require.Len(t, h.contenders(), 1)

	// when the holder releases, the next one has its node, and a token of its own
	last, id := ann.token(), ann.grant.ID()
	ann.release()
	for i, u := range behind {
		require.Equal(t, id, u.granted().ID())
		require.Greater(t, u.token(), last)
		last = u.token()
		state := h.state(c)
		require.Equal(t, []string{u.owner}, owners(state.Holders))
		require.Equal(t, last, state.Holders[0].Token)
		require.Equal(t, 2-i, state.Holders[0].Behind)
		require.Len(t, h.contenders(), 1)
		u.release()
		require.ErrorIs(t, u.grant.Release(t.Context()), recipes.ErrReleased)
	}
	h.nobodyThere()
	require.ErrorIs(t, ann.grant.Check(), recipes.ErrReleased)
}

func TestLinesOfSeveralClientsAreNeverInsideTogether(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	const clients, threads, turns = 3, 6, 8
	var inside room
	var all sync.WaitGroup
	for i := range clients {
		l := h.lock(h.client(inLine(1 + 2*i)))
		for n := range threads {
			all.Go(func() {
				for range turns {
					r := recipes.Request{Owner: fmt.Sprintf("client %d thread %d", i, n), Priority: priority.Level(n % 2), CleanupTimeout: time.Minute}
					if err := visit(t.Context(), l, r, &inside); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	inside.wasOrderly(t, clients*threads*turns)
	h.nobodyThere()
}

func TestLinePassesAStrangerOfItsPriorityAsOftenAsItMay(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	const turns = 3
	holder, behind := h.line(h.client(inLine(turns)), 8)
	bob := h.ask(h.lock(h.client()), "bob")
	bob.queued()

	for i := range turns {
		holder.release()
		holder = h.first(append([]*user{bob}, behind...)...)
		require.Equal(t, behind[0].owner, holder.owner, "turn %d", i)
		behind = behind[1:]
	}
	holder.release()
	require.Equal(t, "bob", h.first(append([]*user{bob}, behind...)...).owner, "it has been passed often enough")

	// and the line goes on when it has gone
	bob.release()
	for _, u := range behind {
		u.granted()
		u.release()
	}
	h.nobodyThere()
}

func TestLineDoesNotPassWhoIsMoreImportant(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	holder, behind := h.line(h.client(inLine(8)), 2)
	// It asks nobody to go: the holder's node does not tell of it.
	bob := h.ask(h.lock(h.client()), "bob", at(5), func(r *recipes.Request) { r.NeverPreempts = true })
	bob.queued()

	holder.release()
	require.Equal(t, "bob", h.first(append([]*user{bob}, behind...)...).owner)
	bob.release()
	for _, u := range behind {
		u.granted()
		u.release()
	}
	h.nobodyThere()
}

func TestHolderThatIsAskedToGoLeavesTheLockToWhoAsks(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	holder, behind := h.line(h.client(inLine(8)), 2, cleanup(time.Minute))
	bob := h.ask(h.lock(h.client()), "bob", at(5))
	await[recipes.PreemptAsked](t, holder.told)

	holder.release()
	require.Equal(t, "bob", h.first(append([]*user{bob}, behind...)...).owner)
	bob.release()
	for _, u := range behind {
		u.granted()
		require.Zero(t, count[recipes.PreemptAsked](u.told), "that was for another")
		u.release()
	}
	h.nobodyThere()
}

// Whatever is written to the holder's node before it is passed on, as a request to go
// is, keeps it from being passed on.
func TestNodeThatSomebodyHasWrittenIsNotPassedOn(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	wire := &tripwire{}
	holder, behind := h.line(h.client(inLine(8), through(wire)), 2)
	shell, node := h.shell(), h.node(holder.grant.ID())
	data, _, err := shell.Get(node)
	require.NoError(t, err)
	wire.set(beforeTransaction, 0, func() {
		_, err := shell.Set(node, data, -1)
		require.NoError(t, err)
	})
	holder.release()
	require.True(t, wire.unset())
	require.NotEqual(t, holder.grant.ID(), behind[0].granted().ID())

	// and then the line goes on
	behind[0].release()
	require.Equal(t, behind[0].grant.ID(), behind[1].granted().ID())
	behind[1].release()
	h.nobodyThere()
}

func TestAnswersThatAreLostWhileALockIsPassedOn(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	wire := &tripwire{}
	c := h.client(inLine(8), through(wire))
	for step := 0; ; step++ {
		holder, behind := h.line(c, 2)
		wire.set(afterRequest, step, wire.cut)
		holder.release()
		behind[0].granted()
		tripped := wire.unset()
		require.Greater(t, behind[0].token(), holder.token(), "answer %d is lost", step)
		require.Equal(t, []string{behind[0].owner}, owners(h.state(c).Holders))
		behind[0].release()
		require.Greater(t, behind[1].token(), behind[0].token(), "answer %d is lost", step)
		behind[1].release()
		h.nobodyThere()
		if !tripped {
			require.Greater(t, step, 1, "there is an answer to lose")
			return
		}
	}
}

// A request to go that comes while a transaction is under way of which nobody knows
// whether it was carried out is heard all the same.
func TestRequestToGoThatMeetsALostTransactionIsHeard(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	wire := &tripwire{}
	holder, behind := h.line(h.client(inLine(8), through(wire)), 1)
	shell, node := h.shell(), h.node(holder.grant.ID())
	others := h.lock(h.client())
	asked := make(chan *user, 1)
	wire.set(beforeTransaction, 0, func() {
		asked <- h.ask(others, "bob", at(5))
		require.Eventually(t, func() bool {
			data, _, err := shell.Get(node)
			return err == nil && strings.Contains(string(data), "preempt_by")
		}, soon, time.Millisecond)
		wire.cut()
	})
	holder.release()
	bob := <-asked
	require.Equal(t, "bob", h.first(bob, behind[0]).owner)
	bob.release()
	behind[0].granted()
	behind[0].release()
	h.nobodyThere()
}

func TestLineGoesOnInTheNextSession(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client(inLine(8))
	holder, behind := h.line(c, 2)
	h.expire(c)
	loss := await[recipes.Lost](t, holder.told).Err
	require.Equal(t, recipes.LossSession, loss.Reason)
	for _, u := range behind {
		u.granted()
		require.Greater(t, u.token(), loss.Token)
		u.release()
	}
	h.nobodyThere()
}

func TestLineBehindALeaseThatIsOverAsksTheHolderToGo(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client(inLine(8))
	holder := h.hold(h.lock(c), "holder", lease(50*time.Millisecond), cleanup(time.Minute))
	next, last := h.ask(h.lock(c), "next"), h.ask(h.lock(c), "last")

	// when its lease is over, it hears of the one that waits
	asked := await[recipes.PreemptAsked](t, holder.told)
	require.Equal(t, priority.LeaseExpired, asked.Reason)
	holder.release()
	first := h.first(next, last)
	first.release()
	h.first(map[bool]*user{true: next, false: last}[first == last]).release()
	h.nobodyThere()
}

func TestWhoLeavesTheLineIsToldWhoHasTheLock(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client(inLine(8))
	holder, behind := h.line(c, 1)
	writes := h.state(c).Holders[0].Token
	late := h.ask(h.lock(c), "late", within(50*time.Millisecond))
	var missed *recipes.NotAcquiredError
	require.ErrorAs(t, late.refused(), &missed)
	require.Equal(t, []string{"holder"}, owners(missed.Holders))
	gone := h.ask(h.lock(c), "gone")
	gone.queued()
	gone.cancel()
	require.ErrorIs(t, gone.refused(), context.Canceled)

	// then nobody waits for them
	holder.release()
	require.Greater(t, behind[0].token(), writes)
	behind[0].release()
	h.nobodyThere()
}

func TestTermsThatChangeTakeARequestOutOfTheLine(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client(inLine(8))
	changed := make(chan struct{})
	var mu sync.Mutex
	terms := recipes.Terms{LeaseTimeout: time.Minute}
	boosted := func(r *recipes.Request) {
		r.LeaseTimeout = time.Minute
		r.Terms = func() (recipes.Terms, <-chan struct{}) {
			mu.Lock()
			defer mu.Unlock()
			return terms, changed
		}
	}
	holder, behind := h.line(c, 2, cleanup(time.Minute))
	bob := h.ask(h.lock(c), "bob", boosted)
	bob.queued()
	require.Len(t, h.contenders(), 1)

	// when it gets more important, it asks the holder to go, and is the next one
	mu.Lock()
	terms.Priority = 7
	close(changed)
	changed = nil
	mu.Unlock()
	await[recipes.PreemptAsked](t, holder.told)
	holder.release()
	require.Equal(t, "bob", h.first(append([]*user{bob}, behind...)...).owner)
	bob.release()
	for _, u := range behind {
		u.granted()
		u.release()
	}
	h.nobodyThere()
}

func TestLineQueuesBehindAHolderThatShares(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client(inLine(8))
	holder, behind := h.line(c, 2)
	require.NoError(t, holder.grant.Downgrade(t.Context()))
	require.Eventually(t, func() bool { return len(h.contenders()) == 2 }, soon, time.Millisecond)
	reader := h.ask(h.lock(h.client()), "reader", at(5), func(r *recipes.Request) { r.Mode = priority.Shared })
	reader.granted()
	holder.release()
	reader.release()
	for _, u := range behind {
		u.granted()
		u.release()
	}
	h.nobodyThere()
}

func TestLineGoesOnWhenItsHolderIsEvicted(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	holder, behind := h.line(h.client(inLine(8)), 2)
	bob := h.ask(h.lock(h.client()), "bob", at(5), forceful)

	// when somebody takes the lock by force
	loss := await[recipes.Lost](t, holder.told).Err
	require.Equal(t, recipes.LossTaken, loss.Reason)
	bob.granted()
	for _, u := range behind {
		u.waits()
	}
	bob.release()
	for _, u := range behind {
		u.granted()
		require.Greater(t, u.token(), loss.Token)
		u.release()
	}
	h.nobodyThere()
}
