// Package tickledger tests ticks.Ledger on a real ZooKeeper server and on
// the embedded one: see package testbed.
package tickledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

var shared testbed.Shared

func TestMain(m *testing.M) { os.Exit(shared.Main(m, func() error { return goleak.Find() })) }

const job = "team/nightly backup"

func tick(n int) time.Time {
	return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Second)
}

// connect returns a client that has a session.
func connect(f *harness.Fixture) *lock.Client {
	f.Helper()
	c := f.Client()
	require.NoError(f, c.Ready(f.Context()))
	return c
}

func claimed(t *testing.T, l *ticks.Ledger, instant time.Time) ticks.Run {
	t.Helper()
	claim, err := l.Claim(t.Context(), job, instant, ticks.Ask{})
	require.NoError(t, err)
	require.Equal(t, ticks.Claimed, claim.Verdict)
	return claim.Run
}

// finish is Finish for those who care about its error alone.
func finish(ctx context.Context, l *ticks.Ledger, run ticks.Run, end ticks.End) error {
	_, err := l.Finish(ctx, run, end)
	return err
}

func state(t *testing.T, l *ticks.Ledger) ticks.State {
	t.Helper()
	s, err := l.State(t.Context(), job)
	require.NoError(t, err)
	return s
}

func TestOfTwoDaemonsThatRaceForATickOneGetsIt(t *testing.T) {
	t.Parallel()
	const many = 300
	f := harness.New(t, shared.Server(t))
	var mu sync.Mutex
	won := make(map[time.Time]int)
	ledgers := []*ticks.Ledger{connect(f).TickLedger("a"), connect(f).TickLedger("b")}
	meet := make(chan struct{}) // each tick begins for both at once
	harness.Together(t, 2, func(ctx context.Context, i int) error {
		l := ledgers[i]
		for n := range many {
			select {
			case meet <- struct{}{}:
			case <-meet:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			claim, err := l.Claim(ctx, job, tick(n), ticks.Ask{OnOverlap: ticks.TellOverlap})
			for err == nil && claim.Verdict == ticks.Overlap { // the other one's last run
				claim, err = l.Claim(ctx, job, tick(n), ticks.Ask{OnOverlap: ticks.TellOverlap})
			}
			if err == nil && claim.Verdict == ticks.Claimed {
				mu.Lock()
				won[tick(n)]++
				mu.Unlock()
				err = finish(ctx, l, claim.Run, ticks.End{Outcome: ticks.Ran})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})

	require.Len(t, won, many)
	for instant, n := range won {
		require.Equal(t, 1, n, instant)
	}
	s := state(t, ledgers[0])
	require.Equal(t, ticks.Counts{Ran: many}, s.Counts)
	require.Equal(t, tick(many-1), s.Last)
	require.Empty(t, s.Runs)
}

func TestARunWhoseSessionIsKilledIsInterruptedOnlyIfSomebodyNotices(t *testing.T) {
	t.Parallel()
	f, began := harness.New(t, shared.Server(t)), time.Now().Truncate(time.Millisecond)
	client := connect(f)
	cut, other := client.TickLedger("cut off"), connect(f).TickLedger("other")

	// No component has noticed: it ends as if nothing had happened.
	run := claimed(t, cut, tick(1))
	f.Renewed(client)
	require.False(t, state(t, other).Runs[0].Alive)
	require.NoError(t, finish(t.Context(), cut, run, ticks.End{Outcome: ticks.Ran}))
	require.Equal(t, ticks.Counts{Ran: 1}, state(t, other).Counts)

	// The next claimant has: the run hears of it, and overwrites nothing.
	run = claimed(t, cut, tick(2))
	claim, err := other.Claim(t.Context(), job, tick(3), ticks.Ask{})
	require.NoError(t, err)
	require.Equal(t, ticks.Overlap, claim.Verdict)
	require.Equal(t, os.Getpid(), claim.Run.PID)
	f.Renewed(client)
	claim, err = other.Claim(t.Context(), job, tick(4), ticks.Ask{})
	require.NoError(t, err)
	require.Equal(t, ticks.Claimed, claim.Verdict)
	require.Equal(t, "cut off", claim.Interrupted[0].Owner)
	s := state(t, other)
	require.Equal(t, ticks.Interrupted, s.Latest().Outcome)
	require.Equal(t, tick(2), s.Latest().Instant)
	var interrupted *ticks.InterruptedError
	require.ErrorAs(t, finish(t.Context(), cut, run, ticks.End{Outcome: ticks.Ran}), &interrupted)
	require.Equal(t, job, interrupted.Job)
	s = state(t, other)
	require.Equal(t, claim.Run.ID, s.Runs[0].ID)
	require.True(t, s.Runs[0].Alive)
	require.NoError(t, finish(t.Context(), other, claim.Run, ticks.End{Outcome: ticks.Ran, Token: 7}))
	s = state(t, cut)
	require.Equal(t, ticks.Counts{Ran: 2, Interrupted: 1, Skipped: map[string]int64{ticks.ReasonOverlap: 1}}, s.Counts)
	require.Equal(t, lock.Token(7), s.Latest().Token)
	require.WithinRange(t, s.Latest().EndedAt, began, time.Now()) // one machine, one clock
	require.False(t, s.Latest().EndedAt.Before(s.Latest().ClaimedAt))
}

// Sessions end all the time while two daemons work through the same ticks.
func TestEveryTickEndsOnceThoughSessionsEnd(t *testing.T) {
	t.Parallel()
	const many = 200
	f := harness.New(t, shared.Server(t))
	clients := []*lock.Client{connect(f), connect(f)}
	sessions := harness.Run(t, "the end of sessions", func(ctx context.Context) error {
		for n := 0; ctx.Err() == nil; n++ {
			f.Renewed(clients[n%2])
		}
		return nil
	})
	var mu sync.Mutex
	starts := make(map[time.Time]int)
	harness.Together(t, len(clients), func(ctx context.Context, i int) error {
		l := clients[i].TickLedger(fmt.Sprint(i))
		for n := range many {
			claim, err := l.Claim(ctx, job, tick(n), ticks.Ask{})
			if err == nil && claim.Verdict == ticks.Claimed {
				mu.Lock()
				starts[tick(n)]++
				mu.Unlock()
				err = finish(ctx, l, claim.Run, ticks.End{Outcome: ticks.Ran})
			}
			if err != nil && !errors.As(err, new(*ticks.InterruptedError)) {
				return err
			}
		}
		return nil
	})
	sessions.Cancel()
	sessions.Granted()
	for instant, n := range starts {
		require.Equal(t, 1, n, instant)
	}
	s := state(t, clients[0].TickLedger("reader"))
	require.Empty(t, s.Runs)
	require.EqualValues(t, many, s.Counts.Total(), "%+v", s.Counts)
}

// Two daemons buffer and run ticks one after the other while their sessions end:
// whatever happens to the one that has buffered, nothing is forgotten.
func TestNoTickThatWaitsIsForgottenThoughSessionsEnd(t *testing.T) {
	t.Parallel()
	const many = 60
	f := harness.New(t, shared.Server(t))
	clients := []*lock.Client{connect(f), connect(f)}
	var mu sync.Mutex
	var starts []time.Time
	run := func(l *ticks.Ledger, claim ticks.Claim, err error) (ran bool, failed error) {
		if err == nil && claim.Verdict == ticks.Claimed {
			mu.Lock()
			starts = append(starts, claim.Run.Instant)
			mu.Unlock()
			err = finish(t.Context(), l, claim.Run, ticks.End{Outcome: ticks.Ran})
		}
		if errors.As(err, new(*ticks.InterruptedError)) {
			return false, nil
		}
		return err == nil && claim.Verdict == ticks.Claimed, err
	}
	harness.Together(t, len(clients), func(ctx context.Context, i int) error {
		l := clients[i].TickLedger(fmt.Sprint(i))
		for n := range many {
			if n%20 == 10+i {
				f.Renewed(clients[i])
			}
			claim, err := l.Claim(ctx, job, tick(n), ticks.Ask{OnOverlap: ticks.BufferOverlap, Max: many})
			_, err = run(l, claim, err)
			for ran := true; ran && err == nil; {
				claim, err = l.ClaimWaiting(ctx, job, 1)
				ran, err = run(l, claim, err)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	l := clients[0].TickLedger("last")
	for ran := true; ran; {
		claim, err := l.ClaimWaiting(t.Context(), job, 1)
		ran, err = run(l, claim, err)
		require.NoError(t, err)
	}
	require.Len(t, starts, many) // each of them, and once
	s := state(t, l)
	require.Empty(t, s.Waiting)
	require.Empty(t, s.Runs)
	require.EqualValues(t, many, s.Counts.Total(), "%+v", s.Counts)
	require.Empty(t, s.Counts.Skipped)
}

func TestARunHearsThatItsPlaceIsWanted(t *testing.T) {
	t.Parallel()
	f := harness.New(t, shared.Server(t))
	client := connect(f)
	mine, other := client.TickLedger("mine"), connect(f).TickLedger("other")
	run := claimed(t, mine, tick(1))
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	heard := make(chan time.Time, 1)
	failed := make(chan error, 1)
	go func() {
		by, err := mine.AwaitCancel(ctx, run)
		if err != nil {
			failed <- err
			return
		}
		heard <- by
	}()

	claim, err := other.Claim(ctx, job, tick(2), ticks.Ask{OnOverlap: ticks.CancelOverlap})
	require.NoError(t, err)
	require.Equal(t, ticks.Buffered, claim.Verdict)
	select {
	case by := <-heard:
		require.Equal(t, tick(2), by)
	case err := <-failed:
		require.NoError(t, err)
	}

	// A session that ends does not end the wait, but the next claimant does.
	end, err := mine.Finish(ctx, run, ticks.End{Outcome: ticks.Preempted})
	require.NoError(t, err)
	require.Equal(t, 1, end.Waiting)
	next, err := mine.ClaimWaiting(ctx, job, 1)
	require.NoError(t, err)
	require.Equal(t, tick(2), next.Run.Instant)
	go func() {
		_, err := mine.AwaitCancel(ctx, next.Run)
		failed <- err
	}()
	f.Renewed(client)
	last := claimed(t, other, tick(3))
	require.ErrorAs(t, <-failed, new(*ticks.InterruptedError))
	require.NoError(t, finish(ctx, other, last, ticks.End{Outcome: ticks.Ran}))
}

func TestOfManyDaemonsOneRunsWhatIsAskedForByHand(t *testing.T) {
	t.Parallel()
	const daemons, requests = 4, 10
	f := harness.New(t, shared.Server(t))
	askerClient := connect(f)
	asker := askerClient.TickLedger("asker")
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	stop, stopped := context.WithCancelCause(ctx)
	var mu sync.Mutex
	ran := map[string]int{}
	var wg sync.WaitGroup
	for i := range daemons {
		l := connect(f).TickLedger(fmt.Sprint(i))
		wg.Go(func() {
			var seen ticks.Requests
			for {
				standing, err := l.AwaitRequests(stop, seen)
				if err != nil {
					return
				}
				for _, r := range standing.Standing {
					claim, err := l.ClaimRequest(ctx, r, requests)
					if err != nil || claim.Verdict != ticks.Claimed {
						continue
					}
					mu.Lock()
					ran[claim.Run.ID]++
					mu.Unlock()
					_ = finish(ctx, l, claim.Run, ticks.End{Outcome: ticks.Ran})
				}
				seen = standing
			}
		})
	}
	var handles []*ticks.RequestHandle
	for range requests {
		handle, err := asker.Request(ctx, ticks.Request{Job: job, By: "ann", Reason: "again"})
		require.NoError(t, err)
		handles = append(handles, handle)
	}
	for _, handle := range handles {
		require.NoError(t, handle.AwaitTaken(ctx))
		seen := ticks.State{}
		for seen.Result(handle.ID()) == nil {
			var err error
			seen, err = asker.Await(ctx, job, seen)
			require.NoError(t, err)
		}
		require.Equal(t, ticks.Ran, seen.Result(handle.ID()).Outcome)
		require.Equal(t, "ann", seen.Result(handle.ID()).By)
	}
	stopped(nil)
	wg.Wait()
	require.Len(t, ran, requests)
	for id, n := range ran {
		require.Equal(t, 1, n, id)
	}

	// One that is withdrawn, or whose asker dies, runs nowhere.
	handle, err := asker.Request(ctx, ticks.Request{Job: job})
	require.NoError(t, err)
	taken, err := handle.Withdraw(ctx)
	require.NoError(t, err)
	require.False(t, taken)
	brief := connect(f)
	handle, err = brief.TickLedger("brief").Request(ctx, ticks.Request{Job: job})
	require.NoError(t, err)
	f.Renewed(brief)
	require.ErrorAs(t, handle.AwaitTaken(ctx), new(*ticks.RequestLostError))
}

// What waits in the ledger survives a server that is gone for a while.
func TestTheLedgerGoesOnAfterTheServerWasRestarted(t *testing.T) {
	t.Parallel()
	f := harness.NewAlone(t)
	l, other := connect(f).TickLedger("a"), connect(f).TickLedger("b")
	run := claimed(t, l, tick(1))
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	heard := make(chan error, 1)
	go func() {
		_, err := l.AwaitCancel(ctx, run)
		heard <- err
	}()
	seen, err := other.AwaitRequests(ctx, ticks.Requests{Standing: []ticks.Request{{ID: "gone"}}})
	require.NoError(t, err)
	require.Empty(t, seen)
	asked := make(chan ticks.Requests, 1)
	go func() {
		standing, _ := other.AwaitRequests(ctx, seen)
		asked <- standing
	}()

	require.NoError(t, f.Server.Kill())
	require.NoError(t, f.Server.Restart(ctx))
	claim, err := other.Claim(ctx, job, tick(2), ticks.Ask{OnOverlap: ticks.CancelOverlap})
	require.NoError(t, err)
	require.Equal(t, ticks.Buffered, claim.Verdict)
	require.NoError(t, <-heard)
	handle, err := l.Request(ctx, ticks.Request{Job: job})
	require.NoError(t, err)
	standing := <-asked
	require.Len(t, standing.Standing, 1)
	require.Equal(t, handle.ID(), standing.Standing[0].ID)
	require.NoError(t, finish(ctx, l, run, ticks.End{Outcome: ticks.Preempted}))
}
