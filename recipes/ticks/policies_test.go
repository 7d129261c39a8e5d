package ticks

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

func ask(t *testing.T, l *Ledger, instant time.Time, on OnOverlap, limit int) Claim {
	t.Helper()
	claim, err := l.Claim(t.Context(), "job", instant, Ask{OnOverlap: on, Max: limit})
	require.NoError(t, err)
	return claim
}

func waiting(t *testing.T, l *Ledger) Claim {
	t.Helper()
	claim, err := l.ClaimWaiting(t.Context(), "job", 1)
	require.NoError(t, err)
	return claim
}

func ended(t *testing.T, l *Ledger, run Run, outcome Outcome) Finish {
	t.Helper()
	f, err := l.Finish(t.Context(), run, End{Outcome: outcome})
	require.NoError(t, err)
	return f
}

func TestTicksWaitInOrderForTheEndOfTheRunAndThoseBeyondTheBoundAreSkipped(t *testing.T) {
	// given
	server := newTickServer()
	a, sessionA := server.ledger("a")
	b, _ := server.ledger("b")
	run := ask(t, a, at(1), BufferOverlap, 2).Run

	// when
	first := ask(t, a, at(2), BufferOverlap, 2)
	second := ask(t, b, at(3), BufferOverlap, 2)
	third := ask(t, a, at(4), BufferOverlap, 2)

	// then
	require.Equal(t, Buffered, first.Verdict)
	require.Equal(t, run.ID, first.Run.ID)
	require.Equal(t, 1, first.Waiting)
	require.Equal(t, Buffered, second.Verdict)
	require.Equal(t, Overlap, third.Verdict)
	require.Equal(t, 2, third.Waiting)
	require.Equal(t, []time.Time{at(2), at(3)}, state(t, b).Waiting)
	require.Equal(t, Overlap, waiting(t, b).Verdict)

	// when a tick is due while others wait though nothing runs
	require.Equal(t, 2, ended(t, a, run, Ran).Waiting)
	late := ask(t, b, at(5), SkipOverlap, 0)
	require.Equal(t, Overlap, late.Verdict)
	require.Zero(t, late.Run)
	next := waiting(t, a)
	require.Equal(t, Claimed, next.Verdict)
	require.Equal(t, at(2), next.Run.Instant)
	require.Equal(t, 1, next.Waiting)

	// when the process that has buffered dies, others go on
	server.expire(sessionA)
	last := waiting(t, b)
	require.Equal(t, Claimed, last.Verdict)
	require.Equal(t, at(3), last.Run.Instant)
	require.Equal(t, next.Run.ID, last.Interrupted[0].ID)
	require.Zero(t, ended(t, b, last.Run, Ran).Waiting)
	require.Equal(t, Taken, waiting(t, b).Verdict)
	require.Equal(t, Counts{Ran: 2, Interrupted: 1, Skipped: map[string]int64{ReasonOverlap: 2}}, state(t, b).Counts)
}

func TestATickAsksTheRunsToGoAndTakesTheirPlace(t *testing.T) {
	// given a run, and one that knows nothing of the other's policy
	server := newTickServer()
	a, _ := server.ledger("a")
	b, _ := server.ledger("b")
	run := ask(t, a, at(1), CancelOverlap, 0).Run
	asked := make(chan time.Time, 1)
	go func() {
		by, err := a.AwaitCancel(t.Context(), run)
		if err == nil {
			asked <- by
		}
		close(asked)
	}()

	// when
	require.Equal(t, Buffered, ask(t, b, at(2), CancelOverlap, 0).Verdict)
	require.Equal(t, at(2), <-asked)
	newer := ask(t, b, at(3), CancelOverlap, 0)

	// then the newest waits, and the first that asked is the one that the run gets
	require.Equal(t, Buffered, newer.Verdict)
	require.Equal(t, run.ID, newer.Run.ID)
	s := state(t, b)
	require.Equal(t, []time.Time{at(3)}, s.Waiting)
	require.Equal(t, at(2), s.Runs[0].Cancel)
	require.EqualValues(t, 1, s.Counts.Skipped[ReasonOverlap])
	ended(t, a, run, Preempted)
	require.Zero(t, latest(t, b).Cancel)

	// and when nothing runs any more, a newer one goes at once
	claim := ask(t, b, at(4), CancelOverlap, 0)
	require.Equal(t, Claimed, claim.Verdict)
	require.Empty(t, state(t, b).Waiting)
	require.EqualValues(t, 2, state(t, b).Counts.Skipped[ReasonOverlap])
}

func TestAwaitCancelReportsThatTheRunIsNoLongerRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given
		server := newTickServer()
		a, session := server.ledger("a")
		b, _ := server.ledger("b")
		run := claimed(t, a, at(1))
		errs := make(chan error, 1)
		go func() {
			_, err := a.AwaitCancel(t.Context(), run)
			errs <- err
		}()
		synctest.Wait()

		// when
		server.expire(session)
		claimed(t, b, at(2))

		// then
		require.ErrorAs(t, <-errs, new(*InterruptedError))
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, context.Canceled)
		defer cancel()
		_, err := b.AwaitCancel(ctx, state(t, b).Runs[0])
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorAs(t, err, new(*zkclient.UnavailableError))
	})
}

func TestALongUndecidedStretchIsRecordedInOneEntry(t *testing.T) {
	for _, f := range []fault{none, lostBefore, lostAfter} {
		server := newTickServer()
		a, session := server.ledger("a")
		b, _ := server.ledger("b")
		ended(t, a, claimed(t, a, at(1)), Ran)
		span := Span{First: at(2), Last: at(90_001), Count: 90_000}

		session.next(0, f)
		recorded, decided, err := a.RecordMissed(t.Context(), "job", "missed", span)
		require.NoError(t, err)
		require.True(t, recorded)
		require.Equal(t, span.Last, decided)
		recorded, decided, err = b.RecordMissed(t.Context(), "job", "missed", Span{First: at(90_000), Last: at(90_010), Count: 11})
		require.NoError(t, err)
		require.False(t, recorded)
		require.Equal(t, span.Last, decided)

		s := state(t, b)
		require.Equal(t, Counts{Ran: 1, Skipped: map[string]int64{"missed": 90_000}}, s.Counts)
		require.Equal(t, int64(90_000), s.Latest().Count)
		require.Equal(t, at(2), s.Latest().First)
		require.Equal(t, span.Last, s.Latest().Instant)
	}
	l, _ := newTickServer().ledger("a")
	_, _, err := l.RecordMissed(t.Context(), "job", "missed", Span{First: at(2), Last: at(1), Count: 1})
	require.ErrorAs(t, err, new(*zkclient.RequestError))
}

func TestSkipsForOneReasonThatFollowEachOtherAreOneEntry(t *testing.T) {
	server := newTickServer()
	a, _ := server.ledger("a")
	for n := range 5 {
		recorded, err := a.RecordSkip(t.Context(), "job", "missed", at(n))
		require.NoError(t, err)
		require.Equal(t, 1, recorded)
	}
	_, err := a.RecordSkip(t.Context(), "job", "blackout", at(5), at(6))
	require.NoError(t, err)
	ended(t, a, claimed(t, a, at(7)), Ran)
	_, err = a.RecordSkip(t.Context(), "job", "blackout", at(8))
	require.NoError(t, err)

	var seen []string
	for _, e := range state(t, a).History {
		seen = append(seen, fmt.Sprintf("%s%s %d: %d-%d", e.Outcome, e.Reason, e.Count, e.First.Sub(at(0))/time.Second, e.Instant.Sub(at(0))/time.Second))
	}
	require.Equal(t, []string{"skippedmissed 5: 0-4", "skippedblackout 2: 5-6", "ran 1: 7-7", "skippedblackout 1: 8-8"}, seen)
}

func TestTheHistoryTellsHowRunsEndedAndIsBounded(t *testing.T) {
	// given
	server := newTickServer()
	a, _ := server.ledger("a")
	end := End{
		Outcome: Failed, Reason: "no disk", Token: 7, Took: 1500 * time.Millisecond, Waited: 20 * time.Millisecond, Attempts: 3, Preemptions: 1,
		Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	require.NoError(t, finish(t.Context(), a, claimed(t, a, at(0)), end))
	require.Equal(t, end, latest(t, a).End)
	require.Equal(t, "a", latest(t, a).Owner)

	// when each run is ended by another daemon, with a long reason
	for n := 1; n < 100; n++ {
		l, _ := server.ledger(fmt.Sprintf("daemon-%d.production.example.com:12345", n))
		end.Reason = strings.Repeat("ü", 1000)
		require.NoError(t, finish(t.Context(), l, claimed(t, l, at(n)), end))
		require.LessOrEqual(t, len(server.nodes["/lk/ticks/job"].data), maxTickRecord)
	}

	// then
	s := state(t, a)
	require.GreaterOrEqual(t, len(s.History), 12)
	require.Equal(t, at(99), s.Latest().Instant)
	require.True(t, strings.HasPrefix(s.Latest().Owner, "daemon-99."))
	require.EqualValues(t, 100, s.Counts.Failed)

	// when they say little
	for n := 100; n < 200; n++ {
		ended(t, a, claimed(t, a, at(n)), Ran)
	}
	s = state(t, a)
	require.Len(t, s.History, maxTickHistory)
	require.LessOrEqual(t, len(server.nodes["/lk/ticks/job"].data), maxTickRecord)
	t.Logf("%d bytes", len(server.nodes["/lk/ticks/job"].data))
}

func TestAllJobsAreListedByName(t *testing.T) {
	server := newTickServer()
	a, _ := server.ledger("a")
	none, _, err := a.States(t.Context())
	require.NoError(t, err)
	require.Empty(t, none)
	for _, job := range []string{"b", "a/x", "c"} {
		_, err := a.Claim(t.Context(), job, at(1), Ask{})
		require.NoError(t, err)
	}
	states, _, err := a.States(t.Context())
	require.NoError(t, err)
	require.Len(t, states, 3)
	for i, job := range []string{"a/x", "b", "c"} {
		require.Equal(t, job, states[i].Job)
		require.True(t, states[i].Runs[0].Alive)
	}
}

func TestAChangeOfTheRecordAndADeathEndTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newTickServer()
		a, session := server.ledger("a")
		b, _ := server.ledger("b")
		states := make(chan State)
		go func() {
			defer close(states)
			var seen State
			for {
				s, err := b.Await(t.Context(), "job", seen)
				if err != nil {
					return
				}
				states <- s
				seen = s
			}
		}()
		synctest.Wait() // the job is not known yet

		run := claimed(t, a, at(1))
		s := <-states
		for len(s.Runs) == 0 { // as it was founded
			s = <-states
		}
		require.True(t, s.Runs[0].Alive)
		server.expire(session)
		require.False(t, (<-states).Runs[0].Alive)
		ended(t, a, run, Ran)
		s = <-states
		require.Equal(t, Ran, s.Result(run.ID).Outcome)
		require.Nil(t, s.Result("another"))
	})
}

// --- speed --------------------------------------------------------------------

func TestTheLastWinnerClaimsAndFinishesWithOneRequestEach(t *testing.T) {
	server := newTickServer()
	server.now = time.Now().Add(-time.Hour)
	a, session := server.ledger("a")
	b, other := server.ledger("b")
	count := func(s *tickSession, f func()) int64 {
		before := s.requests.Load()
		f()
		return s.requests.Load() - before
	}
	begin := time.Now().Truncate(time.Second).Add(-1000 * time.Second)
	instant := func(n int) time.Time { return begin.Add(time.Duration(n) * time.Second) }
	ended(t, a, claimed(t, a, instant(0)), Ran)

	// the one that won last
	var run Run
	for n := 1; n < 4; n++ {
		require.EqualValues(t, 1, count(session, func() { run = claimed(t, a, instant(n)) }))
		require.EqualValues(t, 1, count(session, func() { ended(t, a, run, Ran) }))
	}
	// what is known to be decided
	require.Zero(t, count(session, func() {
		require.Equal(t, Taken, ask(t, a, instant(3), SkipOverlap, 0).Verdict)
	}))
	// another one looks
	require.EqualValues(t, 2, count(other, func() { run = claimed(t, b, instant(4)) }))
	// the one that is too late tries in vain, looks, and does not try blindly again
	require.EqualValues(t, 2, count(session, func() {
		require.Equal(t, Taken, ask(t, a, instant(4), SkipOverlap, 0).Verdict)
	}))
	require.EqualValues(t, 3, count(session, func() { // the record, who lives, the skip
		require.Equal(t, Overlap, ask(t, a, instant(5), SkipOverlap, 0).Verdict)
	}))
	// the run was not alone with the record: its end takes a look more
	require.EqualValues(t, 4, count(other, func() { ended(t, b, run, Ran) }))
}

func TestADecidedTickIsLookedUpWhileAFailedCallMayHaveClaimedIt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := newTickServer()
	server.now = time.Now().Add(-time.Hour)
	instant := time.Now().Truncate(time.Second).Add(-time.Minute)
	a, session := server.ledger("a")
	session.giveUp = cancel
	session.next(0, late)
	_, err := a.Claim(ctx, "job", instant, Ask{})
	require.Error(t, err)
	_, err = a.Begin(t.Context(), "job", instant) // learns the last instant, and settles nothing
	require.NoError(t, err)

	require.Equal(t, Claimed, ask(t, a, instant, SkipOverlap, 0).Verdict)
}

func TestAClockThatWasAheadIsNotRemembered(t *testing.T) {
	server := newTickServer()
	a, _ := server.ledger("a")
	future := time.Now().Add(time.Hour).Truncate(time.Second)
	ended(t, a, claimed(t, a, future), Ran)
	server.mu.Lock()
	delete(server.nodes, "/lk/ticks/job") // by an operator
	server.mu.Unlock()
	require.Equal(t, Claimed, ask(t, a, future.Add(-time.Hour), SkipOverlap, 0).Verdict)
}

func TestWhatIsRememberedOfManyJobsIsSmall(t *testing.T) {
	// given a job with a long history
	server := newTickServer()
	a, session := server.ledger("a")
	for n := range 50 {
		ended(t, a, claimed(t, a, at(n)), Ran)
	}
	full := len(server.nodes["/lk/ticks/job"].data)
	require.Equal(t, full, a.plain)

	// when there are so many that it does not find room any more
	a.plain += maxPlain
	run := claimed(t, a, at(50))
	require.False(t, a.jobs["job"].packed) // the next write is near
	ended(t, a, run, Ran)

	// then it is packed, and as good
	require.True(t, a.jobs["job"].packed)
	require.Less(t, len(a.jobs["job"].data), full/2)
	require.Equal(t, maxPlain, a.plain)
	before := session.requests.Load()
	ended(t, a, claimed(t, a, at(51)), Ran)
	require.EqualValues(t, 2, session.requests.Load()-before)
	t.Logf("%d bytes are remembered as %d", full, len(a.jobs["job"].data))
}

func TestAReasonThatIsNoTextIsShortenedLikeOthers(t *testing.T) {
	server := newTickServer()
	l, _ := server.ledger("a")
	run := claimed(t, l, at(1))
	require.NoError(t, finish(t.Context(), l, run, End{Outcome: Failed, Reason: strings.Repeat("\x80", 400)}))
	require.LessOrEqual(t, len(latest(t, l).Reason), 3*(maxTickedReason+1))
	require.Equal(t, "ä…", words.Clip("äöü", 3))
}

func TestSkipsOfDifferentFreezesAreEntriesOfTheirOwn(t *testing.T) {
	server := newTickServer()
	a, _ := server.ledger("a")
	for i, detail := range []string{"frozen by override INC-7", "frozen by override INC-7", "frozen by override INC-8", ""} {
		run := claimed(t, a, at(i+1))
		_, err := a.Finish(t.Context(), run, End{Outcome: Skipped, Reason: "lock", Detail: detail})
		require.NoError(t, err)
	}
	s := state(t, a)
	require.Equal(t, map[string]int64{"lock": 4}, s.Counts.Skipped)
	require.Len(t, s.History, 3)
	require.EqualValues(t, 2, s.History[0].Count)
	require.Equal(t, "frozen by override INC-7", s.History[0].Detail)
	require.Equal(t, "frozen by override INC-8", s.History[1].Detail)
	require.Empty(t, s.History[2].Detail)
}

func TestAWaitingTickWhoseClaimLostItsReplyWaitsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given a reply that came too late
		server := newTickServer()
		a, session := server.ledger("a")
		run := ask(t, a, at(1), BufferOverlap, 1).Run
		ask(t, a, at(2), BufferOverlap, 1)
		ended(t, a, run, Ran)
		session.next(0, late)
		_, err := a.ClaimWaiting(soon(t), "job", 1)
		require.Error(t, err)
		require.Len(t, state(t, a).Runs, 1)

		// when
		next := ask(t, a, at(3), BufferOverlap, 2)

		// then
		require.Equal(t, Buffered, next.Verdict)
		require.Equal(t, []time.Time{at(2), at(3)}, state(t, a).Waiting)
		require.Empty(t, server.markers())
		require.Equal(t, at(2), waiting(t, a).Run.Instant)
	})
}

func TestATickThatIsOnlyReportedKeepsAClaimThatLostItsReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given a claim whose reply came too late, and a run by hand beside it
		server := newTickServer()
		a, session := server.ledger("a")
		b, _ := server.ledger("b")
		session.next(0, late)
		_, err := a.Claim(soon(t), "job", at(1), Ask{OnOverlap: TellOverlap})
		require.Error(t, err)
		handle, err := b.Request(t.Context(), Request{Job: "job"})
		require.NoError(t, err)
		manual, err := b.ClaimRequest(t.Context(), Request{ID: handle.ID(), Job: "job"}, 2)
		require.NoError(t, err)
		require.Equal(t, Claimed, manual.Verdict)

		// when
		told := ask(t, a, at(1), TellOverlap, 0)
		require.Equal(t, Overlap, told.Verdict)
		require.Len(t, state(t, a).Runs, 2)
		ended(t, b, manual.Run, Ran)

		// then the claim is still available
		ended(t, a, ask(t, a, at(1), TellOverlap, 0).Run, Ran)
		require.Equal(t, Counts{Ran: 2}, state(t, a).Counts)
	})
}
