package ticks

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

// clocked is a ledger whose ZooKeeper has a clock that the test sets.
func clocked(t *testing.T, now *time.Time) (*Ledger, *tickServer, *tickSession) {
	t.Helper()
	server := newTickServer()
	server.now = *now
	l, session := server.ledger("a")
	session.clock = func() time.Time { return *now }
	return l, server, session
}

// Given a process whose clock is ahead, when it decides ticks that are still to
// come by ZooKeeper's clock, then the error says by how much, and nothing is
// recorded.
func TestAFutureTickIsNotDecided(t *testing.T) {
	now := at(0)
	l, _, session := clocked(t, &now)
	day := 24 * time.Hour
	decide := map[string]func(instant time.Time) error{
		"begin": func(instant time.Time) error { _, err := l.Begin(t.Context(), "job", instant); return err },
		"claim": func(instant time.Time) error { _, err := l.Claim(t.Context(), "job", instant, Ask{}); return err },
		"skip": func(instant time.Time) error {
			_, err := l.RecordSkip(t.Context(), "job", "blackout", at(0), instant)
			return err
		},
		"missed": func(instant time.Time) error {
			_, _, err := l.RecordMissed(t.Context(), "job", "missed", Span{First: at(1), Last: instant, Count: 86400})
			return err
		},
	}
	for name, decide := range decide {
		t.Run(name, func(t *testing.T) {
			writes := session.requests.Load()
			err := decide(now.Add(day))
			var early *EarlyError
			require.ErrorAs(t, err, &early)
			require.Equal(t, "job", early.Job)
			require.Equal(t, now.Add(day), early.Instant)
			require.Equal(t, day-Tolerance, early.By)
			require.ErrorContains(t, err, "set this machine's clock right")
			require.Equal(t, writes, session.requests.Load(), "nothing is asked for")
			require.Empty(t, state(t, l).History)
		})
	}
	// what clocks that are kept right may differ by is no reason
	require.Equal(t, Claimed, ask(t, l, now.Add(Tolerance), SkipOverlap, 0).Verdict)
	// and a run by hand is none of the schedule's business
	manual, err := l.ClaimRequest(t.Context(), Request{ID: znode.NewGUID(), Job: "job", At: now.Add(day)}, 1)
	require.NoError(t, err)
	require.Equal(t, Taken, manual.Verdict) // there is no such request
}

func TestRunSaysHowFarTheClockOfItsMachineIsOff(t *testing.T) {
	now := at(0)
	l, _, _ := clocked(t, &now)
	claim, err := l.Claim(t.Context(), "job", at(0), Ask{ClockAhead: -90 * time.Second})
	require.NoError(t, err)
	require.Equal(t, -90*time.Second, claim.Run.ClockAhead)
	ended(t, l, claim.Run, Ran)
	require.Equal(t, -90*time.Second, latest(t, l).ClockAhead)
	now = at(1)
	claim, err = l.Claim(t.Context(), "job", at(1), Ask{ClockAhead: Tolerance})
	require.NoError(t, err)
	require.Zero(t, claim.Run.ClockAhead, "that is nothing to tell of")
}

// --- set back -----------------------------------------------------------------

// poisoned is a job that daemons have run each second, the last ones by a clock that
// was ahead: as an older version has left it.
func poisoned(t *testing.T, right, early int, ahead time.Duration) (l *Ledger, now *time.Time, ran map[time.Time]bool) {
	t.Helper()
	now, ran = new(at(0)), map[time.Time]bool{}
	l, server, session := clocked(t, now)
	run := func(instant time.Time) {
		session.clock = nil // an older version has no guard
		run := claimed(t, l, instant)
		ended(t, l, run, Ran)
		ran[instant] = true
		session.clock = func() time.Time { return *now }
	}
	for i := range right + early {
		*now = at(i)
		server.now = now.Add(-time.Second) // each write takes a second
		if i < right {
			run(at(i))
		} else {
			run(at(i).Add(ahead))
		}
	}
	return l, now, ran
}

// goesOn runs all ticks of the job from an instant until an end, and checks that
// none runs twice. It returns how many were left out.
func goesOn(t *testing.T, l *Ledger, now *time.Time, until time.Time, ran map[time.Time]bool) (leftOut int) {
	t.Helper()
	for at := now.Truncate(time.Second).Add(time.Second); !at.After(until); at = at.Add(time.Second) {
		*now = at
		claim, err := l.Claim(t.Context(), "job", at, Ask{})
		require.NoError(t, err)
		if claim.Verdict == LeftOut {
			leftOut++
			continue
		}
		require.Equal(t, Claimed, claim.Verdict, at)
		require.False(t, ran[at], "%s runs twice", at)
		ran[at] = true
		ended(t, l, claim.Run, Ran)
	}
	return leftOut
}

func TestMarkThatIsAheadIsSetBackAndNoTickRunsTwice(t *testing.T) {
	const ahead = 4 * time.Minute
	cases := []struct {
		name         string
		right, early int
		since        int // second in which the clock went wrong; -1: not said
		leftOut      int
		forgotten    bool
	}{
		{"the history has all", 10, 7, -1, 7, false},
		{"of a job that is new", 0, 7, -1, 7, false},
		{"the history has forgotten some", 20, 100, -1, 100 + 240 - 100, true}, // from now on, up to the newest
		{"and the operator knows since when", 20, 100, 20, 160, true},          // a minute more than have run
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			// given
			l, now, ran := poisoned(t, c.right, c.early, ahead)
			s := state(t, l)
			require.Greater(t, s.Ahead, ahead-time.Minute)
			require.Equal(t, Taken, ask(t, l, *now, SkipOverlap, 0).Verdict, "nothing runs")

			// when
			how := Rewind{DryRun: true}
			if c.since >= 0 {
				how.Since = at(c.since)
			}
			would, err := l.Rewind(t.Context(), "job", how)
			require.NoError(t, err)
			require.Equal(t, s.Last, state(t, l).Last, "it was a dry run")
			how.DryRun = false
			done, err := l.Rewind(t.Context(), "job", how)
			require.NoError(t, err)

			// then
			require.Equal(t, would, done)
			require.Equal(t, s.Last, done.From)
			require.Equal(t, *now, done.To)
			require.Equal(t, c.forgotten, done.Forgotten)
			s = state(t, l)
			require.Zero(t, s.Ahead)
			require.Equal(t, done.LeftOut, s.LeftOut)
			again, err := l.Rewind(t.Context(), "job", how)
			require.NoError(t, err)
			require.Equal(t, Rewound{Job: "job"}, again, "there is nothing more to do")

			leftOut := goesOn(t, l, now, now.Add(ahead+time.Minute), ran)
			require.InDelta(t, c.leftOut, leftOut, 2)
			s = state(t, l)
			require.EqualValues(t, leftOut, s.Counts.Skipped[ReasonEarly])
			require.Empty(t, s.LeftOut)
		})
	}
}

// Given a job that was set back by an operator who did not say since when, and
// so leaves out all ticks up to the mark, when an operator says it, then those
// that cannot have run do.
func TestJobThatLeavesOutTooManyTicksIsSetBackAgain(t *testing.T) {
	const ahead = 4 * time.Minute
	l, now, ran := poisoned(t, 20, 100, ahead)
	_, err := l.Rewind(t.Context(), "job", Rewind{})
	require.NoError(t, err)
	require.Equal(t, *now, state(t, l).LeftOut[0].After, "all from now on")

	would, err := l.Rewind(t.Context(), "job", Rewind{Since: at(20), DryRun: true})
	require.NoError(t, err)
	require.Equal(t, *now, state(t, l).LeftOut[0].After, "it was a dry run")
	done, err := l.Rewind(t.Context(), "job", Rewind{Since: at(20)})
	require.NoError(t, err)
	require.Equal(t, would, done)
	require.Equal(t, done.From, done.To)
	require.Equal(t, done.LeftOut, state(t, l).LeftOut)
	again, err := l.Rewind(t.Context(), "job", Rewind{Since: at(20)})
	require.NoError(t, err)
	require.Equal(t, Rewound{Job: "job"}, again, "there is nothing more to do")

	require.InDelta(t, 160, goesOn(t, l, now, now.Add(ahead+time.Minute), ran), 2)
	require.Empty(t, state(t, l).LeftOut)
}

// Given a ledger that remembers a mark that is ahead, when another one sets it back, then the first one asks again.
func TestMarkThatAnotherLedgerHasSetBackIsNotRemembered(t *testing.T) {
	now := at(0)
	l, server, session := clocked(t, &now)
	session.clock = nil // an older version has no guard
	ended(t, l, claimed(t, l, at(0).Add(time.Hour)), Ran)
	session.clock = func() time.Time { return now }
	require.Equal(t, Taken, ask(t, l, at(0), SkipOverlap, 0).Verdict)

	other, its := server.ledger("b")
	its.clock = session.clock
	_, err := other.Rewind(t.Context(), "job", Rewind{})
	require.NoError(t, err)
	now = at(1)
	require.Equal(t, Claimed, ask(t, l, at(1), SkipOverlap, 0).Verdict)
}

// Given stretches to leave out, then a program that does not know them refuses the
// record, and takes it again when they have passed.
func TestRecordThatLeavesTicksOutHasANewerFormat(t *testing.T) {
	l, now, ran := poisoned(t, 3, 2, time.Minute)
	format := func() error {
		data, _, err := l.store.Get(t.Context(), "/lk/ticks/job")
		require.NoError(t, err)
		var r tickRecord
		first, _, _ := bytes.Cut(data, []byte{'\n'})
		return znode.Decode(first, &r, &r.Format)
	}
	require.NoError(t, format())
	_, err := l.Rewind(t.Context(), "job", Rewind{})
	require.NoError(t, err)
	require.ErrorContains(t, format(), "has format 2, this program knows 1; upgrade it")
	require.Equal(t, 2, goesOn(t, l, now, now.Add(2*time.Minute), ran))
	require.NoError(t, format())
}

func TestRewindLeavesOutWhatStillRunsAndDropsWhatWaits(t *testing.T) {
	now := at(0)
	l, _, session := clocked(t, &now)
	session.clock = nil
	early := ask(t, l, at(100), BufferOverlap, 1)
	require.Equal(t, Buffered, ask(t, l, at(101), BufferOverlap, 1).Verdict)
	session.clock = func() time.Time { return now }

	session.next(0, lostAfter)
	done, err := l.Rewind(t.Context(), "job", Rewind{})
	require.NoError(t, err)
	require.Equal(t, []Stretch{{at(100).Add(-1), at(100)}}, done.LeftOut)
	require.Empty(t, state(t, l).Waiting)
	ended(t, l, early.Run, Ran)

	now = at(100)
	require.Equal(t, LeftOut, ask(t, l, at(100), BufferOverlap, 1).Verdict)
	now = at(101)
	require.Equal(t, Claimed, ask(t, l, at(101), BufferOverlap, 1).Verdict)
}

func TestRewindSinceATimeToComeIsRefused(t *testing.T) {
	now := at(0)
	l, _, _ := clocked(t, &now)
	_, err := l.Rewind(t.Context(), "job", Rewind{Since: at(60)})
	require.ErrorContains(t, err, "since: 2026-11-21T12:01:00Z is still to come")
}
