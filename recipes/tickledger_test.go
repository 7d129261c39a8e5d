package recipes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestATickIsClaimedOnceAndInOrder(t *testing.T) {
	server := newTickServer()
	a, _ := server.ledger("a")
	b, _ := server.ledger("b")
	run := claimed(t, a, at(1))
	require.NoError(t, finish(t.Context(), a, run, TickEnd{Outcome: TickRan, Token: 7}))

	for _, instant := range []time.Time{at(1), at(0), at(1).In(time.FixedZone("", 3600))} {
		claim, err := b.Claim(t.Context(), "job", instant, TickAsk{})
		require.NoError(t, err)
		require.Equal(t, TickTaken, claim.Verdict)
	}
	require.NoError(t, finish(t.Context(), b, claimed(t, b, at(2)), TickEnd{Outcome: TickFailed, Reason: "no disk"}))

	s := state(t, a)
	require.Equal(t, at(2), s.Last)
	require.Empty(t, s.Runs)
	require.Equal(t, TickEnd{Outcome: TickFailed, Reason: "no disk"}, s.Latest().TickEnd)
	require.Equal(t, at(2), s.Latest().Instant)
	require.Equal(t, "b", s.Latest().Owner)
	require.Equal(t, TickCounts{Ran: 1, Failed: 1}, s.Counts)
	require.Empty(t, server.markers())
}

func TestTimesAreTheServersAndStayWhenOthersWrite(t *testing.T) {
	server := newTickServer()
	a, _ := server.ledger("a")
	run := claimed(t, a, at(1))
	claimedAt := run.ClaimedAt
	require.Equal(t, time.Unix(1_000_001, 0), claimedAt)
	_, err := a.RecordSkip(t.Context(), "job", "missed", at(2)) // another write meanwhile
	require.NoError(t, err)
	require.NoError(t, finish(t.Context(), a, run, TickEnd{Outcome: TickRan}))
	endedAt := time.Unix(1_000_003, 0)

	require.True(t, latest(t, a).EndedAt.Equal(endedAt))
	claimed(t, a, at(3)) // does not move the end of the one before
	s := state(t, a)
	require.True(t, s.Latest().EndedAt.Equal(endedAt))
	require.True(t, s.Latest().ClaimedAt.Equal(claimedAt))
	require.True(t, s.Runs[0].ClaimedAt.Equal(time.Unix(1_000_004, 0)))
}

func TestATickThatFindsThePreviousRunAliveIsSkipped(t *testing.T) {
	server := newTickServer()
	a, _ := server.ledger("a")
	b, _ := server.ledger("b")
	run := claimed(t, a, at(1))

	claim, err := b.Claim(t.Context(), "job", at(2), TickAsk{})
	require.NoError(t, err)
	require.Equal(t, TickOverlap, claim.Verdict)
	require.Equal(t, "a", claim.Run.Owner)
	claim, err = a.Claim(t.Context(), "job", at(2), TickAsk{})
	require.NoError(t, err)
	require.Equal(t, TickTaken, claim.Verdict)

	require.NoError(t, finish(t.Context(), a, run, TickEnd{Outcome: TickRan}))
	require.Equal(t, TickCounts{Ran: 1, Skipped: map[string]int64{TickReasonOverlap: 1}}, state(t, a).Counts)
	claimed(t, b, at(3))
}

func TestAnOverlapCanBeWaitedFor(t *testing.T) {
	server := newTickServer()
	a, _ := server.ledger("a")
	run := claimed(t, a, at(1))
	claim, err := a.Claim(t.Context(), "job", at(2), TickAsk{OnOverlap: TellOverlap})
	require.NoError(t, err)
	require.Equal(t, TickOverlap, claim.Verdict)
	require.Equal(t, run.ID, claim.Run.ID)
	require.Equal(t, at(1), state(t, a).Last)
	require.NoError(t, finish(t.Context(), a, run, TickEnd{Outcome: TickRan}))
	claim, err = a.Claim(t.Context(), "job", at(2), TickAsk{OnOverlap: TellOverlap})
	require.NoError(t, err)
	require.Equal(t, TickClaimed, claim.Verdict)
}

func TestARunWhoseProcessDiedIsRecordedAsInterruptedByTheNextClaimant(t *testing.T) {
	server := newTickServer()
	a, sessionA := server.ledger("a")
	b, _ := server.ledger("b")
	dead := claimed(t, a, at(1))
	server.expire(sessionA)
	require.False(t, state(t, b).Runs[0].Alive)

	claim, err := b.Claim(t.Context(), "job", at(2), TickAsk{})
	require.NoError(t, err)
	require.Equal(t, TickClaimed, claim.Verdict)
	require.Equal(t, dead.ID, claim.Interrupted[0].ID)
	s := state(t, b)
	require.Equal(t, TickInterrupted, s.Latest().Outcome)
	require.EqualValues(t, 1, s.Counts.Interrupted)

	// It lives after all: it must hear of it, and change nothing.
	_, err = a.Finish(t.Context(), dead, TickEnd{Outcome: TickRan})
	require.ErrorAs(t, err, new(*TickInterruptedError))
	require.Equal(t, s, state(t, b))
	require.NoError(t, finish(t.Context(), b, claim.Run, TickEnd{Outcome: TickRan}))
	_, err = a.Finish(t.Context(), dead, TickEnd{Outcome: TickRan})
	require.ErrorAs(t, err, new(*TickInterruptedError))
	require.EqualValues(t, 2, state(t, b).Counts.Total())
}

func TestARunThatEndsDuringALookIsNotTakenForDead(t *testing.T) {
	server := newTickServer()
	a, _ := server.ledger("a")
	b, looking := server.ledger("b")
	run := claimed(t, a, at(1))

	looking.onList = func() { require.NoError(t, finish(t.Context(), a, run, TickEnd{Outcome: TickRan})) }
	s := state(t, b)
	require.Empty(t, s.Runs)
	require.Equal(t, TickRan, s.Latest().Outcome)
}

func TestARunThatLostItsSessionFinishesIfNobodyHasNoticed(t *testing.T) {
	server := newTickServer()
	a, session := server.ledger("a")
	run := claimed(t, a, at(1))
	server.expire(session)
	require.NoError(t, finish(t.Context(), a, run, TickEnd{Outcome: TickRan}))
	require.Equal(t, TickCounts{Ran: 1}, state(t, a).Counts)
}

func TestAManualRunTakesNoTick(t *testing.T) {
	server := newTickServer()
	a, _ := server.ledger("a")
	claim, err := a.ClaimManual(t.Context(), "job", at(5))
	require.NoError(t, err)
	require.Equal(t, TickClaimed, claim.Verdict)
	require.True(t, claim.Run.Manual)

	again, err := a.ClaimManual(t.Context(), "job", at(6))
	require.NoError(t, err)
	require.Equal(t, TickOverlap, again.Verdict)
	tick, err := a.Claim(t.Context(), "job", at(1), TickAsk{})
	require.NoError(t, err)
	require.Equal(t, TickOverlap, tick.Verdict)

	require.NoError(t, finish(t.Context(), a, claim.Run, TickEnd{Outcome: TickRan}))
	claimed(t, a, at(2))
}

func TestSkipsAreRecordedOnceAndOnlyForUndecidedInstants(t *testing.T) {
	server := newTickServer()
	a, session := server.ledger("a")
	require.NoError(t, finish(t.Context(), a, claimed(t, a, at(2)), TickEnd{Outcome: TickRan}))

	session.next(0, lostAfter)
	n, err := a.RecordSkip(t.Context(), "job", "missed", at(1), at(2), at(3), at(4))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	n, err = a.RecordSkip(t.Context(), "job", "missed", at(3), at(4))
	require.NoError(t, err)
	require.Zero(t, n)
	s := state(t, a)
	require.Equal(t, at(4), s.Last)
	require.Equal(t, TickCounts{Ran: 1, Skipped: map[string]int64{"missed": 2}}, s.Counts)
	require.Equal(t, TickEnd{Outcome: TickSkipped, Reason: "missed"}, s.Latest().TickEnd)
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
		claim, err := a.Claim(t.Context(), "job", at(2), TickAsk{})
		require.NoError(t, err)
		require.Equal(t, TickOverlap, claim.Verdict)

		b, other := server.ledger("b") // which has no run there itself
		other.next(0, f)
		claim, err = b.Claim(t.Context(), "job", at(3), TickAsk{})
		require.NoError(t, err)
		require.Equal(t, TickOverlap, claim.Verdict)

		session.next(0, f)
		require.NoError(t, finish(t.Context(), a, run, TickEnd{Outcome: TickRan}))
		require.Empty(t, server.markers())
		require.Equal(t, TickCounts{Ran: 1, Skipped: map[string]int64{TickReasonOverlap: 2}}, state(t, a).Counts)
	}
}

func TestAClaimThatFailedInTheCallerIsAdoptedWhenItIsRepeated(t *testing.T) {
	for _, f := range []fault{down, late} {
		for _, expired := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				server := newTickServer()
				a, session := server.ledger("a")
				session.next(0, f)
				_, err := a.Claim(soon(t), "job", at(1), TickAsk{})
				require.ErrorIs(t, err, context.DeadlineExceeded)
				if expired {
					server.expire(session)
				}
				run := claimed(t, a, at(1))
				require.Len(t, server.markers(), 1)
				require.NoError(t, finish(t.Context(), a, run, TickEnd{Outcome: TickRan}))
				require.Equal(t, TickCounts{Ran: 1}, state(t, a).Counts)
				require.Empty(t, server.markers())
			})
		}
	}
}

func TestAClaimThatCameTooLateBlocksNobody(t *testing.T) {
	cases := map[string]func(t *testing.T, l *TickLedger){
		"the next claim": func(t *testing.T, l *TickLedger) {
			require.NoError(t, finish(t.Context(), l, claimed(t, l, at(2)), TickEnd{Outcome: TickRan}))
		},
		"a claim of something older": func(t *testing.T, l *TickLedger) {
			claim, err := l.Claim(t.Context(), "job", at(0), TickAsk{})
			require.NoError(t, err)
			require.Equal(t, TickTaken, claim.Verdict)
		},
		"its skip": func(t *testing.T, l *TickLedger) {
			n, err := l.RecordSkip(t.Context(), "job", TickReasonUndecided, at(1))
			require.NoError(t, err)
			require.Equal(t, 1, n)
		},
		"another skip": func(t *testing.T, l *TickLedger) {
			_, err := l.RecordSkip(t.Context(), "job", "missed", at(2))
			require.NoError(t, err)
		},
		"a manual run": func(t *testing.T, l *TickLedger) {
			claim, err := l.ClaimManual(t.Context(), "job", at(1))
			require.NoError(t, err)
			require.NoError(t, finish(t.Context(), l, claim.Run, TickEnd{Outcome: TickRan}))
		},
	}
	for name, then := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newTickServer()
				a, session := server.ledger("a")
				session.next(0, late)
				_, err := a.Claim(soon(t), "job", at(1), TickAsk{})
				require.Error(t, err)
				require.Len(t, server.markers(), 1)

				then(t, a)
				require.Empty(t, server.markers())
				s := state(t, a)
				require.Empty(t, s.Runs)
				require.EqualValues(t, 1, s.Counts.Skipped[TickReasonUndecided])
			})
		})
	}
}

func TestAnEndThatFailedInTheCallerIsRecordedOnceWhenItIsRepeated(t *testing.T) {
	for _, f := range []fault{down, late} {
		synctest.Test(t, func(t *testing.T) {
			server := newTickServer()
			a, session := server.ledger("a")
			b, _ := server.ledger("b")
			run := claimed(t, a, at(1))
			session.next(0, f)
			require.Error(t, finish(soon(t), a, run, TickEnd{Outcome: TickRan}))
			if f == late { // and somebody has gone on
				require.NoError(t, finish(t.Context(), b, claimed(t, b, at(2)), TickEnd{Outcome: TickRan}))
			}
			require.NoError(t, finish(t.Context(), a, run, TickEnd{Outcome: TickRan}))
			require.Zero(t, state(t, a).Counts.Interrupted)
			require.Equal(t, state(t, a).Counts.Ran, state(t, a).Counts.Total())
		})
	}
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
		claim, err := b.Claim(t.Context(), "job", at(2), TickAsk{})
		require.NoError(t, err)
		require.Equal(t, TickTaken, claim.Verdict)
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
	_, claim := l.Claim(ctx, "job", at(1), TickAsk{})
	_, begin := l.Begin(ctx, "job", at(1))
	_, skip := l.RecordSkip(ctx, "job", "missed", at(1))
	for _, err := range []error{claim, begin, skip} {
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorAs(t, err, new(*UnavailableError))
		require.ErrorContains(t, err, "ZooKeeper at zk1:2181 does not answer since 1s")
	}
}

func TestARecordOfANewerProgramIsLeftAlone(t *testing.T) {
	server := newTickServer()
	a, session := server.ledger("a")
	_, err := session.create(t.Context(), "/lk/ticks/job", []byte(`{"format":2}`), 0)
	require.NoError(t, err)
	_, err = a.Claim(t.Context(), "job", at(1), TickAsk{})
	require.ErrorContains(t, err, "format 2")
	require.Equal(t, `{"format":2}`, string(server.nodes["/lk/ticks/job"].data))
}

func TestJobNamesAreEscapedAndChecked(t *testing.T) {
	server := newTickServer()
	a, _ := server.ledger("a")
	_, err := a.Claim(t.Context(), "team/nightly", at(1), TickAsk{})
	require.NoError(t, err)
	require.True(t, server.has("/lk/ticks/team%2Fnightly"))

	_, err = a.Claim(t.Context(), "", at(1), TickAsk{})
	var bad *RequestError
	require.ErrorAs(t, err, &bad)
	require.Equal(t, "job", bad.Field)
	unknown, err := a.State(t.Context(), "unknown")
	require.NoError(t, err)
	require.Equal(t, TickState{Job: "unknown"}, unknown)
}

func TestALongReasonIsShortened(t *testing.T) {
	server := newTickServer()
	a, _ := server.ledger("a")
	run := claimed(t, a, at(1))
	require.NoError(t, finish(t.Context(), a, run, TickEnd{Outcome: TickFailed, Reason: strings.Repeat("ü", 10_000)}))
	require.Less(t, len(latest(t, a).Reason), 310)
}

// Several processes decide the same instants in order, each with its own
// faults; whatever happens, each instant ends exactly once and nothing is left.
func TestEveryTickEndsOnceWhateverIsLost(t *testing.T) {
	const processes, instants = 4, 150
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			server := newTickServer()
			var mu sync.Mutex
			starts := map[time.Time]int{}
			var wg sync.WaitGroup
			for p := range processes {
				wg.Go(func() {
					random := rand.New(rand.NewPCG(seed, uint64(p)))
					ledger, session := server.ledger(fmt.Sprint(p))
					session.fault = func() fault {
						if n := random.IntN(10); n <= int(late) {
							return fault(n)
						}
						return none
					}
					for i := 1; i <= instants; i++ {
						if random.IntN(40) == 0 {
							server.expire(session)
						}
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+random.IntN(4))*time.Millisecond)
						claim, err := ledger.Claim(ctx, "job", at(i), TickAsk{})
						cancel()
						if err != nil && random.IntN(2) == 0 { // once more
							ctx, cancel := context.WithTimeout(t.Context(), 3*time.Millisecond)
							claim, err = ledger.Claim(ctx, "job", at(i), TickAsk{})
							cancel()
						}
						if err != nil {
							for {
								ctx, cancel := context.WithTimeout(t.Context(), 3*time.Millisecond)
								_, err := ledger.RecordSkip(ctx, "job", TickReasonUndecided, at(i))
								cancel()
								if err == nil {
									break
								}
							}
							continue
						}
						if claim.Verdict != TickClaimed {
							continue
						}
						mu.Lock()
						starts[at(i)]++
						mu.Unlock()
						if random.IntN(20) == 0 { // in the middle of the run
							server.expire(session)
						}
						for {
							ctx, cancel := context.WithTimeout(t.Context(), 3*time.Millisecond)
							_, err := ledger.Finish(ctx, claim.Run, TickEnd{Outcome: TickRan})
							cancel()
							if err == nil || errors.As(err, new(*TickInterruptedError)) {
								break
							}
						}
					}
				})
			}
			wg.Wait()
			for instant, n := range starts {
				require.Equal(t, 1, n, "seed %d: %s started %d times", seed, instant, n)
			}
			ledger, _ := server.ledger("reader")
			s := state(t, ledger)
			require.Empty(t, s.Runs, "seed %d", seed)
			require.Empty(t, server.markers(), "seed %d", seed)
			require.EqualValues(t, instants, s.Counts.Total(), "seed %d: %+v", seed, s.Counts)
			require.NotEmpty(t, starts)
		})
	}
}
