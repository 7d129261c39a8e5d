package interleavings

// The cases N1 to N15 of package locks, which no other suite has, with nothing
// left to chance. There each runs against the clock of the machine; here, in
// files n_*_test.go:
//
//	N1   TestGrantOfASessionThatIsOverCountsForNothingInTheNext
//	     TestRequestThatOutlivesItsSessionInsideTheLibraryDoesNothing
//	N2   TestWaiterWhoseNodeIsDeletedWhileItIsGrantedGetsAnErrorAndTheNextOneTheLock
//	N3   TestJoinWhoseAnswerIsLostLeavesOneNode
//	     TestGrantWhoseReplyIsLostIsFoundAfterTheReconnect
//	N4   TestReleaseWhoseAnswerIsLostIsDoneAndTheLockCanBeTakenAgain
//	N5   TestHolderThatHearsNothingKnowsAMarginBeforeTheServerFreesTheLock
//	     in package virtualtime to the instant, whenever the network is cut
//	N6   TestHolderThatStoodStillFindsItsLossBeforeItsNextStep
//	     a process that is stopped for real: TestHolderThatWasStoppedKnowsBeforeItsNextStepAndItsTokenIsRefused,
//	     in package locks
//	N7   TestAcquireThatIsCancelledAtEachRequestLeavesNothing
//	N8   TestTenThousandTriesLeaveMemoryFlat
//	N9   TestAcquireReturnsAtItsDeadlineThoughTheServerIsMute
//	N10  TestTokenGrowsThroughAllKindsOfGrants
//	N11  TestHolderThatOverrunsItsGraceIsTakenOverAtItsEnd
//	N12  TestHolderThatReleasesBeforeItHearsOfThePreemptorGivesItTheLock
//	N13  TestLessImportantNewcomerChangesNothingForThePreemptor
//	N14  TestExpiryBehindAFloodOfEventsIsSeen
//	N15  TestClientRecoversFromAConnectionThatBreaksOverItsCredentials

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// N1: T1 is executed in one session, whose client comes back in another.
func TestGrantOfASessionThatIsOverCountsForNothingInTheNext(t *testing.T) {
	scenario(t, func(w *world) {
		// given a client that took the lock and never heard of it
		w.client("A")
		takes := w.On(T1(users).From("A").Nth(1)).DropReply()
		returns := w.On(zktest.Op(zktest.Connect).From("A").Nth(1)).Hold()
		a := w.ask("A", at(9))
		w.reached(takes)
		w.reached(returns)
		first := a.id()

		// when its session expires before it is back, and another takes the lock
		w.expire("A")
		b := w.hold("B", at(1), cleanup(time.Hour))
		returns.Release()

		// then it does not hold, but queues under a new name, and holds when its turn has come
		require.Equal(w, 1, a.queued().Position)
		a.waits()
		require.NotEqual(w, first, a.id())
		require.Equal(w, []string{"B"}, w.holders())
		b.release()
		require.NotEqual(w, first, a.granted().ID())
		require.Greater(w, a.token(), b.token())
	})
}

// N2: an administrator deletes the node of a waiter while T4 to it is under way.
func TestWaiterWhoseNodeIsDeletedWhileItIsGrantedGetsAnErrorAndTheNextOneTheLock(t *testing.T) {
	scenario(t, func(w *world) {
		// given a holder that hands over to the first of two waiters
		h := w.hold("H", at(5))
		victim, next := w.ask("victim", at(3)), w.ask("next", at(1))
		victim.queued()
		next.queued()
		handsOver := w.On(T4(users).From("H").Nth(1)).Hold()
		released := h.releases()
		w.reached(handsOver)

		// when the first one's node is deleted before that is done
		w.evict(victim)
		var evicted *recipes.EvictedError
		require.ErrorAs(w, victim.refused(), &evicted)
		next.waits()
		handsOver.Release()

		// then the lock goes to the second
		require.NoError(w, released())
		require.Greater(w, next.token(), h.token())
		require.Equal(w, []string{"next"}, w.holders())
	})
}

// N3: T2 is executed and its answer is lost; or T2 itself is.
func TestJoinWhoseAnswerIsLostLeavesOneNode(t *testing.T) {
	for _, lost := range []struct {
		name string
		by   func(*zktest.Fault) *zktest.Rule
		sent int // how often it joins
	}{
		{"its answer", (*zktest.Fault).DropReply, 1},
		{"itself", (*zktest.Fault).DropRequest, 2},
	} {
		t.Run(lost.name, func(t *testing.T) {
			scenario(t, func(w *world) {
				// given a holder, and one that is about to join the queue
				h := w.hold("H", at(5))
				session, _ := w.client("A").Session()
				catchesUp := w.must(zktest.Op(zktest.Sync).From("A"))
				joins := w.must(T2(users).From("A"))

				// when its first try to join is lost
				lose := lost.by(w.On(T2(users).From("A").Nth(1)))
				a := w.ask("A", at(1))
				w.reached(lose)

				// then it stands there once, in the session that it had
				require.Equal(w, 1, a.queued().Position)
				id := a.id()
				require.Equal(w, lost.sent, joins.Fired()+lose.Fired()-times(joins, lose))
				require.Positive(w, catchesUp.Fired())
				again, _ := w.client("A").Session()
				require.Equal(w, session, again)

				// and is granted there
				h.release()
				require.Equal(w, id, a.granted().ID())
			})
		})
	}
}
