package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Each of the transactions of companions, with what is most in its way committed
// right before it: it was sent by then in the belief that nothing has happened.

// wired returns a client whose next transaction waits until act has returned.
func (f *fixture) wired() (c *recipes.Client, before func(n int, act func())) {
	f.Helper()
	wire := &tripwire{}
	c = f.Client(through(wire))
	require.NoError(f, f.warm(c))
	return c, func(n int, act func()) {
		wire.set(beforeTransaction, n, act)
		f.Cleanup(func() { require.True(f, wire.unset(), "the transaction was not sent") })
	}
}

func TestJoinAgainstARequestToGo(t *testing.T) {
	h := share(t)
	agent := h.hold("agent", ofHold, harness.Cleanup(time.Hour))
	c, before := h.wired()
	var boss *harness.Request
	before(0, func() { // T14: a boss has asked
		boss = h.acquire("boss", harness.At(5))
		harness.Await[recipes.PreemptAsked](h, agent.Notices)
	})
	require.ErrorAs(t, h.joinBy(h.lock(c), "late", h.reference(agent)).Refused(), new(*recipes.PreemptPendingError))
	agent.Release()
	boss.Granted()
}

func TestRequestToGoAgainstAJoin(t *testing.T) {
	h := share(t)
	agent := h.hold("agent", ofHold, harness.Cleanup(time.Hour))
	ref := h.reference(agent)
	c, before := h.wired()
	var activity *harness.Request
	before(0, func() { // T6: one has joined
		activity = h.join("activity", ref)
		activity.Granted()
	})
	boss := h.Acquire(h.lock(c), "boss", harness.At(5))
	require.Equal(t, "boss", harness.Await[recipes.PreemptAsked](h, agent.Notices).By.Owner)
	require.Equal(t, "boss", harness.Await[recipes.PreemptAsked](h, activity.Notices).By.Owner)

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
	c, before := h.wired()
	var helper *harness.Request
	before(1, func() { // T7, after T6: one has joined
		helper = h.join("helper", ref, forCleanup)
		helper.Granted()
	})
	boss := h.Acquire(h.lock(c), "boss", harness.At(5), harness.Forceful)
	boss.Granted()
	require.Equal(t, []string{"boss"}, h.holders(h.Client()))
	for _, u := range []*harness.Request{agent, helper} {
		require.Equal(t, recipes.LossTaken, u.Lost().Err.Reason)
	}
}

func TestReleaseAgainstAJoin(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprintf("somebody waits=%t", waits), func(t *testing.T) {
			h := share(t)
			c, before := h.wired()
			agent := h.Hold(h.lock(c), "agent", ofHold)
			ref := h.reference(agent)
			var stranger *harness.Request
			if waits {
				stranger = h.queued("stranger")
			}
			var activity *harness.Request
			before(0, func() { // T4 or T5: one has joined
				activity = h.join("activity", ref)
				activity.Granted()
			})
			agent.Release()

			// then that one has the lock, and nobody beside it
			require.Equal(t, []string{"activity"}, h.holders(h.Client()))
			require.Equal(t, ref.Token, h.join("another", h.reference(activity)).Token())
			if waits {
				stranger.IsPending()
			}
			require.NoError(t, activity.Granted().Check())
			require.Empty(t, harness.All[recipes.Lost](activity.Notices))
		})
	}
}

func TestJoinAgainstTheReleaseOfTheLastCompanion(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprintf("somebody waits=%t", waits), func(t *testing.T) {
			h := share(t)
			agent := h.hold("agent", ofHold)
			ref := h.reference(agent)
			var stranger *harness.Request
			if waits {
				stranger = h.queued("stranger")
			}
			for _, accede := range []string{"join", "adopt"} {
				if agent == nil {
					break
				}
				c, before := h.wired()
				before(0, func() { // T14 or T15: nobody holds any more, or the stranger does
					agent.Release()
					if waits {
						stranger.Granted()
					}
				})
				if accede == "join" {
					requireNotThere(t, h.joinBy(h.lock(c), "late", ref).Refused())
					agent = nil
				}
				requireNotThere(t, h.adopt("late", ref).Refused())
			}
		})
	}
}

func TestAdoptionAgainstARelease(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"release", "adoption"} {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s first, somebody waits=%t", first, waits), func(t *testing.T) {
				h := share(t)
				mine, beforeMine := h.wired()
				its, beforeIts := h.wired()
				old := h.Hold(h.lock(mine), "old", ofHold)
				ref := h.reference(old)
				var stranger *harness.Request
				if waits {
					stranger = h.queued("stranger")
				}
				if first == "release" {
					beforeIts(0, func() { old.Release() })
					requireNotThere(t, h.adoptBy(h.lock(its), "new", ref).Refused())
					if waits {
						stranger.Granted()
					}
					return
				}
				var adopter *harness.Request
				beforeMine(0, func() {
					adopter = h.adopt("new", ref)
					adopter.Granted()
				})
				var lost *recipes.LostError
				require.ErrorAs(t, old.Granted().Release(t.Context()), &lost)
				require.Equal(t, recipes.LossSuperseded, lost.Reason)
				require.Equal(t, []string{"new"}, h.holders(h.Client()))
				require.Empty(t, harness.All[recipes.Lost](adopter.Notices))
				adopter.Release()
				if waits {
					stranger.Granted()
				}
			})
		}
	}
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
			c, before := h.wired()
			var faster *harness.Request
			before(0, func() {
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
	c, before := h.wired()
	var faster *harness.Request
	before(0, func() {
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
		c, before := h.wired()
		var again *harness.Request
		before(0, func() { // T3
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
		c, before := h.wired()
		var other *harness.Request
		before(0, func() { other = h.hold("other") }) // T16
		requireNotThere(t, h.adoptBy(h.lock(c), "agent again", ref).Refused())
		require.Equal(t, []string{"other"}, h.holders(h.Client()))
		require.Empty(t, harness.All[recipes.Lost](other.Notices))
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
	shell := h.Shell()
	_, seen, err := shell.Get(node)
	require.NoError(t, err)

	c, before := h.wired()
	var bob *harness.Request
	before(0, func() { // T16: the node was removed, and another holds at the version that was read
		_, stat, err := shell.Get(h.Root)
		require.NoError(t, err)
		_, err = shell.Multi(
			&zk.SetDataRequest{Path: h.Root, Version: stat.Version},
			&zk.DeleteRequest{Path: node, Version: -1})
		require.NoError(t, err)
		bob = h.hold("bob")
		_, now, err := shell.Get(node)
		require.NoError(t, err)
		require.Equal(t, seen.Version, now.Version)
	})
	requireNotThere(t, h.adoptBy(h.lock(c), "agent again", ref).Refused())
	require.Equal(t, []string{"bob"}, h.holders(h.Client()))
	require.Empty(t, harness.All[recipes.Lost](bob.Notices))
	require.Equal(t, node, lockNode(bob))
}

// One that is granted and dies between two reads would be in neither.
func TestAdopterDoesNotMissOneThatIsGrantedAndDiesWhileItLooks(t *testing.T) {
	h := share(t)
	holder := h.hold("holder")
	doomed := h.Client()
	ticket := h.Acquire(h.lock(doomed), "ticket", ofHold)
	id := harness.Await[recipes.Joined](h, ticket.Notices).ID
	ticket.Queued()

	wire := &tripwire{}
	c := h.Client(through(wire))
	require.NoError(t, h.warm(c))
	wire.set(beforeListing, 0, func() { // G was read before
		holder.Release()
		ticket.Granted()
		h.Expire(doomed)
		ticket.Lost()
		h.NoEphemerals()
	})
	again := h.adoptBy(h.lock(c), "again", recipes.Reference{Scope: "users", Hold: holdID, ID: id})
	require.Greater(t, again.Token(), holder.Token(), "nobody knew the ticket's: it is a new one")
	require.True(t, wire.unset())
}

// Nor one whose priority changes while it looks: that has another name since.
func TestAdopterDoesNotMissOneThatMovesWhileItLooks(t *testing.T) {
	h := share(t)
	holder := h.hold("holder", harness.At(9))
	terms, revise := changingTerms(recipes.Terms{LeaseTimeout: time.Hour})
	ticket := h.acquire("ticket", ofHold, func(r *recipes.Request) { r.Terms = terms })
	id := harness.Await[recipes.Joined](h, ticket.Notices).ID
	ticket.Queued()

	wire := &tripwire{}
	c := h.Client(through(wire))
	require.NoError(t, h.warm(c))
	wire.set(beforeGet, 1, func() { // of the ticket's node, which the list has shown
		revise(recipes.Terms{Priority: 3, LeaseTimeout: time.Hour})
		require.NotEqual(t, id, harness.Await[recipes.Joined](h, ticket.Notices).ID)
	})
	adopter := h.adoptBy(h.lock(c), "adopter", recipes.Reference{Scope: "users", Hold: holdID, ID: id})
	adopter.Queued()
	require.True(t, wire.unset())
	holder.Release()
	adopter.Granted()
}

// A crowd of companions that come and go, and strangers: never both inside.
func TestCompanionsAndStrangersAreNeverInsideTogether(t *testing.T) {
	h := share(t)
	var hall harness.Occupancy
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	done := make(chan error, 8)
	const turns = 8
	for n := range 3 {
		l := h.lock(h.Client())
		go func() {
			for turn := range turns {
				g, err := l.Acquire(ctx, recipes.Request{Owner: fmt.Sprint("stranger ", n), Priority: priority.Level(turn % 3), CleanupTimeout: time.Minute})
				if err != nil {
					done <- err
					return
				}
				who := fmt.Sprintf("stranger %d turn %d", n, turn)
				token, err := g.Token(ctx)
				if err != nil {
					done <- err
					return
				}
				hall.Enter(who, token)
				hall.Leave(who)
				if err := g.Release(ctx); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for n := range 2 {
		mine, others := h.lock(h.Client()), []*recipes.PriorityLock{h.lock(h.Client()), h.lock(h.Client())}
		go func() {
			for turn := range turns {
				id := fmt.Sprintf("hold %d turn %d", n, turn)
				agent, err := mine.Acquire(ctx, recipes.Request{Owner: id, Hold: id, CleanupTimeout: time.Minute})
				if err != nil {
					done <- err
					return
				}
				token, err := agent.Token(ctx)
				if err != nil {
					done <- err
					return
				}
				hall.Enter(id, token) // all of them as one
				ref := agent.Reference()
				grants := []*recipes.Grant{agent}
				for i, l := range others {
					how := l.Join
					if (turn+i)%3 == 0 {
						how = l.Adopt
					}
					g, err := how(ctx, ref, recipes.Request{Owner: id, ForCleanup: true})
					if err != nil {
						done <- fmt.Errorf("%s: %w", id, err)
						return
					}
					if (turn+i)%3 == 0 {
						old := slices.IndexFunc(grants, func(g *recipes.Grant) bool { return g.ID() == ref.ID })
						var lost *recipes.LostError
						if err := grants[old].Release(ctx); !errors.As(err, &lost) || lost.Reason != recipes.LossSuperseded {
							done <- fmt.Errorf("%s: the release of one that was adopted: %w", id, err)
							return
						}
						grants = slices.Delete(grants, old, old+1)
						ref = g.Reference()
					}
					grants = append(grants, g)
				}
				for i, g := range grants {
					if i == len(grants)-1 {
						hall.Leave(id)
					}
					if err := g.Release(ctx); err != nil {
						done <- fmt.Errorf("%s: release: %w", id, err)
						return
					}
				}
			}
			done <- nil
		}()
	}
	for range 5 {
		require.NoError(t, <-done)
	}
	hall.WasExclusive(t, 5*turns)
	h.NoEphemerals()
}
