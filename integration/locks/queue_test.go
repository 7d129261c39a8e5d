package locks

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Curator M1
func TestLockIsHeldUntilTheEndOfTheScopeAndNotAfter(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client()

	// given a free lock
	require.False(t, h.state(c).Held())

	// when a function holds it until it returns
	func() {
		g, err := h.lock(c).Acquire(t.Context(), recipes.Request{Owner: "scoped"})
		require.NoError(t, err)
		defer func() { require.NoError(t, g.Release(t.Context())) }()

		// then it is held inside
		require.Equal(t, []string{"scoped"}, owners(h.state(c).Holders))
	}()

	// and free after it
	require.False(t, h.state(c).Held())
	require.Empty(t, h.contenders())
}

// Kazoo K1
func TestOnlookerSeesWhoHoldsTheLock(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given one that holds
	g := h.hold(h.lock(h.client()), "backup", at(7), lease(time.Hour), cleanup(time.Minute), func(r *recipes.Request) {
		r.Message = "nightly backup"
	})

	// when another client looks
	state := h.state(h.client())

	// then it sees who, why and how important
	require.Empty(t, state.Waiters)
	require.Len(t, state.Holders, 1)
	holder := state.Holders[0]
	require.Equal(t, "backup", holder.Owner)
	require.Equal(t, "nightly backup", holder.Message)
	require.EqualValues(t, 7, holder.Priority)
	require.Equal(t, time.Minute, holder.CleanupTimeout)
	require.Equal(t, g.grant.ID(), holder.ID)
	require.Equal(t, g.token(), holder.Token)
	require.Greater(t, holder.LeaseLeft, time.Hour-time.Minute)
}

// Kazoo K2
func TestWaitersAreServedInTheOrderOfTheList(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	onlooker := h.client()

	// given a holder, and five waiters in the order of their arrival
	holder := h.hold(h.lock(h.client()), "holder")
	var waiters []*user
	for i := range 5 {
		w := h.ask(h.lock(h.client()), fmt.Sprint("waiter ", i))
		w.queued()
		waiters = append(waiters, w)
	}
	want := []string{"waiter 0", "waiter 1", "waiter 2", "waiter 3", "waiter 4"}
	require.Equal(t, want, owners(h.state(onlooker).Waiters))

	// when one after the other releases
	for i, w := range waiters {
		holder.release()
		holder = w
		holder.granted()

		// then the next one holds, and the list is shorter by one
		state := h.state(onlooker)
		require.Equal(t, want[i:i+1], owners(state.Holders))
		require.Equal(t, want[i+1:], owners(state.Waiters))
		for place, waiter := range state.Waiters {
			require.Equal(t, place+1, waiter.Position)
		}
		for _, later := range waiters[i+1:] {
			later.waits()
		}
	}
	holder.release()
	h.nobodyThere()
}

// The same with levels: the more important ones first, however late they come.
func TestMoreImportantWaitersAreServedFirst(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	onlooker := h.client()

	// given a holder that nobody outranks, and waiters of two levels, mixed
	holder := h.hold(h.lock(h.client()), "holder", at(9))
	waiters := map[string]*user{}
	for i := range 6 {
		name := fmt.Sprint("waiter ", i)
		w := h.ask(h.lock(h.client()), name, at(priority.Level(1+2*(i%2))))
		w.queued()
		waiters[name] = w
	}
	want := []string{"waiter 1", "waiter 3", "waiter 5", "waiter 0", "waiter 2", "waiter 4"}
	require.Equal(t, want, owners(h.state(onlooker).Waiters))

	// when one after the other releases, then they are served in that order
	for i, name := range want {
		holder.release()
		holder = waiters[name]
		holder.granted()
		require.Equal(t, want[i+1:], owners(h.state(onlooker).Waiters))
	}
}

// Kazoo K4, etcd T3
func TestTryOnHeldLockIsRefusedAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given one that holds
	holder := h.hold(h.lock(h.client()), "holder")

	// when a more important one tries
	tryer := h.ask(h.lock(h.client()), "tryer", at(100), try)

	// then it is told who holds, and no request was ever there
	var busy *recipes.NotAcquiredError
	require.ErrorAs(t, tryer.refused(), &busy)
	require.Equal(t, []string{"holder"}, owners(busy.Holders))
	require.Contains(t, busy.Error(), `"holder"`)
	require.Len(t, h.contenders(), 1)

	// and the holder has heard nothing of it
	require.Zero(t, count[recipes.PreemptAsked](holder.told))
	require.Empty(t, h.state(h.client()).Holders[0].PreemptedBy)
}

// Kazoo K5
func TestFirstAcquireEverMakesEverythingThatIsMissing(t *testing.T) {
	t.Parallel()

	// given a server without even the root
	h := shareHouse(t)
	c := h.client(func(cfg *recipes.Config) { cfg.Root += "/a/b" })

	// when somebody acquires
	first := h.hold(h.scope(c, "cluster/orders/resource/users"), "first")

	// then it holds
	state, err := c.Lock(t.Context(), "cluster/orders/resource/users")
	require.NoError(t, err)
	require.Equal(t, []string{"first"}, owners(state.Holders))
	first.release()
}

// Kazoo K6
func TestCancelledWaiterLeavesAndTheHolderDoesNotNotice(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given a holder, and a waiter
	holder := h.hold(h.lock(h.client()), "holder")
	waiter := h.ask(h.lock(h.client()), "waiter")
	waiter.queued()
	require.Len(t, h.contenders(), 2)

	// when the waiter is cancelled
	waiter.cancel()

	// then its request ends with that cause, and is gone when it does
	require.ErrorIs(t, waiter.refused(), context.Canceled)
	require.Len(t, h.contenders(), 1)

	// and the holder still holds, and can release
	require.Zero(t, count[recipes.Notice](holder.told))
	require.Equal(t, []string{"holder"}, owners(h.state(h.client()).Holders))
	holder.release()
}

// Kazoo K7
func TestHolderThatAsksAgainIsAStrangerAndQueues(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	l := h.lock(h.client())

	// given that I hold
	holder := h.hold(l, "me")

	// when I acquire again, for half a second
	start := time.Now()
	again := h.ask(l, "me", within(500*time.Millisecond))

	// then I get nothing, not earlier, and still hold
	var busy *recipes.NotAcquiredError
	require.ErrorAs(t, again.refused(), &busy)
	require.GreaterOrEqual(t, time.Since(start), 500*time.Millisecond)
	require.Len(t, h.contenders(), 1)
	require.True(t, h.state(h.client()).Held())

	// and after the release I do not
	holder.release()
	require.False(t, h.state(h.client()).Held())
}

// Kazoo K8
func TestSecondTryOnOneObjectIsRefused(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	l := h.lock(h.client())

	// given a free lock, when one object tries twice
	first := h.ask(l, "first", try)
	first.granted()
	second := h.ask(l, "second", try)

	// then only the first time succeeds
	require.True(t, recipes.IsNotAcquired(second.refused()))
}

// Kazoo K11
func TestReleasedLockCanBeTakenAgain(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	l := h.lock(h.client())
	last := recipes.Token(0)

	// given one that holds and releases, when it does so again, then it works
	for range 5 {
		u := h.hold(l, "again and again")
		require.Greater(t, u.token(), last)
		last = u.token()
		u.release()
		require.False(t, h.state(h.client()).Held())
	}
	h.nobodyThere()
}

// etcd T2
func TestSecondReleaseSaysThatItWasReleased(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	l := h.lock(h.client())

	// given a lock that was released, and is held by somebody else
	u := h.hold(l, "first")
	u.release()
	second := h.hold(l, "second")

	// when it is released again, then that is an error, and nothing happens
	require.ErrorIs(t, u.grant.Release(t.Context()), recipes.ErrReleased)
	require.ErrorIs(t, u.grant.Extend(t.Context(), time.Minute), recipes.ErrReleased)
	require.Equal(t, []string{"second"}, owners(h.state(h.client()).Holders))
	second.release()
}

// Kazoo K13, Curator SM2
func TestAcquireTimeoutEndsNotEarlierAndNotMuchLater(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given one that holds
	holder := h.hold(h.lock(h.client()), "holder")

	// when another client acquires with a timeout
	const patience = 700 * time.Millisecond
	c := h.client()
	require.NoError(t, c.Ready(t.Context()))
	start := time.Now()
	waiter := h.ask(h.lock(c), "waiter", within(patience))
	err := waiter.refused()
	waited := time.Since(start)

	// then it fails then, not earlier, and says who was in the way
	var busy *recipes.NotAcquiredError
	require.ErrorAs(t, err, &busy)
	require.GreaterOrEqual(t, waited, patience)
	require.Less(t, waited, patience+3*time.Second)
	require.GreaterOrEqual(t, busy.Waited, patience)
	require.Equal(t, []string{"holder"}, owners(busy.Holders))

	// and the holder still holds
	require.Len(t, h.contenders(), 1)
	require.Equal(t, []string{"holder"}, owners(h.state(c).Holders))
	holder.release()
}

// Kazoo K14, K15: there is no pattern that makes a foreign node count.
func TestForeignNodesUnderTheLockAreIgnored(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	shell := h.shell()

	// given a holder and a waiter, and nodes between them that are no requests
	holder := h.hold(h.lock(h.client()), "holder")
	node := h.lockNode(holder.grant.ID())
	for _, name := range []string{"lock-0000000000", "_c_8f3-lock-0000000001", "0", "zzz"} {
		_, err := shell.Create(node+"/"+name, nil, 0, worldACL)
		require.NoError(t, err)
	}
	waiter := h.ask(h.lock(h.client()), "waiter")
	waiter.queued()

	// when the holder releases, then the waiter holds
	holder.release()
	waiter.granted()
	require.Len(t, h.state(h.client()).Foreign, 4)
	waiter.release()

	// and a newcomer takes the lock although the nodes are there
	h.hold(h.lock(h.client()), "newcomer", try)
}

// N12
func TestHolderThatReleasesByItselfGivesToTheOneThatAsked(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given a holder, and a more important one that has asked it to go
	holder := h.hold(h.lock(h.client()), "holder", at(1), cleanup(time.Hour))
	asking := h.ask(h.lock(h.client()), "asking", at(2))
	await[recipes.PreemptSent](t, asking.told)
	await[recipes.PreemptAsked](t, holder.told)

	// and one that waits behind that
	behind := h.ask(h.lock(h.client()), "behind", at(1))
	behind.queued()

	// when the holder releases for reasons of its own
	holder.release()

	// then the one that asked is granted
	asking.granted()
	behind.waits()
	require.Equal(t, []string{"asking"}, owners(h.state(h.client()).Holders))
	require.Greater(t, asking.token(), holder.token())
}

// N13
func TestPendingPreemptorKeepsItsPlaceBeforeALessImportantOne(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	onlooker := h.client()

	// given a holder that priority 3 has asked to go
	holder := h.hold(h.lock(h.client()), "holder", at(1), cleanup(time.Hour))
	three := h.ask(h.lock(h.client()), "three", at(3))
	await[recipes.PreemptSent](t, three.told)

	// when priority 2 asks, by force
	two := h.ask(h.lock(h.client()), "two", at(2), forceful)
	require.Equal(t, 2, two.queued().Position)

	// then 3 keeps its place, and its request to the holder
	state := h.state(onlooker)
	require.Equal(t, []string{"three", "two"}, owners(state.Waiters))
	require.Len(t, state.Holders[0].PreemptedBy, 1)
	require.Equal(t, "three", state.Holders[0].PreemptedBy[0].Owner)
	require.Zero(t, count[recipes.Displaced](three.told))
	require.Zero(t, count[recipes.PreemptSent](two.told))

	// and is granted first
	holder.release()
	three.granted()
	two.waits()
}

// A request to go whose author is gone is void; the next author clears it away.
func TestMailboxKeepsNoRequestsOfTheDead(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given a holder that was asked to go
	holder := h.hold(h.lock(h.client()), "holder", cleanup(time.Hour))
	c := h.client()
	boss := h.ask(h.lock(c), "boss", at(1))
	await[recipes.PreemptAsked](t, holder.told)

	// when the session of the one that asked ends, and it asks again in another one
	h.expire(c)
	require.Eventually(t, func() bool { return count[recipes.PreemptSent](boss.told) == 2 }, soon, time.Millisecond)

	// then that is the only request that stands
	require.Len(t, h.state(h.client()).Holders[0].PreemptedBy, 1)
	holder.release()
	boss.granted()
}

// An extension starts the lease anew, not the hold.
func TestHoldIsAsOldAsItsGrantHoweverOftenItWasExtended(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	onlooker := h.client()
	holder := h.hold(h.lock(h.client()), "holder")
	since := h.state(onlooker).Holders[0].Since
	for range 2 {
		<-time.After(5 * time.Millisecond) // the server's clock goes on
		require.NoError(t, holder.grant.Extend(t.Context(), time.Hour))
		require.Equal(t, since, h.state(onlooker).Holders[0].Since)
	}
	holder.release()
}
