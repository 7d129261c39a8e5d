package locks

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// line has somebody hold the lock, and others stand in line behind.
func (f *fixture) line(c *lock.Client, n int, change ...func(*lock.Request)) (holder *harness.Request, behind []*harness.Request) {
	f.Helper()
	holder = f.Hold(f.lock(c), "holder", change...)
	for i := range n {
		u := f.Acquire(f.lock(c), fmt.Sprint("behind ", i), change...)
		u.Queued()
		behind = append(behind, u)
	}
	return holder, behind
}

// first waits until one of these has the lock.
func (f *fixture) first(users ...*harness.Request) *harness.Request {
	f.Helper()
	var holder *harness.Request
	harness.Eventually(f, func() bool {
		i := slices.IndexFunc(users, func(u *harness.Request) bool {
			select {
			case <-u.Done():
				return true
			default:
				return false
			}
		})
		if i >= 0 {
			holder = users[i]
		}
		return i >= 0
	}, "one of them has the lock")
	holder.Granted()
	return holder
}

func TestRequestsOfOneClientStandInLineBehindOneNode(t *testing.T) {
	h := share(t)
	c := h.Client(inLine(8))
	ann, behind := h.line(c, 3)
	require.Len(t, h.Ephemerals(), 1)

	// when the holder releases, the next one has its node, and a token of its own
	last, id := ann.Token(), ann.Granted().ID()
	ann.Release()
	for i, u := range behind {
		require.Equal(t, id, u.Granted().ID())
		require.Greater(t, u.Token(), last)
		last = u.Token()
		state := h.state(c)
		require.Equal(t, []string{u.Owner}, harness.Owners(state.Holders))
		require.Equal(t, last, state.Holders[0].Token)
		require.Equal(t, 2-i, state.Holders[0].Behind)
		require.Len(t, h.Ephemerals(), 1)
		u.Release()
		require.ErrorIs(t, u.Granted().Release(t.Context()), lock.ErrReleased)
	}
	h.NoEphemerals()
	require.ErrorIs(t, ann.Granted().Check(), lock.ErrReleased)
}

// A holder gets the same notices from its own process as from ZooKeeper.
func TestHolderOfTheLineHasAllItsTerms(t *testing.T) {
	h := share(t)
	c := h.Client(inLine(8))
	asks := func(r *lock.Request) {
		r.Terms = priority.Terms{
			Priority: 9, Forceful: true, WaitingTimeout: new(7 * time.Minute), LeaseTimeout: time.Hour, CleanupTimeout: 3 * time.Minute,
			MinRuntime: 20 * time.Minute, PreemptDelta: 5,
		}
	}
	h.Hold(h.lock(c), "holder", asks)
	told := h.Acquire(h.lock(c), "behind", asks).Queued().Holders
	require.Len(t, h.Ephemerals(), 1, "it stands in the line")
	require.Len(t, told, 1)
	require.True(t, h.state(c).Holders[0].Equal(told[0].Terms), "%+v", told[0].Terms)
}

func TestLinesOfSeveralClientsAreNeverInsideTogether(t *testing.T) {
	h := share(t)
	var locks []*lock.PriorityLock
	for i := range 3 {
		locks = append(locks, h.lock(h.Client(inLine(1+2*i))))
	}
	h.turns(locks, 6, 8)
}

func TestLinePassesAStrangerOfItsPriorityAsOftenAsItMay(t *testing.T) {
	h := share(t)
	const turns = 3
	holder, behind := h.line(h.Client(inLine(turns)), 8)
	bob := h.queued("bob")

	for i := range turns {
		holder.Release()
		holder = h.first(append([]*harness.Request{bob}, behind...)...)
		require.Equal(t, behind[0].Owner, holder.Owner, "turn %d", i)
		behind = behind[1:]
	}
	holder.Release()
	require.Equal(t, "bob", h.first(append([]*harness.Request{bob}, behind...)...).Owner, "it has been passed often enough")

	// and the line goes on when it has gone
	bob.Release()
	h.drain(behind...)
}

func TestLineDoesNotPassWhoIsMoreImportant(t *testing.T) {
	h := share(t)
	holder, behind := h.line(h.Client(inLine(8)), 2)
	// It preempts no holder: the holder's node does not mention it.
	bob := h.queued("bob", harness.At(5), func(r *lock.Request) { r.NeverPreempts = true })

	holder.Release()
	require.Equal(t, "bob", h.first(append([]*harness.Request{bob}, behind...)...).Owner)
	bob.Release()
	h.drain(behind...)
}

func TestPreemptedHolderLeavesTheLockToItsPreemptor(t *testing.T) {
	h := share(t)
	holder, behind := h.line(h.Client(inLine(8)), 2, harness.Cleanup(time.Minute))
	bob := h.acquire("bob", harness.At(5))
	harness.Await[lock.PreemptRequested](h, holder.Notices)

	holder.Release()
	require.Equal(t, "bob", h.first(append([]*harness.Request{bob}, behind...)...).Owner)
	bob.Release()
	for _, u := range behind {
		u.Granted()
		require.Empty(t, harness.All[lock.PreemptRequested](u.Notices), "that was for another")
		u.Release()
	}
	h.NoEphemerals()
}

// Whatever is written to the holder's node before it is passed on, as a preemption
// is, keeps it from being passed on.
func TestNodeThatSomebodyHasWrittenIsNotPassedOn(t *testing.T) {
	h := share(t)
	c, wire := h.wired(inLine(8))
	holder, behind := h.line(c, 2)
	node := holder.Node()
	data, _ := h.Get(node)
	h.meanwhile(wire.On(zktest.Op(zktest.Multi).Nth(1)).Hold(), func() { h.Set(node, data) })
	holder.Release()
	require.NotEqual(t, holder.Granted().ID(), behind[0].Granted().ID())

	// and then the line goes on
	behind[0].Release()
	require.Equal(t, behind[0].Granted().ID(), behind[1].Granted().ID())
	behind[1].Release()
	h.NoEphemerals()
}

func TestAnswersThatAreLostWhileALockIsPassedOn(t *testing.T) {
	h := share(t)
	c, wire := h.wired(inLine(8))
	for step := 1; ; step++ {
		holder, behind := h.line(c, 2)
		lost := wire.On(request().Nth(step)).DropReply()
		holder.Release()
		behind[0].Granted()
		lost.Remove()
		require.Greater(t, behind[0].Token(), holder.Token(), "answer %d is lost", step)
		h.heldBy(c, behind[0].Owner)
		behind[0].Release()
		require.Greater(t, behind[1].Token(), behind[0].Token(), "answer %d is lost", step)
		behind[1].Release()
		h.NoEphemerals()
		if lost.Fired() == 0 {
			require.Greater(t, step, 2, "there is an answer to lose")
			return
		}
	}
}

// A preemption that comes while a transaction with an unknown outcome is under way
// is still noticed.
func TestRequestToGoThatMeetsALostTransactionIsHeard(t *testing.T) {
	h := share(t)
	c, wire := h.wired(inLine(8))
	holder, behind := h.line(c, 1)
	id, _ := c.Session()
	others := h.lock(h.Client())
	asked := make(chan *harness.Request, 1)
	h.meanwhile(wire.On(zktest.Op(zktest.Multi).Nth(1)).Hold(), func() {
		bob := h.Acquire(others, "bob", harness.At(5))
		harness.Await[lock.PreemptSent](h, bob.Notices)
		wire.Disconnect(id)
		asked <- bob
	})
	holder.Release()
	bob := <-asked
	require.Equal(t, "bob", h.first(bob, behind[0]).Owner)
	bob.Release()
	behind[0].Granted()
	behind[0].Release()
	h.NoEphemerals()
}

func TestLineGoesOnInTheNextSession(t *testing.T) {
	h := share(t)
	c := h.Client(inLine(8))
	holder, behind := h.line(c, 2)
	h.Expire(c)
	loss := holder.Lost().Err
	require.Equal(t, lock.LossSession, loss.Reason)
	for _, u := range behind {
		u.Granted()
		require.Greater(t, u.Token(), loss.Token)
		u.Release()
	}
	h.NoEphemerals()
}

func TestLineBehindALeaseThatIsOverAsksTheHolderToGo(t *testing.T) {
	h := share(t)
	c := h.Client(inLine(8))
	holder := h.Hold(h.lock(c), "holder", harness.Lease(50*time.Millisecond), harness.Cleanup(time.Minute))
	next, last := h.Acquire(h.lock(c), "next"), h.Acquire(h.lock(c), "last")

	// when its lease is over, it hears of the one that waits
	asked := harness.Await[lock.PreemptRequested](h, holder.Notices)
	require.Equal(t, priority.LeaseExpired, asked.Reason)
	holder.Release()
	first := h.first(next, last)
	first.Release()
	h.first(map[bool]*harness.Request{true: next, false: last}[first == last]).Release()
	h.NoEphemerals()
}

func TestWhoLeavesTheLineLearnsWhoHasTheLock(t *testing.T) {
	h := share(t)
	c := h.Client(inLine(8))
	holder, behind := h.line(c, 1)
	writes := h.state(c).Holders[0].Token
	late := h.Acquire(h.lock(c), "late", harness.Within(50*time.Millisecond))
	var missed *lock.NotAcquiredError
	require.ErrorAs(t, late.Refused(), &missed)
	require.Equal(t, []string{"holder"}, harness.Owners(missed.Holders))
	gone := h.Acquire(h.lock(c), "gone")
	gone.Queued()
	gone.Cancel()
	require.ErrorIs(t, gone.Refused(), context.Canceled)

	// then no request waits for them
	holder.Release()
	require.Greater(t, behind[0].Token(), writes)
	behind[0].Release()
	h.NoEphemerals()
}

func TestTermsThatChangeTakeARequestOutOfTheLine(t *testing.T) {
	h := share(t)
	c := h.Client(inLine(8))
	terms, revise := changingTerms(lock.Revision{Terms: priority.Terms{LeaseTimeout: time.Minute}})
	holder, behind := h.line(c, 2, harness.Cleanup(time.Minute))
	bob := h.Acquire(h.lock(c), "bob", harness.Lease(time.Minute), func(r *lock.Request) { r.Revise = terms })
	bob.Queued()
	require.Len(t, h.Ephemerals(), 1)

	// when it gets more important, it preempts the holder, and is the next one
	revise(lock.Revision{Terms: priority.Terms{Priority: 7, LeaseTimeout: time.Minute}})
	harness.Await[lock.PreemptRequested](h, holder.Notices)
	holder.Release()
	require.Equal(t, "bob", h.first(append([]*harness.Request{bob}, behind...)...).Owner)
	bob.Release()
	h.drain(behind...)
}

func TestLineQueuesBehindAHolderThatShares(t *testing.T) {
	h := share(t)
	c := h.Client(inLine(8))
	holder, behind := h.line(c, 2)
	require.NoError(t, holder.Granted().Downgrade(t.Context()))
	harness.Eventually(t, func() bool { return len(h.Ephemerals()) == 2 }, "the line has a node of its own")
	reader := h.acquire("reader", harness.At(5), func(r *lock.Request) { r.Mode = priority.Shared })
	reader.Granted()
	holder.Release()
	reader.Release()
	h.drain(behind...)
}

func TestLineGoesOnWhenItsHolderIsEvicted(t *testing.T) {
	h := share(t)
	holder, behind := h.line(h.Client(inLine(8)), 2)
	bob := h.acquire("bob", harness.At(5), harness.Forceful)

	// when somebody takes the lock by force
	loss := holder.Lost().Err
	require.Equal(t, lock.LossTaken, loss.Reason)
	bob.Granted()
	for _, u := range behind {
		u.IsPending()
	}
	bob.Release()
	for _, u := range behind {
		u.Granted()
		require.Greater(t, u.Token(), loss.Token)
		u.Release()
	}
	h.NoEphemerals()
}
