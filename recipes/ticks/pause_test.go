package ticks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAPausedJobSkipsItsTicksButNotManualRuns(t *testing.T) {
	for _, f := range []fault{none, lostBefore, lostAfter} {
		// given
		server := newTickServer()
		a, session := server.ledger("a")
		session.next(0, f)
		was, err := a.Pause(t.Context(), "job", Pause{By: "ann", Reason: "migration", Until: at(3)})
		require.NoError(t, err)
		require.Nil(t, was)

		// when
		for _, on := range []OnOverlap{SkipOverlap, TellOverlap} {
			session.next(0, f)
			claim := ask(t, a, at(1+int(on)), on, 0)
			require.Equal(t, Paused, claim.Verdict)
			require.Equal(t, "migration", claim.Paused.Reason)
		}
		manual, err := a.ClaimManual(t.Context(), "job", at(2))
		require.NoError(t, err)
		require.Equal(t, Claimed, manual.Verdict)
		ended(t, a, manual.Run, Ran)

		// then
		s := state(t, a)
		require.Equal(t, "ann", s.Paused.By)
		require.Equal(t, at(3), s.Paused.Until)
		require.False(t, s.Paused.At.IsZero())
		require.Equal(t, map[string]int64{ReasonPaused: 2}, s.Counts.Skipped)
		require.Equal(t, Claimed, ask(t, a, at(3), SkipOverlap, 0).Verdict) // the pause is over
		require.Nil(t, state(t, a).Paused)
	}
}

func TestAJobIsResumedByHand(t *testing.T) {
	server := newTickServer()
	a, session := server.ledger("a")
	_, err := a.Pause(t.Context(), "job", Pause{By: "ann", Reason: "x"})
	require.NoError(t, err)
	was, err := a.Pause(t.Context(), "job", Pause{By: "bob", Reason: "y"})
	require.NoError(t, err)
	require.Equal(t, "ann", was.By)
	session.next(0, lostAfter)
	was, err = a.Resume(t.Context(), "job")
	require.NoError(t, err)
	require.Equal(t, "bob", was.By)
	was, err = a.Resume(t.Context(), "job")
	require.NoError(t, err)
	require.Nil(t, was)
	claimed(t, a, at(1))
}

func TestWaitingTicksGoOnWaitingWhileTheJobIsPaused(t *testing.T) {
	server := newTickServer()
	a, _ := server.ledger("a")
	run := ask(t, a, at(1), BufferOverlap, 1).Run
	ask(t, a, at(2), BufferOverlap, 1)
	ended(t, a, run, Ran)
	_, err := a.Pause(t.Context(), "job", Pause{By: "ann", Reason: "x"})
	require.NoError(t, err)

	claim := waiting(t, a)
	require.Equal(t, Paused, claim.Verdict)
	require.Equal(t, "ann", claim.Paused.By)
	require.Equal(t, 1, claim.Waiting)
	_, err = a.Resume(t.Context(), "job")
	require.NoError(t, err)
	require.Equal(t, at(2), waiting(t, a).Run.Instant)
}

func TestAJobIsPausedAfterFailuresInARowAndTriedOnceWhenThatIsOver(t *testing.T) {
	// given
	server := newTickServer()
	server.now = time.Now().Add(-time.Hour)
	begin := server.now.Truncate(time.Second).UTC()
	a, session := server.ledger("a")
	instant := func(n int) time.Time { return begin.Add(time.Duration(n) * time.Minute) }
	fail := func(n int) Finish {
		t.Helper()
		run := claimed(t, a, instant(n))
		session.next(0, lostAfter)
		f, err := a.Finish(t.Context(), run, End{Outcome: Failed, Reason: "no disk", PauseAfter: 2, PauseFor: 10 * time.Minute})
		require.NoError(t, err)
		return f
	}

	// when
	require.Nil(t, fail(1).Paused)
	ended(t, a, claimed(t, a, instant(2)), Preempted) // says nothing
	pause := fail(3).Paused

	// then
	require.NotNil(t, pause)
	require.Equal(t, "lockkeeper", pause.By)
	require.Equal(t, "2 runs in a row have failed, the last one with: no disk", pause.Reason)
	require.Equal(t, 10*time.Minute, pause.Until.Sub(pause.At))
	require.Equal(t, Paused, ask(t, a, instant(4), SkipOverlap, 0).Verdict)
	require.Equal(t, pause, state(t, a).Paused)

	// when the trial fails, it is paused again; when it runs, all is forgotten
	require.NotNil(t, fail(20).Paused)
	require.Equal(t, 3, state(t, a).Failures)
	require.Equal(t, Paused, ask(t, a, pause.Until.Add(-time.Minute), SkipOverlap, 0).Verdict.orTaken())
	ended(t, a, claimed(t, a, instant(50)), Ran)
	require.Zero(t, state(t, a).Failures)
	require.Nil(t, fail(51).Paused)
}

// orTaken is for ticks that are decided either way.
func (v Verdict) orTaken() Verdict {
	if v == Taken {
		return Paused
	}
	return v
}

func TestFailuresDoNotReplaceThePauseOfAPerson(t *testing.T) {
	server := newTickServer()
	a, _ := server.ledger("a")
	run := claimed(t, a, at(1))
	_, err := a.Pause(t.Context(), "job", Pause{By: "ann", Reason: "x"})
	require.NoError(t, err)
	f, err := a.Finish(t.Context(), run, End{Outcome: Failed, Reason: "no disk", PauseAfter: 1})
	require.NoError(t, err)
	require.Nil(t, f.Paused)
	require.Equal(t, "ann", state(t, a).Paused.By)
}
