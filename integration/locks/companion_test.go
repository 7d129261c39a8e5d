package locks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Holds that outlive a process: others join them (T14), or take the place of a
// member (T15, T16).

const holdID = "shop/order-17/run-1"

func ofHold(r *recipes.Request) { r.Hold = holdID }

func forCleanup(r *recipes.Request) { r.ForCleanup = true }

func delayed(d time.Duration) func(*recipes.Request) {
	return func(r *recipes.Request) { r.LockDelay = d }
}

func inMode(m priority.Mode) func(*recipes.Request) {
	return func(r *recipes.Request) { r.Mode = m }
}

// join joins a hold in the background.
func (h *house) join(l *recipes.PriorityLock, owner string, ref recipes.Reference, change ...func(*recipes.Request)) *user {
	h.t.Helper()
	return h.start(owner, func(ctx context.Context, r recipes.Request) (*recipes.Grant, error) { return l.Join(ctx, ref, r) }, change...)
}

// adopt adopts a hold in the background.
func (h *house) adopt(l *recipes.PriorityLock, owner string, ref recipes.Reference, change ...func(*recipes.Request)) *user {
	h.t.Helper()
	return h.start(owner, func(ctx context.Context, r recipes.Request) (*recipes.Grant, error) { return l.Adopt(ctx, ref, r) }, change...)
}

// reference is what others know of a grant, as it has come to them.
func (u *user) reference() recipes.Reference {
	u.h.t.Helper()
	u.token()
	data, err := json.Marshal(u.granted().Reference())
	require.NoError(u.h.t, err)
	var ref recipes.Reference
	require.NoError(u.h.t, json.Unmarshal(data, &ref))
	require.Equal(u.h.t, u.grant.Reference(), ref)
	return ref
}

// holders are the owners of those who hold the lock, sorted.
func (h *house) holders(c *recipes.Client) []string {
	h.t.Helper()
	all := owners(h.state(c).Holders)
	slices.Sort(all)
	return all
}

// holderIs waits until these hold the lock.
func (h *house) holderIs(c *recipes.Client, who ...string) {
	h.t.Helper()
	require.Eventually(h.t, func() bool { return slices.Equal(h.holders(c), who) }, soon, 5*time.Millisecond, "holders: want %v", who)
}

func requireNotThere(t testing.TB, err error) *recipes.NotThereError {
	t.Helper()
	var gone *recipes.NotThereError
	require.ErrorAs(t, err, &gone)
	return gone
}

func TestCompanionHoldsBesideTheHolderWithItsToken(t *testing.T) {
	t.Parallel()
	for _, mode := range []priority.Mode{priority.Exclusive, priority.Shared} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			onlooker := h.client()

			// given a holder with a hold id, and a stranger that waits
			agent := h.hold(h.lock(h.client()), "agent", ofHold, inMode(mode), at(2), cleanup(time.Minute), lease(time.Hour))
			stranger := h.ask(h.lock(h.client()), "stranger", at(2))
			stranger.queued()

			// when another process joins
			activity := h.join(h.lock(h.client()), "activity", agent.reference())

			// then both hold by one token, one lease, one priority
			require.Equal(t, agent.token(), activity.token())
			require.Equal(t, []string{"activity", "agent"}, h.holders(onlooker))
			holders := h.state(onlooker).Holders
			for _, c := range holders {
				require.Equal(t, holdID, c.Hold)
				require.Equal(t, agent.token(), c.Token)
				require.Equal(t, priority.Level(2), c.Priority)
				require.Equal(t, mode, c.Mode)
				require.Equal(t, time.Minute, c.CleanupTimeout)
				require.Equal(t, holders[0].Since, c.Since)
				require.Equal(t, holders[0].LeaseLeft, c.LeaseLeft)
			}
			require.NotEqual(t, holders[0].Session, holders[1].Session)
			require.Equal(t, time.Hour, activity.grant.Terms().LeaseTimeout)

			// and the lock is held until the last of them has gone, in whatever order
			agent.release()
			require.Equal(t, []string{"activity"}, h.holders(onlooker))
			stranger.waits()
			activity.release()
			stranger.granted()
			require.Greater(t, stranger.token(), activity.token())
		})
	}
}

func TestLastCompanionOfSeveralThatLeaveAtOnceHandsOver(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given ten companions, and a stranger behind them
	agent := h.hold(h.lock(h.client()), "agent", ofHold)
	all := []*user{agent}
	for i := range 9 {
		all = append(all, h.join(h.lock(h.client()), fmt.Sprint("activity ", i), agent.reference()))
	}
	for _, u := range all {
		u.granted()
	}
	stranger := h.ask(h.lock(h.client()), "stranger")
	stranger.queued()

	// when all leave at the same moment
	left := make(chan error, len(all))
	for _, u := range all {
		go func() { left <- u.grant.Release(context.WithoutCancel(t.Context())) }()
	}
	for range all {
		require.NoError(t, <-left)
	}

	// then the lock is the stranger's, and nobody is named any more
	stranger.granted()
	data, _, err := h.shell().Get(h.lockNode(stranger.grant.ID()))
	require.NoError(t, err)
	require.JSONEq(t, fmt.Sprintf(`{"format":1,"holders":[%q]}`, stranger.grant.ID()), string(data))
}

func TestStrangerNeitherPassesNorForgetsCompanions(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	onlooker := h.client()
	agent := h.hold(h.lock(h.client()), "agent", ofHold)
	activity := h.join(h.lock(h.client()), "activity", agent.reference())
	activity.granted()

	// A request with the same hold id is a stranger, too.
	for _, change := range []func(*recipes.Request){func(*recipes.Request) {}, ofHold, inMode(priority.Shared)} {
		other := h.ask(h.lock(h.client()), "other", change, try)
		var busy *recipes.NotAcquiredError
		require.ErrorAs(t, other.refused(), &busy)
		require.Len(t, busy.Holders, 2)
	}
	require.Equal(t, []string{"activity", "agent"}, h.holders(onlooker))
	agent.release()
	require.Equal(t, []string{"activity"}, h.holders(onlooker))
}

func TestEachCompanionIsAskedAndATakeoverEvictsAll(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	onlooker := h.client()

	// given a hold of two, and one that comes in while a boss is about to ask
	agent := h.hold(h.lock(h.client()), "agent", ofHold)
	one := h.join(h.lock(h.client()), "one", agent.reference())
	one.granted()

	// when a more important one comes by force
	boss := h.ask(h.lock(h.client()), "boss", at(5), forceful)
	boss.granted()

	// then all were evicted, and told by whom
	for _, u := range []*user{agent, one} {
		lost := await[recipes.Lost](t, u.told).Err
		require.Equal(t, recipes.LossTaken, lost.Reason)
		require.Equal(t, "boss", lost.By)
	}
	require.Equal(t, []string{"boss"}, h.holders(onlooker))
	require.Greater(t, boss.token(), one.token())
	requireNotThere(t, h.adopt(h.lock(h.client()), "heir", agent.grant.Reference()).refused())
}

func TestCompanionIsAskedByItsOwnMailbox(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	agent := h.hold(h.lock(h.client()), "agent", ofHold, cleanup(time.Hour))
	ref := agent.reference()
	activity := h.join(h.lock(h.client()), "activity", ref)
	activity.granted()

	// when a more important one asks
	boss := h.ask(h.lock(h.client()), "boss", at(5))

	// then each of them hears of it
	for _, u := range []*user{agent, activity} {
		require.Equal(t, "boss", await[recipes.PreemptAsked](t, u.told).By.Owner)
	}

	// and nobody joins any more
	late := h.join(h.lock(h.client()), "late", ref)
	var pending *recipes.PreemptPendingError
	require.ErrorAs(t, late.refused(), &pending)
	require.Equal(t, "boss", pending.By.By.Owner)
	require.Equal(t, time.Hour, pending.By.Grace)
	require.WithinDuration(t, time.Now().Add(time.Hour), pending.By.Deadline, time.Minute)

	// except to clean up: it is told at once that it is asked as well
	helper := h.join(h.lock(h.client()), "helper", ref, forCleanup)
	helper.granted()
	require.Equal(t, "boss", await[recipes.PreemptAsked](t, helper.told).By.Owner)

	// and the lock goes to the boss when the last of them has gone
	agent.release()
	activity.release()
	boss.waits()
	helper.release()
	boss.granted()
}

func TestAdopterHoldsInThePlaceOfTheOther(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	onlooker := h.client()

	// given a holder, whose lease has been going on, and one who waits
	first := h.hold(h.lock(h.client()), "attempt 1", ofHold, lease(time.Hour), cleanup(time.Hour))
	boss := h.ask(h.lock(h.client()), "boss", at(5))
	await[recipes.PreemptAsked](t, first.told)
	before := h.state(onlooker).Holders[0]

	// when a newer attempt adopts the hold
	second := h.adopt(h.lock(h.client()), "attempt 2", first.reference())

	// then the token, the lease and the request to go are what they were
	second.granted()
	require.Equal(t, "boss", await[recipes.PreemptAsked](t, second.told).By.Owner)
	after := h.state(onlooker).Holders
	require.Len(t, after, 1)
	require.Equal(t, "attempt 2", after[0].Owner)
	require.Equal(t, first.token(), after[0].Token)
	require.Equal(t, before.Since, after[0].Since)
	require.Equal(t, before.PreemptedBy, after[0].PreemptedBy)
	require.Equal(t, time.Hour, after[0].LeaseTimeout)
	require.Equal(t, second.token(), first.token())

	// and the older attempt is told that it was superseded
	lost := await[recipes.Lost](t, first.told).Err
	require.Equal(t, recipes.LossSuperseded, lost.Reason)
	require.Equal(t, first.token(), lost.Token)

	// and nobody adopts it twice
	require.True(t, requireNotThere(t, h.adopt(h.lock(h.client()), "late", first.grant.Reference()).refused()).Held)
	second.release()
	boss.granted()
}

func TestAdopterOfAWaiterWaitsForItsGrant(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	onlooker := h.client()

	// given a ticket in the queue, and another request behind it
	holder := h.hold(h.lock(h.client()), "holder")
	ticket := h.ask(h.lock(h.client()), "ticket", ofHold)
	id := await[recipes.Joined](t, ticket.told).ID
	behind := h.ask(h.lock(h.client()), "behind")
	behind.queued()
	ref := recipes.Reference{Scope: "users", Hold: holdID, ID: id}

	// when another process adopts it, then that waits
	var busy *recipes.NotAcquiredError
	require.ErrorAs(t, h.adopt(h.lock(h.client()), "impatient", ref, try).refused(), &busy)
	require.Equal(t, "holder", busy.Holders[0].Owner)
	require.ErrorAs(t, h.adopt(h.lock(h.client()), "timely", ref, within(100*time.Millisecond)).refused(), &busy)
	adopter := h.adopt(h.lock(h.client()), "adopter", ref)
	queued := adopter.queued()
	require.Equal(t, 1, queued.Position)
	require.Equal(t, []string{"holder"}, owners(queued.Holders))
	adopter.waits()

	// and holds as soon as the ticket does
	holder.release()
	adopter.granted()
	h.holderIs(onlooker, "adopter")
	require.NotZero(t, adopter.token())
	behind.waits()
	ticket.ended()
	if ticket.grant != nil { // else it was adopted before it had heard of its grant
		require.Equal(t, recipes.LossSuperseded, await[recipes.Lost](t, ticket.told).Err.Reason)
	} else {
		var lost *recipes.LostError
		require.ErrorAs(t, ticket.err, &lost)
		require.Equal(t, recipes.LossSuperseded, lost.Reason)
	}
	adopter.release()
	behind.granted()
}

func TestAdopterOfAWaiterThatLeavesIsToldSo(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	h.hold(h.lock(h.client()), "holder")
	doomed := h.client()
	ref := recipes.Reference{Scope: "users", Hold: holdID}
	for _, end := range []string{"leaves", "dies"} {
		ticket := h.ask(h.lock(doomed), "ticket", ofHold)
		ref.ID = await[recipes.Joined](t, ticket.told).ID
		adopter := h.adopt(h.lock(h.client()), "adopter", ref)
		ticket.queued()
		adopter.waits()
		if end == "leaves" {
			ticket.cancel()
		} else {
			h.expire(doomed)
			require.NotEqual(t, ref.ID, await[recipes.Joined](t, ticket.told).ID)
		}
		requireNotThere(t, adopter.refused())
	}
}

func TestAdopterFollowsAWaiterThatMoves(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	holder := h.hold(h.lock(h.client()), "holder", at(9))
	terms, revise := changingTerms(recipes.Terms{LeaseTimeout: time.Hour})
	ticket := h.ask(h.lock(h.client()), "ticket", ofHold, func(r *recipes.Request) { r.Terms = terms })
	id := await[recipes.Joined](t, ticket.told).ID
	ticket.queued()
	adopter := h.adopt(h.lock(h.client()), "adopter", recipes.Reference{Scope: "users", Hold: holdID, ID: id})
	adopter.queued()

	// when the ticket gets another priority while it is waited for
	revise(recipes.Terms{Priority: 3, LeaseTimeout: time.Hour})
	require.NotEqual(t, id, await[recipes.Joined](t, ticket.told).ID)

	// then it is adopted all the same
	holder.release()
	adopter.granted()
	require.Equal(t, priority.Level(3), adopter.grant.Terms().Priority)
}

// changingTerms are terms that revise changes.
func changingTerms(first recipes.Terms) (terms func() (recipes.Terms, <-chan struct{}), revise func(recipes.Terms)) {
	type offer struct {
		terms   recipes.Terms
		changed chan struct{}
	}
	now := make(chan offer, 1)
	now <- offer{first, make(chan struct{})}
	terms = func() (recipes.Terms, <-chan struct{}) {
		o := <-now
		now <- o
		return o.terms, o.changed
	}
	revise = func(next recipes.Terms) {
		o := <-now
		now <- offer{next, make(chan struct{})}
		close(o.changed)
	}
	return terms, revise
}

func TestDeadHoldIsResumedWithItsTokenByItsReferenceAlone(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	onlooker := h.client()
	for _, members := range []string{"one", "one that has been joined, and left", "two that die"} {
		t.Run(members, func(t *testing.T) {
			doomed := []*recipes.Client{h.client(), h.client()}
			agent := h.hold(h.lock(doomed[0]), "agent", ofHold)
			ref := agent.reference()
			if members != "one" {
				activity := h.join(h.lock(doomed[1]), "activity", ref)
				activity.granted()
				if members != "two that die" {
					activity.release()
				}
			}

			// given a hold whose members die, with nobody behind them
			h.expire(doomed[0])
			h.expire(doomed[1])
			await[recipes.Lost](t, agent.told)
			h.nobodyThere()

			// when another process comes with the reference
			again := h.adopt(h.lock(h.client()), "agent again", ref, lease(time.Hour))

			// then it has the old token
			require.Equal(t, ref.Token, again.token())
			require.Equal(t, []string{"agent again"}, h.holders(onlooker))
			require.Equal(t, time.Hour, h.state(onlooker).Holders[0].LeaseTimeout)

			// once: what was resumed is not there any more
			require.True(t, requireNotThere(t, h.adopt(h.lock(h.client()), "late", ref).refused()).Held)
			again.release()
			requireNotThere(t, h.adopt(h.lock(h.client()), "later", again.grant.Reference()).refused())
		})
	}
}

func TestHoldIsNotResumedAfterAnybodyElseHeldTheLock(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	doomed := h.client()
	agent := h.hold(h.lock(doomed), "agent", ofHold)
	ref := agent.reference()
	h.expire(doomed)
	h.nobodyThere()
	other := h.hold(h.lock(h.client()), "other")
	requireNotThere(t, h.adopt(h.lock(h.client()), "again", ref).refused())
	other.release()
	requireNotThere(t, h.adopt(h.lock(h.client()), "again", ref).refused())

	// Nor a shared one.
	doomed = h.client()
	reader := h.hold(h.lock(doomed), "reader", ofHold, inMode(priority.Shared))
	ref = reader.reference()
	require.Equal(t, priority.Shared, ref.Mode)
	h.expire(doomed)
	h.nobodyThere()
	requireNotThere(t, h.adopt(h.lock(h.client()), "again", ref).refused())
}

func TestPlaceOfADeadMemberIsTakenBesideTheOthers(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	onlooker := h.client()

	// given an agent that dies, and two activities, one of which has come since
	doomed := h.client()
	agent := h.hold(h.lock(doomed), "agent", ofHold)
	ref := agent.reference()
	one := h.join(h.lock(h.client()), "one", ref)
	one.granted()
	h.expire(doomed)
	h.holderIs(onlooker, "one")
	two := h.join(h.lock(h.client()), "two", ref)
	two.granted()

	// when another agent adopts the place of the dead one
	again := h.adopt(h.lock(h.client()), "agent again", ref)

	// then all three are companions, and the place is taken
	require.Equal(t, ref.Token, again.token())
	require.Equal(t, []string{"agent again", "one", "two"}, h.holders(onlooker))
	require.True(t, requireNotThere(t, h.adopt(h.lock(h.client()), "late", ref).refused()).Held)
	require.Zero(t, count[recipes.Lost](one.told)+count[recipes.Lost](two.told))
}

func TestLockDelayOfADeadHoldBarsAllButThatHold(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	doomed := h.client()
	agent := h.hold(h.lock(doomed), "agent", ofHold, delayed(5*time.Minute))
	ref := agent.reference()
	boss := h.ask(h.lock(h.client()), "boss", at(5), cleanup(time.Minute))
	await[recipes.PreemptAsked](t, agent.told)

	// given a hold that has died, and one that waits for the delay
	h.expire(doomed)
	await[recipes.Delayed](t, boss.told)

	// when it is resumed, then at once
	again := h.adopt(h.lock(h.client()), "agent again", ref, delayed(5*time.Minute), cleanup(time.Minute))
	require.Equal(t, ref.Token, again.token())

	// and the one that waits asks it to go, and not only when the delay would be over
	require.Equal(t, "boss", await[recipes.PreemptAsked](t, again.told).By.Owner)

	// and the delay of the dead one still counts for that one when the hold ends
	again.release()
	state := h.state(h.client())
	require.False(t, state.Held())
	require.Equal(t, []string{"boss"}, owners(state.Waiters))
	require.Len(t, state.Delays, 1)
	require.Equal(t, agent.grant.ID(), state.Delays[0].ID)
	boss.waits()
}

func TestLockDelayOfOneThatWasAdoptedIsNotForgotten(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	old := h.hold(h.lock(h.client()), "old", ofHold, delayed(5*time.Minute))
	adopter := h.adopt(h.lock(h.client()), "new", old.reference())
	adopter.granted()
	activity := h.join(h.lock(h.client()), "activity", adopter.reference())
	activity.granted()
	stranger := h.ask(h.lock(h.client()), "stranger")
	stranger.queued()

	// The process of the old one may be at work yet when the hold ends.
	adopter.release()
	activity.release()
	state := h.state(h.client())
	require.False(t, state.Held())
	require.Len(t, state.Delays, 1)
	require.Equal(t, old.grant.ID(), state.Delays[0].ID)
	stranger.waits()
}

// Nobody knows the token of one that was waiting when it was referred to, and died
// with its hold.
func TestHoldIsResumedWithANewTokenWhereTheOldOneIsNotKnown(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	doomed := []*recipes.Client{h.client(), h.client()}
	agent := h.hold(h.lock(doomed[0]), "agent", ofHold)
	activity := h.join(h.lock(doomed[1]), "activity", agent.reference())
	other := activity.reference()
	unknown := agent.reference()
	unknown.Token = 0
	h.expire(doomed[0])
	h.expire(doomed[1])
	h.nobodyThere()

	again := h.adopt(h.lock(h.client()), "again", unknown)
	require.Greater(t, again.token(), other.Token)

	// and the old token does not come back
	again.release()
	requireNotThere(t, h.adopt(h.lock(h.client()), "late", other).refused())
}

func TestHoldIsBrokenWhole(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	onlooker := h.client(as("ann", "secret"))
	doomed := h.client(as("ann", "secret"))
	agent := h.hold(h.lock(h.client(as("ann", "secret"))), "agent", ofHold)
	ref := agent.reference()
	one := h.join(h.lock(h.client(as("ann", "secret"))), "one", ref)
	dead := h.join(h.lock(doomed), "dead", ref)
	one.granted()
	deadRef := dead.reference()
	h.expire(doomed)
	h.holderIs(onlooker, "agent", "one")

	// of all of them it was said before that they lose it, of one that came meanwhile, too
	var late *user
	var said [][]string
	_, err := onlooker.Break(t.Context(), recipes.BreakRequest{
		Scope: "users", Token: ref.Token, By: "ann", Reason: "stuck",
		Authorize: func(_ context.Context, holders []recipes.Contender) error {
			all := owners(holders)
			slices.Sort(all)
			if said = append(said, all); late == nil {
				late = h.join(h.lock(h.client(as("ann", "secret"))), "late", ref)
				late.granted()
			}
			return nil
		},
	})
	require.NoError(t, err)
	require.Equal(t, [][]string{{"agent", "one"}, {"agent", "late", "one"}}, said)
	for _, u := range []*user{agent, one, late} {
		require.Equal(t, recipes.LossBroken, await[recipes.Lost](t, u.told).Err.Reason)
	}
	require.False(t, h.state(onlooker).Held())
	for _, ref := range []recipes.Reference{ref, deadRef} {
		requireNotThere(t, h.adopt(h.lock(onlooker), "again", ref).refused())
	}
}

// Readers that were granted together have one token, though they are strangers.
func TestHoldOfReadersIsBrokenWholeAndNoStrangerWithIt(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	onlooker := h.client(as("ann", "secret"))
	// a holder with a hold id looks who waits, however short its hold was
	writer := h.hold(h.lock(h.client(as("ann", "secret"))), "writer", func(r *recipes.Request) { r.Hold = "theirs" })
	var readers []*user
	for i, change := range []func(*recipes.Request){ofHold, func(*recipes.Request) {}} {
		u := h.ask(h.lock(h.client(as("ann", "secret"))), []string{"agent", "stranger"}[i], inMode(priority.Shared), change)
		u.queued()
		readers = append(readers, u)
	}
	writer.release()
	agent, stranger := readers[0], readers[1]
	require.Equal(t, agent.token(), stranger.token())
	activity := h.join(h.lock(h.client(as("ann", "secret"))), "activity", agent.reference())
	activity.granted()
	require.Equal(t, []string{"activity", "agent", "stranger"}, h.holders(onlooker))

	_, err := onlooker.Break(t.Context(), recipes.BreakRequest{Scope: "users", Token: agent.token(), By: "ann", Reason: "stuck"})
	require.NoError(t, err)
	for _, u := range []*user{agent, activity} {
		require.Equal(t, recipes.LossBroken, await[recipes.Lost](t, u.told).Err.Reason)
	}
	require.Equal(t, []string{"stranger"}, h.holders(onlooker))
	stranger.release()
}

// Who waits for people to decide about a hold is not told that it has gone when
// others come to help it, or take its place.
func TestWhoIsPatientKnowsTheCompanionsOfAHold(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	agent := h.hold(h.lock(h.client()), "agent", ofHold, cleanup(time.Hour))
	ref := agent.reference()
	boss := h.ask(h.lock(h.client()), "boss", at(5), func(r *recipes.Request) { r.Patient, r.WaitingTimeout = true, new(time.Millisecond) })
	require.Equal(t, []string{"agent"}, owners(await[recipes.CleanupPending](t, boss.told).Holders))

	helper := h.join(h.lock(h.client()), "helper", ref, forCleanup)
	helper.granted()
	seen := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { return count[recipes.PreemptSent](boss.told) == n }, soon, time.Millisecond)
	}
	seen(2)
	next := h.adopt(h.lock(h.client()), "next", ref)
	next.granted()
	seen(3)
	helper.release()
	next.release()
	boss.granted()
	require.Zero(t, count[recipes.PendingOver](boss.told))
	boss.release()
}

func TestHoldStaysExclusive(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	agent := h.hold(h.lock(h.client()), "agent", ofHold)
	var refused *recipes.RequestError
	require.ErrorAs(t, agent.grant.Downgrade(t.Context()), &refused)
	require.Equal(t, priority.Exclusive, agent.grant.Mode())
	require.ErrorAs(t, h.ask(h.lock(h.client()), "reader", inMode(priority.Shared), try).refused(), new(*recipes.NotAcquiredError))
}

func TestReferenceThatCanNeverWorkIsRefused(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	l := h.lock(h.client())
	good := recipes.Reference{Scope: "users", Hold: holdID, ID: strings.Repeat("a", 24), Token: 7}
	requireNotThere(t, h.join(l, "good", good).refused())
	requireNotThere(t, h.adopt(l, "good", good).refused())
	for name, spoil := range map[string]func(*recipes.Reference){
		"another scope": func(r *recipes.Reference) { r.Scope = "orders" },
		"no hold":       func(r *recipes.Reference) { r.Hold = "" },
		"a long hold":   func(r *recipes.Reference) { r.Hold = strings.Repeat("x", recipes.MaxHold+1) },
		"a bell":        func(r *recipes.Reference) { r.Hold = "\a" },
		"no id":         func(r *recipes.Reference) { r.ID = "" },
		"a path":        func(r *recipes.Reference) { r.ID = "../" + strings.Repeat("a", 21) },
	} {
		ref := good
		spoil(&ref)
		var refused *recipes.RequestError
		require.ErrorAs(t, h.join(l, name, ref).refused(), &refused, name)
		require.ErrorAs(t, h.adopt(l, name, ref).refused(), &refused, name)
	}
	var refused *recipes.RequestError
	require.ErrorAs(t, h.ask(l, "long", func(r *recipes.Request) { r.Hold = strings.Repeat("x", recipes.MaxHold+1) }).refused(), &refused)
	require.Equal(t, "hold", refused.Field)
}

// An id that is used again is another hold.
func TestLaterHoldWithTheSameIDIsNotJoinedByAnOldReference(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	first := h.hold(h.lock(h.client()), "first", ofHold)
	old := first.reference()
	first.release()
	second := h.hold(h.lock(h.client()), "second", ofHold)
	requireNotThere(t, h.join(h.lock(h.client()), "late", old).refused())
	require.Equal(t, second.token(), h.join(h.lock(h.client()), "timely", second.reference()).token())
}
