package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Each of the transactions of companions, with what is most in its way committed
// right before it: it was sent by then in the belief that nothing has happened.

// wiredBefore returns a client. Its n-th transaction after the call of before waits until act has returned.
func (f *fixture) wiredBefore() (c *lock.Client, before func(n int, act func())) {
	f.Helper()
	c, wire := f.wired()
	return c, func(n int, act func()) { f.meanwhile(wire.On(zktest.Op(zktest.Multi).Nth(n)).Hold(), act) }
}

// queues plays a test without a waiter behind a hold, and with one: queue has that one wait; it returns nil if there
// is none.
func queues(t *testing.T, body func(h *fixture, queue func() (stranger *harness.Request))) {
	t.Helper()
	t.Run("no waiter", func(t *testing.T) { body(share(t), func() *harness.Request { return nil }) })
	t.Run("somebody waits", func(t *testing.T) {
		h := share(t)
		body(h, func() *harness.Request { return h.queued("stranger") })
	})
}

func TestJoinAgainstARequestToGo(t *testing.T) {
	h := share(t)
	agent := h.hold("agent", ofHold, harness.Cleanup(time.Hour))
	c, before := h.wiredBefore()
	var boss *harness.Request
	before(1, func() { // T14: a boss has asked
		boss = h.acquire("boss", harness.At(5))
		harness.Await[lock.PreemptRequested](h, agent.Notices)
	})
	require.ErrorAs(t, h.joinBy(h.lock(c), "late", h.reference(agent)).Refused(), new(*lock.PreemptPendingError))
	agent.Release()
	boss.Granted()
}

// T15 contains the version of the node that it replaces: what was asked of that holder meanwhile is asked of the adopter,
// since then.
func TestAdoptionAgainstARequestToGo(t *testing.T) {
	h := share(t)
	agent := h.hold("agent", ofHold, harness.Cleanup(time.Hour))
	ref := h.reference(agent)
	onlooker := h.Client()
	asked := func() time.Time {
		holders := h.state(onlooker).Holders
		require.Len(h, holders, 1)
		require.Len(h, holders[0].PreemptedBy, 1)
		return holders[0].PreemptedBy[0].At
	}
	c, before := h.wiredBefore()
	var boss *harness.Request
	var since time.Time
	before(1, func() { // T15: a boss has asked
		boss = h.acquire("boss", harness.At(5))
		harness.Await[lock.PreemptRequested](h, agent.Notices)
		since = asked()
		harness.Eventually(h, func() bool { // another note would be of another time
			_, stat := h.Get(h.Create(h.Root+"/time-", nil, zk.FlagSequence))
			return stat.Ctime > since.UnixMilli()
		}, "the server's clock goes on")
	})
	adopter := h.adoptBy(h.lock(c), "adopter", ref)
	adopter.Granted()
	require.Equal(t, since, asked())
	adopter.Release()
	boss.Granted()
}

func TestRequestToGoAgainstAJoin(t *testing.T) {
	h := share(t)
	agent := h.hold("agent", ofHold, harness.Cleanup(time.Hour))
	ref := h.reference(agent)
	c, before := h.wiredBefore()
	var activity *harness.Request
	before(1, func() { // T6: one has joined
		activity = h.join("activity", ref)
		activity.Granted()
	})
	boss := h.Acquire(h.lock(c), "boss", harness.At(5))
	require.Equal(t, "boss", harness.Await[lock.PreemptRequested](h, agent.Notices).By.Owner)
	require.Equal(t, "boss", harness.Await[lock.PreemptRequested](h, activity.Notices).By.Owner)

	// and it watches G as well: more may come
	harness.Eventually(t, func() bool { return slices.Contains(h.Watches(), lockNode(agent)) }, "G is watched")
	agent.Release()
	activity.Release()
	boss.Granted()
}

func TestTakeoverAgainstAJoinForCleanup(t *testing.T) {
	h := share(t)
	agent := h.hold("agent", ofHold)
	ref := h.reference(agent)
	c, before := h.wiredBefore()
	var helper *harness.Request
	before(2, func() { // T7, after T6: one has joined
		helper = h.join("helper", ref, forCleanup)
		helper.Granted()
	})
	boss := h.Acquire(h.lock(c), "boss", harness.At(5), harness.Forceful)
	boss.Granted()
	require.Equal(t, []string{"boss"}, h.holders(h.Client()))
	for _, u := range []*harness.Request{agent, helper} {
		require.Equal(t, lock.LossTaken, u.Lost().Err.Reason)
	}
}

func TestReleaseAgainstAJoin(t *testing.T) {
	t.Parallel()
	queues(t, func(h *fixture, queue func() *harness.Request) {
		c, before := h.wiredBefore()
		agent := h.Hold(h.lock(c), "agent", ofHold)
		ref := h.reference(agent)
		stranger := queue()
		var activity *harness.Request
		before(1, func() { // T4 or T5: one has joined
			activity = h.join("activity", ref)
			activity.Granted()
		})
		agent.Release()

		// then that one has the lock, and no other holder
		require.Equal(h, []string{"activity"}, h.holders(h.Client()))
		require.Equal(h, ref.Token, h.join("another", h.reference(activity)).Token())
		if stranger != nil {
			stranger.IsPending()
		}
		require.NoError(h, activity.Granted().Check())
		require.Empty(h, harness.All[lock.Lost](activity.Notices))
	})
}

func TestJoinAgainstTheReleaseOfTheLastCompanion(t *testing.T) {
	t.Parallel()
	queues(t, func(h *fixture, queue func() *harness.Request) {
		agent := h.hold("agent", ofHold)
		ref := h.reference(agent)
		stranger := queue()
		c, before := h.wiredBefore()
		before(1, func() { // T14: the lock is free, or the stranger holds it
			agent.Release()
			if stranger != nil {
				stranger.Granted()
			}
		})
		requireNotThere(h, h.joinBy(h.lock(c), "late", ref).Refused())
		requireNotThere(h, h.adopt("late", ref).Refused())
	})
}

func TestAdoptionAgainstARelease(t *testing.T) {
	t.Parallel()
	queues(t, func(h *fixture, queue func() *harness.Request) {
		old := h.hold("old", ofHold)
		ref := h.reference(old)
		stranger := queue()
		c, before := h.wiredBefore()
		before(1, old.Release) // T15
		requireNotThere(h, h.adoptBy(h.lock(c), "new", ref).Refused())
		if stranger != nil {
			stranger.Granted()
		}
	})
}

func TestReleaseAgainstAnAdoption(t *testing.T) {
	t.Parallel()
	queues(t, func(h *fixture, queue func() *harness.Request) {
		c, before := h.wiredBefore()
		old := h.Hold(h.lock(c), "old", ofHold)
		ref := h.reference(old)
		stranger := queue()
		var adopter *harness.Request
		before(1, func() { // T4 or T5: the hold is another's
			adopter = h.adopt("new", ref)
			adopter.Granted()
		})
		var lost *lock.LostError
		require.ErrorAs(h, old.Granted().Release(h.Context()), &lost)
		require.Equal(h, lock.LossSuperseded, lost.Reason)
		require.Equal(h, []string{"new"}, h.holders(h.Client()))
		require.Empty(h, harness.All[lock.Lost](adopter.Notices))
		adopter.Release()
		if stranger != nil {
			stranger.Granted()
		}
	})
}

func TestJoinAndAdoptionAgainstAJoin(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"join", "adopt", "take the place of a dead one"} {
		t.Run(how, func(t *testing.T) {
			h := share(t)
			doomed := h.Client()
			agent := h.Hold(h.lock(doomed), "agent", ofHold)
			ref := h.reference(agent)
			one := h.join("one", ref)
			one.Granted()
			if how == "take the place of a dead one" {
				h.Expire(doomed)
				h.holderIs(h.Client(), "one")
			}
			c, before := h.wiredBefore()
			var faster *harness.Request
			before(1, func() {
				faster = h.join("faster", h.reference(one))
				faster.Granted()
			})
			accede := h.adoptBy
			if how == "join" {
				accede = h.joinBy
			}
			slower := accede(h.lock(c), "slower", ref)
			slower.Granted()
			all := []string{"faster", "one", "slower"}
			if how == "join" {
				all = append([]string{"agent"}, all...)
			}
			require.Equal(t, all, h.holders(h.Client()))
			slower.Release()
			require.Equal(t, slices.DeleteFunc(all, func(who string) bool { return who == "slower" }), h.holders(h.Client()))
		})
	}
}

func TestOfTwoAdoptersOneIsTooLate(t *testing.T) {
	h := share(t)
	old := h.hold("old", ofHold)
	ref := h.reference(old)
	c, before := h.wiredBefore()
	var faster *harness.Request
	before(1, func() {
		faster = h.adopt("faster", ref)
		faster.Granted()
	})
	require.True(t, requireNotThere(t, h.adoptBy(h.lock(c), "slower", ref).Refused()).Held)
	require.Equal(t, []string{"faster"}, h.holders(h.Client()))
}

func TestResumptionAgainstTheFirstWaiter(t *testing.T) {
	t.Parallel()
	t.Run("the hold is resumed first", func(t *testing.T) {
		h := share(t)
		doomed := h.Client()
		agent := h.Hold(h.lock(doomed), "agent", ofHold)
		ref := h.reference(agent)
		c, before := h.wiredBefore()
		var again *harness.Request
		before(1, func() { // T3
			again = h.adopt("agent again", ref)
			again.Granted()
		})
		waiter := h.Acquire(h.lock(c), "waiter")
		waiter.Queued()
		h.Expire(doomed)
		harness.Eventually(t, func() bool { return len(h.Ephemerals()) == 2 }, "the dead one has gone")
		h.holderIs(h.Client(), "agent again")
		waiter.IsPending()
		require.Equal(t, ref.Token, again.Token())
		again.Release()
		waiter.Granted()
	})
	t.Run("the waiter takes the lock first", func(t *testing.T) {
		h := share(t)
		doomed := h.Client()
		agent := h.Hold(h.lock(doomed), "agent", ofHold)
		ref := h.reference(agent)
		h.Expire(doomed)
		h.NoEphemerals()
		c, before := h.wiredBefore()
		var other *harness.Request
		before(1, func() { other = h.hold("other") }) // T16
		requireNotThere(t, h.adoptBy(h.lock(c), "agent again", ref).Refused())
		require.Equal(t, []string{"other"}, h.holders(h.Client()))
		require.Empty(t, harness.All[lock.Lost](other.Notices))
	})
}

// A lock node that was removed and made anew counts its versions from the beginning.
func TestResumptionAgainstARemovalOfTheLockNode(t *testing.T) {
	h := share(t)
	doomed := h.Client()
	agent := h.Hold(h.lock(doomed), "agent", ofHold)
	ref := h.reference(agent)
	node := lockNode(agent)
	h.Expire(doomed)
	h.NoEphemerals()
	_, seen := h.Get(node)

	c, before := h.wiredBefore()
	var bob *harness.Request
	before(1, func() { // T16: the node was removed, and another holds at the version that was read
		h.collect(node)
		bob = h.hold("bob")
		_, now := h.Get(node)
		require.Equal(t, seen.Version, now.Version)
	})
	requireNotThere(t, h.adoptBy(h.lock(c), "agent again", ref).Refused())
	require.Equal(t, []string{"bob"}, h.holders(h.Client()))
	require.Empty(t, harness.All[lock.Lost](bob.Notices))
	require.Equal(t, node, lockNode(bob))
}

// One that is granted and dies between two reads would be in neither.
func TestAdopterDoesNotMissOneThatIsGrantedAndDiesWhileItLooks(t *testing.T) {
	h := share(t)
	holder := h.hold("holder")
	doomed := h.Client()
	ticket := h.Acquire(h.lock(doomed), "ticket", ofHold)
	id := harness.Await[lock.Joined](h, ticket.Notices).ID
	ticket.Queued()

	c, wire := h.wired()
	h.meanwhile(wire.On(zktest.Op(zktest.GetChildren).Nth(1)).Hold(), func() { // G was read before
		holder.Release()
		ticket.Granted()
		h.Expire(doomed)
		ticket.Lost()
		h.NoEphemerals()
	})
	again := h.adoptBy(h.lock(c), "again", lock.Reference{Scope: "users", Hold: holdID, ID: id})
	require.Greater(t, again.Token(), holder.Token(), "the ticket's was unknown: it is a new one")
}

// Nor one whose priority changes while it looks: that has another name since.
func TestAdopterDoesNotMissOneThatMovesWhileItLooks(t *testing.T) {
	h := share(t)
	holder := h.hold("holder", harness.At(9))
	terms, revise := changingTerms(lock.Revision{Terms: priority.Terms{LeaseTimeout: time.Hour}})
	ticket := h.acquire("ticket", ofHold, func(r *lock.Request) { r.Revise = terms })
	id := harness.Await[lock.Joined](h, ticket.Notices).ID
	ticket.Queued()

	c, wire := h.wired()
	h.meanwhile(wire.On(zktest.Op(zktest.GetData).Nth(2)).Hold(), func() { // of the ticket's node, which the list has shown
		revise(lock.Revision{Terms: priority.Terms{Priority: 3, LeaseTimeout: time.Hour}})
		require.NotEqual(t, id, harness.Await[lock.Joined](h, ticket.Notices).ID)
	})
	adopter := h.adoptBy(h.lock(c), "adopter", lock.Reference{Scope: "users", Hold: holdID, ID: id})
	adopter.Queued()
	holder.Release()
	adopter.Granted()
}

// A crowd of companions that come and go, and strangers: never both inside.
func TestCompanionsAndStrangersAreNeverInsideTogether(t *testing.T) {
	h := share(t)
	var hall harness.Occupancy
	var crowd sync.WaitGroup
	const turns = 8
	for n := range 3 {
		l := h.lock(h.Client())
		crowd.Go(func() {
			for turn := range turns {
				r := lock.Request{Identity: priority.Identity{Owner: fmt.Sprintf("stranger %d turn %d", n, turn)}, Terms: priority.Terms{Priority: priority.Level(turn % 3), CleanupTimeout: time.Minute}}
				if err := visit(t.Context(), l, r, &hall); err != nil {
					t.Errorf("%s: %v", r.Owner, err)
				}
			}
		})
	}
	for n := range 2 {
		mine, others := h.lock(h.Client()), []*lock.PriorityLock{h.lock(h.Client()), h.lock(h.Client())}
		crowd.Go(func() {
			for turn := range turns {
				id := fmt.Sprintf("hold %d turn %d", n, turn)
				if err := together(t.Context(), mine, others, id, turn, &hall); err != nil {
					t.Errorf("%s: %v", id, err)
				}
			}
		})
	}
	crowd.Wait()
	hall.WasExclusive(t, 5*turns)
	h.NoEphemerals()
}

// together goes inside with a hold that others join, or adopt, and comes out when the last of its members has left.
func together(ctx context.Context, mine *lock.PriorityLock, others []*lock.PriorityLock, id string, turn int, hall *harness.Occupancy) error {
	agent, err := mine.Acquire(ctx, lock.Request{Identity: priority.Identity{Owner: id, Hold: id}, Terms: priority.Terms{CleanupTimeout: time.Minute}})
	if err != nil {
		return err
	}
	token, err := agent.Token(ctx)
	if err != nil {
		return err
	}
	hall.Enter(id, token) // all of them as one
	grants := []*lock.Grant{agent}
	for i, l := range others {
		how, adopts := l.Join, (turn+i)%3 == 0
		if adopts {
			how = l.Adopt
		}
		last := grants[len(grants)-1]
		g, err := how(ctx, last.Reference(), lock.Request{Identity: priority.Identity{Owner: id}, ForCleanup: true})
		if err != nil {
			return err
		}
		if adopts {
			var lost *lock.LostError
			if err := last.Release(ctx); !errors.As(err, &lost) || lost.Reason != lock.LossSuperseded {
				return fmt.Errorf("the release of one that was adopted: %w", err)
			}
			grants = grants[:len(grants)-1]
		}
		grants = append(grants, g)
	}
	for i, g := range grants {
		if i == len(grants)-1 {
			hall.Leave(id)
		}
		if err := g.Release(ctx); err != nil {
			return fmt.Errorf("release: %w", err)
		}
	}
	return nil
}
