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
	"context"
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
		then func(w *world, again zktest.Match)
	}{
		{"its answer", (*zktest.Fault).DropReply, func(w *world, again zktest.Match) { w.never(again) }},
		{"itself", (*zktest.Fault).DropRequest, func(w *world, again zktest.Match) { w.must(again) }},
	} {
		t.Run(lost.name, func(t *testing.T) {
			scenario(t, func(w *world) {
				// given a holder, and one that is about to join the queue
				h := w.hold("H", at(5))
				session, _ := w.client("A").Session()
				w.must(zktest.Op(zktest.Sync).From("A"))

				// when its first try to join is lost
				lose := lost.by(w.On(T2(users).From("A").Nth(1)))
				lost.then(w, T2(users).From("A"))
				a := w.ask("A", at(1))
				w.reached(lose)

				// then it stands there once, in the session that it had
				require.Equal(w, 1, a.queued().Position)
				id := a.id()
				again, _ := w.client("A").Session()
				require.Equal(w, session, again)

				// and is granted there
				h.release()
				require.Equal(w, id, a.granted().ID())
			})
		})
	}
}

// N4: T5 is executed and its answer is lost; or T5 itself is.
func TestReleaseWhoseAnswerIsLostIsDoneAndTheLockCanBeTakenAgain(t *testing.T) {
	for name, lose := range map[string]func(*zktest.Fault) *zktest.Rule{
		"its answer": (*zktest.Fault).DropReply,
		"itself":     (*zktest.Fault).DropRequest,
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(w *world) {
				// given a holder, and nobody in line
				a := w.hold("A", at(5))

				// when its release is lost
				lost := lose(w.On(T5(users).From("A").Nth(1)))
				released := a.releases()
				w.reached(lost)

				// then it is done all the same, and nobody is told of an error
				require.NoError(w, released())
				require.Empty(w, w.admin.contenders(w.root))
				require.Zero(w, times[recipes.Lost](a))

				// and the lock goes on: to another one, and to the same client again
				b := w.hold("B", at(1))
				require.Greater(w, b.token(), a.token())
				again := w.ask("A", at(5))
				again.queued()
				b.release()
				require.Greater(w, again.token(), b.token())
			})
		})
	}
}

// N7: the caller leaves while one of the requests, or the answer to one, is
// under way: each of them in turn, on each way that an acquire can go.
func TestAcquireThatIsCancelledAtEachRequestLeavesNothing(t *testing.T) {
	for _, way := range []struct {
		name  string
		given func(w *world) // others at the lock
		asks  []func(*recipes.Request)
	}{
		{"idle", func(*world) {}, nil},
		{"held", func(w *world) { w.hold("H", at(5)) }, nil},
		{"behind another", func(w *world) { w.hold("H", at(5)); w.ask("W", at(3)).queued() }, nil},
		{"cleanup pending", func(w *world) { w.hold("H", cleanup(time.Hour)) }, []func(*recipes.Request){at(9)}},
		{"taken over", func(w *world) { w.hold("H") }, []func(*recipes.Request){at(9), forceful}},
	} {
		for _, caught := range []struct {
			what string
			by   func(*zktest.Fault) *zktest.Rule
			late time.Duration // how long it is held up after its caller has left
		}{
			{"request", (*zktest.Fault).Hold, 0},
			{"answer", (*zktest.Fault).HoldReply, 0},
			{"request that comes late", (*zktest.Fault).Hold, time.Second},
			{"answer that comes late", (*zktest.Fault).HoldReply, time.Second},
		} {
			play := scenario
			if caught.late > 0 {
				play = func(t *testing.T, body func(*world)) {
					t.Helper()
					embeddedOnly(t, "each step would take that long", body)
				}
			}
			t.Run(way.name+", "+caught.what, func(t *testing.T) {
				play(t, func(w *world) {
					way.given(w)
					w.client("A")
					others := len(w.admin.contenders(w.root))
					last := 0
					for step := 1; last == 0; step++ {
						if len(w.admin.contenders(w.root)) < others {
							way.given(w) // it was taken over
						}
						// given a caller of which one request, or its answer, is held up
						held := caught.by(w.On(zktest.Any().From("A").Nth(step)))
						u := w.client("A").ask(users, "leaver", way.asks...)
						select {
						case <-held.Reached():
						case <-time.After(patience):
							last = step // there was none so far
						}

						// when it leaves there
						u.cancel()
						w.settle()
						w.pass(caught.late)
						held.Remove()

						// then nothing of it is left at the server
						u.returned()
						if u.err != nil {
							require.ErrorIs(w, u.err, context.Canceled)
						}
						u.end()
						w.eventually("nothing is left", func() bool { return len(u.nodes()) == 0 })
						require.LessOrEqual(w, len(w.admin.contenders(w.root)), others)
					}
					require.Greater(w, last, 3, "an acquire takes some steps")
				})
			})
		}
	}
}

// patience is longer than an acquire lets pass between two requests while
// somebody holds the lock.
const patience = 400 * time.Millisecond
