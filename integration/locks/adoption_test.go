package locks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func TestAdopterHoldsInThePlaceOfTheOther(t *testing.T) {
	h := share(t)
	onlooker := h.Client()

	// given a holder, whose lease has been going on, and one who waits
	first := h.hold("attempt 1", ofHold, harness.Lease(time.Hour), harness.Cleanup(time.Hour))
	boss := h.acquire("boss", harness.At(5))
	harness.Await[lock.PreemptRequested](h, first.Notices)
	before := h.state(onlooker).Holders[0]

	// when a newer attempt adopts the hold
	second := h.adopt("attempt 2", h.reference(first))

	// then the token, the lease and the preemption are what they were
	second.Granted()
	require.Equal(t, "boss", harness.Await[lock.PreemptRequested](h, second.Notices).By.Owner)
	after := h.state(onlooker).Holders
	require.Len(t, after, 1)
	require.Equal(t, "attempt 2", after[0].Owner)
	require.Equal(t, first.Token(), after[0].Token)
	require.Equal(t, before.Since, after[0].Since)
	require.Equal(t, before.PreemptedBy, after[0].PreemptedBy)
	require.Equal(t, time.Hour, after[0].LeaseTimeout)
	require.Equal(t, second.Token(), first.Token())

	// and the older attempt learns that it was superseded
	lost := first.Lost().Err
	require.Equal(t, lock.LossSuperseded, lost.Reason)
	require.Equal(t, first.Token(), lost.Token)

	// and it is not adopted twice
	require.True(t, requireNotThere(t, h.adopt("late", first.Granted().Reference()).Refused()).Held)
	second.Release()
	boss.Granted()
}

func TestAdopterOfAWaiterWaitsForItsGrant(t *testing.T) {
	h := share(t)
	onlooker := h.Client()

	// given a ticket in the queue, and another request behind it
	holder := h.hold("holder")
	ticket := h.acquire("ticket", ofHold)
	id := harness.Await[lock.Joined](h, ticket.Notices).ID
	behind := h.queued("behind")
	ref := lock.Reference{Scope: "users", Hold: holdID, ID: id}

	// when another process adopts it, then that waits
	var busy *lock.NotAcquiredError
	require.ErrorAs(t, h.adopt("impatient", ref, harness.Try).Refused(), &busy)
	require.Equal(t, "holder", busy.Holders[0].Owner)
	require.ErrorAs(t, h.adopt("timely", ref, harness.Within(100*time.Millisecond)).Refused(), &busy)
	adopter := h.adopt("adopter", ref)
	queued := adopter.Queued()
	require.Equal(t, 1, queued.Position)
	require.Equal(t, []string{"holder"}, harness.Owners(queued.Holders))
	adopter.IsPending()

	// and holds as soon as the ticket does
	holder.Release()
	adopter.Granted()
	h.holderIs(onlooker, "adopter")
	require.NotZero(t, adopter.Token())
	behind.IsPending()
	var lost *lock.LostError
	if grant, err := ticket.Wait(); grant != nil {
		lost = ticket.Lost().Err
	} else { // it was adopted before it had heard of its grant
		require.ErrorAs(t, err, &lost)
	}
	require.Equal(t, lock.LossSuperseded, lost.Reason)
	adopter.Release()
	behind.Granted()
}

func TestAdopterOfAWaiterThatLeavesLearnsSo(t *testing.T) {
	h := share(t)
	h.hold("holder")
	doomed := h.Client()
	ref := lock.Reference{Scope: "users", Hold: holdID}
	for _, end := range []string{"leaves", "dies"} {
		ticket := h.Acquire(h.lock(doomed), "ticket", ofHold)
		ref.ID = harness.Await[lock.Joined](h, ticket.Notices).ID
		adopter := h.adopt("adopter", ref)
		ticket.Queued()
		adopter.Queued() // else it may find the ticket that queues again
		if end == "leaves" {
			ticket.Cancel()
		} else {
			h.Expire(doomed)
			require.NotEqual(t, ref.ID, harness.Await[lock.Joined](h, ticket.Notices).ID)
		}
		requireNotThere(t, adopter.Refused())
	}
}

func TestAdopterFollowsAWaiterThatMoves(t *testing.T) {
	h := share(t)
	holder := h.hold("holder", harness.At(9))
	terms, revise := changingTerms(lock.Revision{Terms: priority.Terms{LeaseTimeout: time.Hour}})
	ticket := h.acquire("ticket", ofHold, func(r *lock.Request) { r.Revise = terms })
	id := harness.Await[lock.Joined](h, ticket.Notices).ID
	ticket.Queued()
	adopter := h.adopt("adopter", lock.Reference{Scope: "users", Hold: holdID, ID: id})
	adopter.Queued()

	// when the ticket gets another priority while it is waited for
	revise(lock.Revision{Terms: priority.Terms{Priority: 3, LeaseTimeout: time.Hour}})
	require.NotEqual(t, id, harness.Await[lock.Joined](h, ticket.Notices).ID)

	// then it is adopted all the same
	holder.Release()
	adopter.Granted()
	require.Equal(t, priority.Level(3), adopter.Granted().Terms().Priority)
}

// changingTerms are terms that revise changes.
func changingTerms(first lock.Revision) (terms func() (lock.Revision, <-chan struct{}), revise func(lock.Revision)) {
	type offer struct {
		terms   lock.Revision
		changed chan struct{}
	}
	now := make(chan offer, 1)
	now <- offer{first, make(chan struct{})}
	terms = func() (lock.Revision, <-chan struct{}) {
		o := <-now
		now <- o
		return o.terms, o.changed
	}
	revise = func(next lock.Revision) {
		o := <-now
		now <- offer{next, make(chan struct{})}
		close(o.changed)
	}
	return terms, revise
}

func TestLockDelayOfOneThatWasAdoptedIsNotForgotten(t *testing.T) {
	h := share(t)
	old := h.hold("old", ofHold, delayed(5*time.Minute))
	adopter := h.adopt("new", h.reference(old))
	adopter.Granted()
	activity := h.join("activity", h.reference(adopter))
	activity.Granted()
	stranger := h.queued("stranger")

	// The process of the old one may be at work yet when the hold ends.
	adopter.Release()
	activity.Release()
	state := h.state(h.Client())
	require.False(t, state.Held())
	require.Len(t, state.Delays, 1)
	require.Equal(t, old.Granted().ID(), state.Delays[0].ID)
	stranger.IsPending()
}
