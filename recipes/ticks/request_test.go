package ticks

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// --- requests -----------------------------------------------------------------

func TestARequestIsTakenByOneDaemonAndItsRunHasItsID(t *testing.T) {
	for _, f := range []fault{none, lostBefore, lostAfter} {
		// given
		server := newTickServer()
		asker, _ := server.ledger("asker")
		a, sessionA := server.ledger("a")
		b, _ := server.ledger("b")
		handle, err := asker.Request(t.Context(), Request{Job: "job", By: "ann", Reason: "again"})
		require.NoError(t, err)
		standing, err := a.AwaitRequests(t.Context(), Requests{})
		require.NoError(t, err)
		require.Len(t, standing.Standing, 1)
		request := standing.Standing[0]
		require.Equal(t, Request{ID: handle.ID(), Job: "job", By: "ann", Reason: "again", Owner: "asker", Host: "h", PID: 1, At: request.At}, request)
		require.False(t, request.At.IsZero())

		// when
		sessionA.next(0, f)
		won, err := a.ClaimRequest(t.Context(), request, 1)
		require.NoError(t, err)
		lost, err := b.ClaimRequest(t.Context(), request, 1)
		require.NoError(t, err)
		again, err := a.ClaimRequest(t.Context(), request, 1)
		require.NoError(t, err)

		// then
		require.Equal(t, Claimed, won.Verdict)
		require.Equal(t, handle.ID(), won.Run.ID)
		require.True(t, won.Run.Manual)
		require.Equal(t, "ann", won.Run.By)
		require.Equal(t, "again", won.Run.Why)
		require.Equal(t, Taken, lost.Verdict)
		require.Equal(t, Taken, again.Verdict)
		standing, err = a.AwaitRequests(t.Context(), standing)
		require.NoError(t, err)
		require.Empty(t, standing)
		require.NoError(t, handle.AwaitTaken(t.Context()))
		taken, err := handle.Withdraw(t.Context())
		require.NoError(t, err)
		require.True(t, taken)
		ended(t, a, won.Run, Ran)
		s := state(t, asker)
		require.Equal(t, Ran, s.Result(handle.ID()).Outcome)
		require.Equal(t, "ann", s.Latest().By)
	}
}

func TestOfTwoThatTakeARequestAtOnceOneIsTooLate(t *testing.T) {
	server := newTickServer()
	a, session := server.ledger("a")
	b, _ := server.ledger("b")
	handle, err := a.Request(t.Context(), Request{Job: "job"})
	require.NoError(t, err)
	request := Request{ID: handle.ID(), Job: "job"}
	session.fault = func() fault { // just before a's transaction
		session.fault = nil
		claim, err := b.ClaimRequest(t.Context(), request, 9)
		require.NoError(t, err)
		require.Equal(t, Claimed, claim.Verdict)
		return none
	}
	claim, err := a.ClaimRequest(t.Context(), request, 9)
	require.NoError(t, err)
	require.Equal(t, Taken, claim.Verdict)
	require.Equal(t, "b", state(t, a).Runs[0].Owner)
}

func TestARequestStandsWhileARunGoesOnAndCanBeWithdrawn(t *testing.T) {
	for _, f := range []fault{none, lostBefore, lostAfter} {
		server := newTickServer()
		asker, session := server.ledger("asker")
		a, _ := server.ledger("a")
		run := claimed(t, a, at(1))
		handle, err := asker.Request(t.Context(), Request{Job: "job"})
		require.NoError(t, err)
		request := Request{ID: handle.ID(), Job: "job"}
		claim, err := a.ClaimRequest(t.Context(), request, 1)
		require.NoError(t, err)
		require.Equal(t, Overlap, claim.Verdict)
		require.Equal(t, run.ID, claim.Run.ID)

		session.next(0, f)
		taken, err := handle.Withdraw(t.Context())
		require.NoError(t, err)
		require.False(t, taken)
		ended(t, a, run, Ran)
		claim, err = a.ClaimRequest(t.Context(), request, 1)
		require.NoError(t, err)
		require.Equal(t, Taken, claim.Verdict)
		require.ErrorAs(t, handle.AwaitTaken(t.Context()), new(*RequestLostError))
		require.Empty(t, state(t, a).Runs)
	}
}

func TestARequestDiesWithItsAsker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newTickServer()
		asker, session := server.ledger("asker")
		a, _ := server.ledger("a")
		handle, err := asker.Request(t.Context(), Request{Job: "job"})
		require.NoError(t, err)
		seen, err := a.AwaitRequests(t.Context(), Requests{})
		require.NoError(t, err)
		lost := make(chan error, 1)
		go func() { lost <- handle.AwaitTaken(t.Context()) }()
		synctest.Wait()

		server.expire(session)

		require.ErrorAs(t, <-lost, new(*RequestLostError))
		none, err := a.AwaitRequests(t.Context(), seen)
		require.NoError(t, err)
		require.Empty(t, none)
		claim, err := a.ClaimRequest(t.Context(), seen.Standing[0], 1)
		require.NoError(t, err)
		require.Equal(t, Taken, claim.Verdict)
	})
}

func TestARequestWhoseClaimLostItsReplyIsAdoptedOrEndsAsUndecided(t *testing.T) {
	for _, expired := range []bool{false, true} {
		for _, repeated := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				// given a claim whose reply came too late
				server := newTickServer()
				a, session := server.ledger("a")
				handle, err := a.Request(t.Context(), Request{Job: "job", By: "ann"})
				require.NoError(t, err)
				request := Request{ID: handle.ID(), Job: "job", By: "ann"}
				session.next(0, late)
				_, err = a.ClaimRequest(soon(t), request, 1)
				require.Error(t, err)
				if expired {
					server.expire(session)
				}

				if repeated {
					claim, err := a.ClaimRequest(t.Context(), request, 1)
					require.NoError(t, err)
					require.Equal(t, Claimed, claim.Verdict)
					require.Equal(t, handle.ID(), claim.Run.ID)
					require.Len(t, server.markers(), 1)
					ended(t, a, claim.Run, Ran)
				} else {
					ended(t, a, claimed(t, a, at(1)), Ran)
				}
				s := state(t, a)
				want := map[bool]Outcome{true: Ran, false: Skipped}
				require.Equal(t, want[repeated], s.Result(handle.ID()).Outcome)
				require.Empty(t, server.markers())
			})
		}
	}
}
