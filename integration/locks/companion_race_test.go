package locks

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Each of the transactions of companions, with what is most in its way committed
// right before it: it was sent by then in the belief that nothing has happened.

// wired returns a client whose next transaction waits until act has returned.
func (h *house) wired() (c *recipes.Client, before func(n int, act func())) {
	h.t.Helper()
	wire := &tripwire{}
	c = h.client(through(wire))
	require.NoError(h.t, h.warm(c))
	return c, func(n int, act func()) {
		wire.set(beforeTransaction, n, act)
		h.t.Cleanup(func() { require.True(h.t, wire.unset(), "the transaction was not sent") })
	}
}

func TestJoinAgainstARequestToGo(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	agent := h.hold(h.lock(h.client()), "agent", ofHold, cleanup(time.Hour))
	c, before := h.wired()
	var boss *user
	before(0, func() { // T14: a boss has asked
		boss = h.ask(h.lock(h.client()), "boss", at(5))
		await[recipes.PreemptAsked](t, agent.told)
	})
	require.ErrorAs(t, h.join(h.lock(c), "late", agent.reference()).refused(), new(*recipes.PreemptPendingError))
	agent.release()
	boss.granted()
}

func TestRequestToGoAgainstAJoin(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	agent := h.hold(h.lock(h.client()), "agent", ofHold, cleanup(time.Hour))
	ref := agent.reference()
	c, before := h.wired()
	var activity *user
	before(0, func() { // T6: one has joined
		activity = h.join(h.lock(h.client()), "activity", ref)
		activity.granted()
	})
	boss := h.ask(h.lock(c), "boss", at(5))
	require.Equal(t, "boss", await[recipes.PreemptAsked](t, agent.told).By.Owner)
	require.Equal(t, "boss", await[recipes.PreemptAsked](t, activity.told).By.Owner)

	// and it watches G as well: more may come
	require.Eventually(t, func() bool { return slices.Contains(h.watches(), h.lockNode(agent.grant.ID())) }, soon, 5*time.Millisecond)
	agent.release()
	activity.release()
	boss.granted()
}

func TestTakeoverAgainstAJoinForCleanup(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	agent := h.hold(h.lock(h.client()), "agent", ofHold)
	ref := agent.reference()
	c, before := h.wired()
	var helper *user
	before(1, func() { // T7, after T6: one has joined
		helper = h.join(h.lock(h.client()), "helper", ref, forCleanup)
		helper.granted()
	})
	boss := h.ask(h.lock(c), "boss", at(5), forceful)
	boss.granted()
	require.Equal(t, []string{"boss"}, h.holders(h.client()))
	for _, u := range []*user{agent, helper} {
		require.Equal(t, recipes.LossTaken, await[recipes.Lost](t, u.told).Err.Reason)
	}
}

func TestReleaseAgainstAJoin(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprintf("somebody waits=%t", waits), func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			c, before := h.wired()
			agent := h.hold(h.lock(c), "agent", ofHold)
			ref := agent.reference()
			var stranger *user
			if waits {
				stranger = h.ask(h.lock(h.client()), "stranger")
				stranger.queued()
			}
			var activity *user
			before(0, func() { // T4 or T5: one has joined
				activity = h.join(h.lock(h.client()), "activity", ref)
				activity.granted()
			})
			agent.release()

			// then that one has the lock, and nobody beside it
			require.Equal(t, []string{"activity"}, h.holders(h.client()))
			require.Equal(t, ref.Token, h.join(h.lock(h.client()), "another", activity.reference()).token())
			if waits {
				stranger.waits()
			}
			require.NoError(t, activity.grant.Check())
			require.Zero(t, count[recipes.Lost](activity.told))
		})
	}
}

func TestJoinAgainstTheReleaseOfTheLastCompanion(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprintf("somebody waits=%t", waits), func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			agent := h.hold(h.lock(h.client()), "agent", ofHold)
			ref := agent.reference()
			var stranger *user
			if waits {
				stranger = h.ask(h.lock(h.client()), "stranger")
				stranger.queued()
			}
			for _, accede := range []string{"join", "adopt"} {
				if agent == nil {
					break
				}
				c, before := h.wired()
				before(0, func() { // T14 or T15: nobody holds any more, or the stranger does
					agent.release()
					if waits {
						stranger.granted()
					}
				})
				if accede == "join" {
					requireNotThere(t, h.join(h.lock(c), "late", ref).refused())
					agent = nil
				}
				requireNotThere(t, h.adopt(h.lock(h.client()), "late", ref).refused())
			}
		})
	}
}

func TestAdoptionAgainstARelease(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"release", "adoption"} {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s first, somebody waits=%t", first, waits), func(t *testing.T) {
				t.Parallel()
				h := shareHouse(t)
				mine, beforeMine := h.wired()
				its, beforeIts := h.wired()
				old := h.hold(h.lock(mine), "old", ofHold)
				ref := old.reference()
				var stranger *user
				if waits {
					stranger = h.ask(h.lock(h.client()), "stranger")
					stranger.queued()
				}
				if first == "release" {
					beforeIts(0, func() { old.release() })
					requireNotThere(t, h.adopt(h.lock(its), "new", ref).refused())
					if waits {
						stranger.granted()
					}
					return
				}
				var adopter *user
				beforeMine(0, func() {
					adopter = h.adopt(h.lock(h.client()), "new", ref)
					adopter.granted()
				})
				var lost *recipes.LostError
				require.ErrorAs(t, old.grant.Release(t.Context()), &lost)
				require.Equal(t, recipes.LossSuperseded, lost.Reason)
				require.Equal(t, []string{"new"}, h.holders(h.client()))
				require.Zero(t, count[recipes.Lost](adopter.told))
				adopter.release()
				if waits {
					stranger.granted()
				}
			})
		}
	}
}

func TestJoinAndAdoptionAgainstAJoin(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"join", "adopt", "take the place of a dead one"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			doomed := h.client()
			agent := h.hold(h.lock(doomed), "agent", ofHold)
			ref := agent.reference()
			one := h.join(h.lock(h.client()), "one", ref)
			one.granted()
			if how == "take the place of a dead one" {
				h.expire(doomed)
				h.holderIs(h.client(), "one")
			}
			c, before := h.wired()
			var faster *user
			before(0, func() {
				faster = h.join(h.lock(h.client()), "faster", one.reference())
				faster.granted()
			})
			accede := h.adopt
			if how == "join" {
				accede = h.join
			}
			slower := accede(h.lock(c), "slower", ref)
			slower.granted()
			all := []string{"faster", "one", "slower"}
			if how == "join" {
				all = append([]string{"agent"}, all...)
			}
			require.Equal(t, all, h.holders(h.client()))
			slower.release()
			require.Equal(t, slices.DeleteFunc(all, func(who string) bool { return who == "slower" }), h.holders(h.client()))
		})
	}
}

func TestOfTwoAdoptersOneIsTooLate(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	old := h.hold(h.lock(h.client()), "old", ofHold)
	ref := old.reference()
	c, before := h.wired()
	var faster *user
	before(0, func() {
		faster = h.adopt(h.lock(h.client()), "faster", ref)
		faster.granted()
	})
	require.True(t, requireNotThere(t, h.adopt(h.lock(c), "slower", ref).refused()).Held)
	require.Equal(t, []string{"faster"}, h.holders(h.client()))
}

func TestResumptionAgainstTheFirstWaiter(t *testing.T) {
	t.Parallel()
	t.Run("the hold is resumed first", func(t *testing.T) {
		t.Parallel()
		h := shareHouse(t)
		doomed := h.client()
		agent := h.hold(h.lock(doomed), "agent", ofHold)
		ref := agent.reference()
		c, before := h.wired()
		var again *user
		before(0, func() { // T3
			again = h.adopt(h.lock(h.client()), "agent again", ref)
			again.granted()
		})
		waiter := h.ask(h.lock(c), "waiter")
		waiter.queued()
		h.expire(doomed)
		require.Eventually(t, func() bool { return len(h.contenders()) == 2 }, soon, time.Millisecond)
		h.holderIs(h.client(), "agent again")
		waiter.waits()
		require.Equal(t, ref.Token, again.token())
		again.release()
		waiter.granted()
	})
	t.Run("the waiter takes the lock first", func(t *testing.T) {
		t.Parallel()
		h := shareHouse(t)
		doomed := h.client()
		agent := h.hold(h.lock(doomed), "agent", ofHold)
		ref := agent.reference()
		h.expire(doomed)
		h.nobodyThere()
		c, before := h.wired()
		var other *user
		before(0, func() { other = h.hold(h.lock(h.client()), "other") }) // T16
		requireNotThere(t, h.adopt(h.lock(c), "agent again", ref).refused())
		require.Equal(t, []string{"other"}, h.holders(h.client()))
		require.Zero(t, count[recipes.Lost](other.told))
	})
}

// A lock node that was removed and made anew counts its versions from the beginning.
func TestResumptionAgainstARemovalOfTheLockNode(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	doomed := h.client()
	agent := h.hold(h.lock(doomed), "agent", ofHold)
	ref := agent.reference()
	node := h.lockNode(agent.grant.ID())
	h.expire(doomed)
	h.nobodyThere()
	shell := h.shell()
	_, seen, err := shell.Get(node)
	require.NoError(t, err)

	c, before := h.wired()
	var bob *user
	before(0, func() { // T16: the node was removed, and another holds at the version that was read
		_, stat, err := shell.Get(h.root)
		require.NoError(t, err)
		_, err = shell.Multi(
			&zk.SetDataRequest{Path: h.root, Version: stat.Version},
			&zk.DeleteRequest{Path: node, Version: -1})
		require.NoError(t, err)
		bob = h.hold(h.lock(h.client()), "bob")
		_, now, err := shell.Get(node)
		require.NoError(t, err)
		require.Equal(t, seen.Version, now.Version)
	})
	requireNotThere(t, h.adopt(h.lock(c), "agent again", ref).refused())
	require.Equal(t, []string{"bob"}, h.holders(h.client()))
	require.Zero(t, count[recipes.Lost](bob.told))
	require.Equal(t, node, path.Dir(h.node(bob.grant.ID())))
}

// One that is granted and dies between two reads would be in neither.
func TestAdopterDoesNotMissOneThatIsGrantedAndDiesWhileItLooks(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	holder := h.hold(h.lock(h.client()), "holder")
	doomed := h.client()
	ticket := h.ask(h.lock(doomed), "ticket", ofHold)
	id := await[recipes.Joined](t, ticket.told).ID
	ticket.queued()

	wire := &tripwire{}
	c := h.client(through(wire))
	require.NoError(t, h.warm(c))
	wire.set(beforeListing, 0, func() { // G was read before
		holder.release()
		ticket.granted()
		h.expire(doomed)
		await[recipes.Lost](t, ticket.told)
		h.nobodyThere()
	})
	again := h.adopt(h.lock(c), "again", recipes.Reference{Scope: "users", Hold: holdID, ID: id})
	require.Greater(t, again.token(), holder.token(), "nobody knew the ticket's: it is a new one")
	require.True(t, wire.unset())
}

// Nor one whose priority changes while it looks: that has another name since.
func TestAdopterDoesNotMissOneThatMovesWhileItLooks(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	holder := h.hold(h.lock(h.client()), "holder", at(9))
	terms, revise := changingTerms(recipes.Terms{LeaseTimeout: time.Hour})
	ticket := h.ask(h.lock(h.client()), "ticket", ofHold, func(r *recipes.Request) { r.Terms = terms })
	id := await[recipes.Joined](t, ticket.told).ID
	ticket.queued()

	wire := &tripwire{}
	c := h.client(through(wire))
	require.NoError(t, h.warm(c))
	wire.set(beforeGet, 1, func() { // of the ticket's node, which the list has shown
		revise(recipes.Terms{Priority: 3, LeaseTimeout: time.Hour})
		require.NotEqual(t, id, await[recipes.Joined](t, ticket.told).ID)
	})
	adopter := h.adopt(h.lock(c), "adopter", recipes.Reference{Scope: "users", Hold: holdID, ID: id})
	adopter.queued()
	require.True(t, wire.unset())
	holder.release()
	adopter.granted()
}

// The connection breaks at each request in turn, right after it was sent; the
// session ends as well, in its turn.
func TestCompanionWhoseAnswerIsLostAtAnyStepGoesOn(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"join", "adopt", "adopt a waiter", "take the place of a dead one", "resume"} {
		for _, trouble := range []string{"its caller waits", "its caller leaves", "its session ends"} {
			t.Run(how+", "+trouble, func(t *testing.T) {
				t.Parallel()
				h := shareHouse(t)
				wire := &tripwire{}
				mine := h.client(through(wire))
				require.NoError(t, h.warm(mine))
				id, _ := mine.Session()
				steps := 0
				for tripped := true; tripped; steps++ {
					scope := fmt.Sprint("scope ", steps)
					l := h.scope(mine, scope)
					ref, token, leave := h.somethingTo(how, scope)
					ctx, cancel := context.WithTimeout(t.Context(), soon)
					wire.set(afterRequest, steps, func() {
						switch trouble {
						case "its caller leaves":
							cancel()
						case "its session ends":
							if _, password := mine.Session(); password != nil {
								session, _ := mine.Session()
								require.NoError(t, h.server.Expire(context.WithoutCancel(t.Context()), session, password))
							}
						}
						wire.cut()
					})
					accede := l.Adopt
					if how == "join" {
						accede = l.Join
					}
					grant, err := accede(ctx, ref, recipes.Request{Owner: "companion"})
					tripped = wire.unset()
					switch {
					case err == nil:
						now, err := grant.Token(context.WithoutCancel(ctx))
						require.NoError(t, err)
						require.Equal(t, token, now, "step %d", steps)
						state, err := h.client().Lock(t.Context(), scope)
						require.NoError(t, err)
						left := grant.Release(context.WithoutCancel(ctx))
						if trouble == "its session ends" && left != nil { // right after the reply
							require.ErrorAs(t, left, new(*recipes.LostError))
							break
						}
						require.NoError(t, left)
						require.Contains(t, owners(state.Holders), "companion")
					case ctx.Err() != nil:
						require.ErrorIs(t, err, context.Canceled, "step %d", steps)
					default:
						require.NoError(t, err, "step %d", steps)
					}
					cancel()
					leave()
					require.Eventually(t, func() bool { return len(h.contenders()) == 0 }, soon, time.Millisecond, "nodes are left: step %d", steps)
					require.NoError(t, mine.Ready(t.Context()))
				}
				t.Logf("lost each of %d answers", steps-1)
				if again, _ := mine.Session(); trouble != "its session ends" {
					require.Equal(t, id, again)
				}
			})
		}
	}
}

// What was adopted in a session that ended right after it is the adopter's yet.
func TestAdopterWhoseSessionEndsWithTheAnswerResumes(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"adopt", "adopt a waiter", "resume"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			wire := &tripwire{}
			c := h.client(through(wire))
			require.NoError(t, h.warm(c))
			ref, token, leave := h.somethingTo(how, "users")
			defer leave()
			executed := func() bool {
				state, err := h.client().Lock(context.WithoutCancel(t.Context()), "users")
				return err == nil && len(state.Holders) == 1 && state.Holders[0].Owner == "new"
			}
			wire.set(beforeTransaction, 0, func() {
				wire.swallow()
				wire.set(afterRequest, 0, func() {
					for deadline := time.Now().Add(soon); !executed() && time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
					}
					h.expire(c)
					wire.cut()
				})
			})
			again := h.adopt(h.lock(c), "new", ref)
			require.Equal(t, token, again.token())
			require.True(t, wire.unset())
			require.Equal(t, []string{"new"}, h.holders(h.client()))
			again.release()
		})
	}
}

// somethingTo prepares a hold to join, or to adopt, with the token that it has, or
// will have. leave ends what of it is left.
func (h *house) somethingTo(how, scope string) (ref recipes.Reference, token recipes.Token, leave func()) {
	h.t.Helper()
	doomed := h.client()
	if how == "adopt a waiter" {
		holder := h.hold(h.scope(h.client(), scope), "holder")
		ticket := h.ask(h.scope(doomed, scope), "ticket", ofHold)
		ref = recipes.Reference{Scope: scope, Hold: holdID, ID: await[recipes.Joined](h.t, ticket.told).ID}
		holder.release()
		return ref, ticket.token(), func() { ticket.cancel(); _ = ticket.grant.Release(context.Background()) }
	}
	agent := h.hold(h.scope(doomed, scope), "agent", ofHold)
	ref = agent.reference()
	leave = func() { _ = agent.grant.Release(context.Background()) }
	if how == "take the place of a dead one" {
		activity := h.join(h.scope(h.client(), scope), "activity", ref)
		activity.granted()
		leave = func() { _ = activity.grant.Release(context.Background()) }
	}
	if how == "resume" || how == "take the place of a dead one" {
		h.expire(doomed)
		await[recipes.Lost](h.t, agent.told)
		left := 0
		if how != "resume" {
			left = 1
		}
		require.Eventually(h.t, func() bool { return len(h.contenders()) == left }, soon, time.Millisecond)
	}
	return ref, ref.Token, leave
}

// A crowd of companions that come and go, and strangers: never both inside.
func TestCompanionsAndStrangersAreNeverInsideTogether(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	var hall room
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	done := make(chan error, 8)
	const turns = 8
	for n := range 3 {
		l := h.lock(h.client())
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
				hall.enter(who, token)
				hall.leave(who)
				if err := g.Release(ctx); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for n := range 2 {
		mine, others := h.lock(h.client()), []*recipes.PriorityLock{h.lock(h.client()), h.lock(h.client())}
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
				hall.enter(id, token) // all of them as one
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
						hall.leave(id)
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
	hall.wasOrderly(t, 5*turns)
	h.nobodyThere()
}
