package ticks

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

func TestTimesAreTheServersAndStayWhenOthersWrite(t *testing.T) {
	server := newTickServer()
	a, _ := server.ledger("a")
	run := claimed(t, a, at(1))
	claimedAt := run.ClaimedAt
	require.Equal(t, time.Unix(1_000_001, 0), claimedAt)
	_, err := a.RecordSkip(t.Context(), "job", "missed", at(2)) // another write meanwhile
	require.NoError(t, err)
	require.NoError(t, finish(t.Context(), a, run, End{Outcome: Ran}))
	endedAt := time.Unix(1_000_003, 0)

	require.True(t, latest(t, a).EndedAt.Equal(endedAt))
	claimed(t, a, at(3)) // does not move the end of the one before
	s := state(t, a)
	require.True(t, s.Latest().EndedAt.Equal(endedAt))
	require.True(t, s.Latest().ClaimedAt.Equal(claimedAt))
	require.True(t, s.Runs[0].ClaimedAt.Equal(time.Unix(1_000_004, 0)))
}

func TestARunWhoseProcessDiedIsRecordedAsInterruptedByTheNextClaimant(t *testing.T) {
	server := newTickServer()
	a, sessionA := server.ledger("a")
	b, _ := server.ledger("b")
	dead := claimed(t, a, at(1))
	server.expire(sessionA)
	require.False(t, state(t, b).Runs[0].Alive)

	claim, err := b.Claim(t.Context(), "job", at(2), Ask{})
	require.NoError(t, err)
	require.Equal(t, Claimed, claim.Verdict)
	require.Equal(t, dead.ID, claim.Interrupted[0].ID)
	s := state(t, b)
	require.Equal(t, Interrupted, s.Latest().Outcome)
	require.EqualValues(t, 1, s.Counts.Interrupted)

	// It lives after all: it must learn of it, and change nothing.
	_, err = a.Finish(t.Context(), dead, End{Outcome: Ran})
	require.ErrorAs(t, err, new(*InterruptedError))
	require.Equal(t, s, state(t, b))
	require.NoError(t, finish(t.Context(), b, claim.Run, End{Outcome: Ran}))
	_, err = a.Finish(t.Context(), dead, End{Outcome: Ran})
	require.ErrorAs(t, err, new(*InterruptedError))
	require.EqualValues(t, 2, state(t, b).Counts.Total())
}

func TestARunThatEndsDuringALookIsNotTakenForDead(t *testing.T) {
	server := newTickServer()
	a, _ := server.ledger("a")
	b, looking := server.ledger("b")
	run := claimed(t, a, at(1))

	looking.onList = func() { require.NoError(t, finish(t.Context(), a, run, End{Outcome: Ran})) }
	s := state(t, b)
	require.Empty(t, s.Runs)
	require.Equal(t, Ran, s.Latest().Outcome)
}

func TestAManualRunTakesNoTick(t *testing.T) {
	server := newTickServer()
	a, _ := server.ledger("a")
	claim, err := a.ClaimManual(t.Context(), "job", at(5))
	require.NoError(t, err)
	require.Equal(t, Claimed, claim.Verdict)
	require.True(t, claim.Run.Manual)

	again, err := a.ClaimManual(t.Context(), "job", at(6))
	require.NoError(t, err)
	require.Equal(t, Overlap, again.Verdict)
	tick, err := a.Claim(t.Context(), "job", at(1), Ask{})
	require.NoError(t, err)
	require.Equal(t, Overlap, tick.Verdict)

	require.NoError(t, finish(t.Context(), a, claim.Run, End{Outcome: Ran}))
	claimed(t, a, at(2))
}

func TestSkipsAreRecordedOnceAndOnlyForUndecidedInstants(t *testing.T) {
	server := newTickServer()
	a, session := server.ledger("a")
	require.NoError(t, finish(t.Context(), a, claimed(t, a, at(2)), End{Outcome: Ran}))

	session.next(0, lostAfter)
	n, err := a.RecordSkip(t.Context(), "job", "missed", at(1), at(2), at(3), at(4))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	n, err = a.RecordSkip(t.Context(), "job", "missed", at(3), at(4))
	require.NoError(t, err)
	require.Zero(t, n)
	s := state(t, a)
	require.Equal(t, at(4), s.Last)
	require.Equal(t, Counts{Ran: 1, Skipped: map[string]int64{"missed": 2}}, s.Counts)
	require.Equal(t, End{Outcome: Skipped, Reason: "missed"}, s.Latest().End)
}

func TestTheTicksOfAJobBeginWhereTheFirstOneSaysForAll(t *testing.T) {
	for _, f := range []fault{none, lostBefore, lostAfter} {
		server := newTickServer()
		a, session := server.ledger("a")
		b, _ := server.ledger("b")
		session.next(0, f)
		after, err := a.Begin(t.Context(), "job", at(3))
		require.NoError(t, err)
		require.True(t, after.Before(at(3)) && after.After(at(2)), after)
		require.True(t, state(t, a).Last.IsZero())

		for _, first := range []time.Time{at(1), at(5)} {
			again, err := b.Begin(t.Context(), "job", first)
			require.NoError(t, err)
			require.Equal(t, after, again)
		}
		claim, err := b.Claim(t.Context(), "job", at(2), Ask{})
		require.NoError(t, err)
		require.Equal(t, Taken, claim.Verdict)
		n, err := b.RecordSkip(t.Context(), "job", "missed", at(1), at(2))
		require.NoError(t, err)
		require.Zero(t, n)

		claimed(t, b, at(3))
		after, err = a.Begin(t.Context(), "job", at(9))
		require.NoError(t, err)
		require.Equal(t, at(3), after)
	}
}

func TestACallWithoutAnswerNamesZooKeeper(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l, _ := newTickServer().ledger("a")
	_, claim := l.Claim(ctx, "job", at(1), Ask{})
	_, begin := l.Begin(ctx, "job", at(1))
	_, skip := l.RecordSkip(ctx, "job", "missed", at(1))
	for _, err := range []error{claim, begin, skip} {
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorAs(t, err, new(*zkclient.UnavailableError))
		require.ErrorContains(t, err, "ZooKeeper at zk1:2181 does not answer since 1s")
	}
}

func TestJobNamesAreEscapedAndChecked(t *testing.T) {
	server := newTickServer()
	a, _ := server.ledger("a")
	_, err := a.Claim(t.Context(), "team/nightly", at(1), Ask{})
	require.NoError(t, err)
	require.True(t, server.has("/lk/ticks/team%2Fnightly"))

	_, err = a.Claim(t.Context(), "", at(1), Ask{})
	var bad *zkclient.RequestError
	require.ErrorAs(t, err, &bad)
	require.Equal(t, "job", bad.Field)
	unknown, err := a.State(t.Context(), "unknown")
	require.NoError(t, err)
	require.Equal(t, State{Job: "unknown"}, unknown)
}

func TestAnOverlapCanBeWaitedFor(t *testing.T) {
	server := newTickServer()
	a, _ := server.ledger("a")
	run := claimed(t, a, at(1))
	claim, err := a.Claim(t.Context(), "job", at(2), Ask{OnOverlap: TellOverlap})
	require.NoError(t, err)
	require.Equal(t, Overlap, claim.Verdict)
	require.Equal(t, run.ID, claim.Run.ID)
	require.Equal(t, at(1), state(t, a).Last)
	require.NoError(t, finish(t.Context(), a, run, End{Outcome: Ran}))
	claim, err = a.Claim(t.Context(), "job", at(2), Ask{OnOverlap: TellOverlap})
	require.NoError(t, err)
	require.Equal(t, Claimed, claim.Verdict)
}

func TestAnEndThatFailedInTheCallerIsRecordedOnceWhenItIsRepeated(t *testing.T) {
	for _, f := range []fault{down, late} {
		synctest.Test(t, func(t *testing.T) {
			server := newTickServer()
			a, session := server.ledger("a")
			b, _ := server.ledger("b")
			run := claimed(t, a, at(1))
			session.next(0, f)
			require.Error(t, finish(soon(t), a, run, End{Outcome: Ran}))
			if f == late { // and another process has gone on
				require.NoError(t, finish(t.Context(), b, claimed(t, b, at(2)), End{Outcome: Ran}))
			}
			require.NoError(t, finish(t.Context(), a, run, End{Outcome: Ran}))
			require.Zero(t, state(t, a).Counts.Interrupted)
			require.Equal(t, state(t, a).Counts.Ran, state(t, a).Counts.Total())
		})
	}
}

func TestARecordOfANewerProgramIsLeftAlone(t *testing.T) {
	server := newTickServer()
	a, session := server.ledger("a")
	_, err := session.Create(t.Context(), "/lk/ticks/job", []byte(`{"format":2}`), 0)
	require.NoError(t, err)
	_, err = a.Claim(t.Context(), "job", at(1), Ask{})
	require.ErrorContains(t, err, "format 2")
	require.Equal(t, `{"format":2}`, string(server.nodes["/lk/ticks/job"].data))
}

func TestALostReplyNeitherLosesNorRepeatsAStep(t *testing.T) {
	for _, f := range []fault{lostBefore, lostAfter} {
		server := newTickServer()
		a, session := server.ledger("a")
		session.next(0, f)
		run := claimed(t, a, at(1))
		require.Len(t, server.markers(), 1)
		require.EqualValues(t, 1, server.nodes["/lk/ticks/job"].version)

		session.next(0, f)
		claim, err := a.Claim(t.Context(), "job", at(2), Ask{})
		require.NoError(t, err)
		require.Equal(t, Overlap, claim.Verdict)

		b, other := server.ledger("b") // which has no run there itself
		other.next(0, f)
		claim, err = b.Claim(t.Context(), "job", at(3), Ask{})
		require.NoError(t, err)
		require.Equal(t, Overlap, claim.Verdict)

		session.next(0, f)
		require.NoError(t, finish(t.Context(), a, run, End{Outcome: Ran}))
		require.Empty(t, server.markers())
		require.Equal(t, Counts{Ran: 1, Skipped: map[string]int64{ReasonOverlap: 2}}, state(t, a).Counts)
	}
}

func TestAClaimWhoseReplyIsLostWithItsSessionIsMadeAgain(t *testing.T) {
	server := newTickServer()
	a, session := server.ledger("a")
	session.next(0, lostAfter)
	session.after = func() { server.expire(session) }
	run := claimed(t, a, at(1))
	require.Len(t, server.markers(), 1)
	require.NoError(t, finish(t.Context(), a, run, End{Outcome: Ran}))
	require.EqualValues(t, 1, state(t, a).Counts.Ran)
}
