// Package tickledger tests recipes.TickLedger on a real ZooKeeper server and on
// the embedded one: see package testbed.
package tickledger

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/recipes"
)

var shared testbed.Shared

// childVariable makes this test binary the process that dies in a run.
const childVariable = "TICKLEDGER_TEST_CHILD"

func TestMain(m *testing.M) {
	if args := os.Getenv(childVariable); args != "" {
		if err := beChild(args); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(shared.Main(m, func() error { return goleak.Find() }))
}

const (
	childSession = 3 * time.Second // long enough for a child that has to wait for a busy machine
	patience     = time.Minute     // how long a test waits for something that has to happen
)

// beChild claims a tick and then waits to be killed.
func beChild(args string) error {
	server, root, _ := strings.Cut(args, "\n")
	c, err := recipes.NewClient(recipes.Config{Servers: []string{server}, Root: root, SessionTimeout: childSession})
	if err != nil {
		return err
	}
	claim, err := c.TickLedger("child").Claim(context.Background(), job, tick(1), recipes.TickAsk{})
	if err != nil {
		return err
	}
	fmt.Println(claim.Verdict)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

const job = "team/nightly backup"

func tick(n int) time.Time {
	return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Second)
}

// house is one root on the shared server.
type house struct {
	t      *testing.T
	server testbed.Server
	root   string
}

func newHouse(t *testing.T) house {
	t.Helper()
	return house{t: t, server: shared.Server(t), root: testbed.Root(t)}
}

func (h house) client() *recipes.Client { return h.clientWith(0) }

func (h house) clientWith(session time.Duration) *recipes.Client {
	h.t.Helper()
	c, err := recipes.NewClient(recipes.Config{Servers: []string{h.server.Addr()}, Root: h.root, SessionTimeout: session})
	require.NoError(h.t, err)
	h.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(h.t, c.Close(ctx))
	})
	require.NoError(h.t, c.Ready(h.t.Context()))
	return c
}

func claimed(t *testing.T, l *recipes.TickLedger, instant time.Time) recipes.TickRun {
	t.Helper()
	claim, err := l.Claim(t.Context(), job, instant, recipes.TickAsk{})
	require.NoError(t, err)
	require.Equal(t, recipes.TickClaimed, claim.Verdict)
	return claim.Run
}

// finish is Finish for those who care about its error alone.
func finish(ctx context.Context, l *recipes.TickLedger, run recipes.TickRun, end recipes.TickEnd) error {
	_, err := l.Finish(ctx, run, end)
	return err
}

func state(t *testing.T, l *recipes.TickLedger) recipes.TickState {
	t.Helper()
	s, err := l.State(t.Context(), job)
	require.NoError(t, err)
	return s
}

func TestOfTwoDaemonsThatRaceForATickOneGetsIt(t *testing.T) {
	t.Parallel()
	const ticks = 1000
	h := newHouse(t)
	var mu sync.Mutex
	won := make(map[time.Time][]string)
	var wg sync.WaitGroup
	errs := make(chan error, 2)
	ledgers := []*recipes.TickLedger{h.client().TickLedger("a"), h.client().TickLedger("b")}
	turns := []chan struct{}{make(chan struct{}), make(chan struct{})} // each tick begins for both at once
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	for i, l := range ledgers {
		owner := []string{"a", "b"}[i]
		wg.Go(func() {
			for n := range ticks {
				select { // meet
				case turns[i] <- struct{}{}:
				case <-turns[1-i]:
				case <-ctx.Done():
					errs <- context.Cause(ctx)
					return
				}
				claim, err := l.Claim(ctx, job, tick(n), recipes.TickAsk{OnOverlap: recipes.TellOverlap})
				for err == nil && claim.Verdict == recipes.TickOverlap { // the other one's last run
					claim, err = l.Claim(ctx, job, tick(n), recipes.TickAsk{OnOverlap: recipes.TellOverlap})
				}
				if err == nil && claim.Verdict == recipes.TickClaimed {
					mu.Lock()
					won[tick(n)] = append(won[tick(n)], owner)
					mu.Unlock()
					_, err = l.Finish(ctx, claim.Run, recipes.TickEnd{Outcome: recipes.TickRan})
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	require.NoError(t, <-errs)

	wins := map[string]int{}
	for n := range ticks {
		require.Len(t, won[tick(n)], 1, "tick %d", n)
		wins[won[tick(n)][0]]++
	}
	s := state(t, ledgers[0])
	require.Equal(t, recipes.TickCounts{Ran: ticks}, s.Counts)
	require.Equal(t, tick(ticks-1), s.Last)
	require.Empty(t, s.Runs)
	t.Logf("won: %v", wins)
}

func TestARunIsInterruptedWhenItsProcessIsKilled(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+h.server.Addr()+"\n"+h.root)
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = stdin.Close() })
	stdout, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "claimed\n", line)

	// While it lives its run overlaps.
	l := h.client().TickLedger("survivor")
	claim, err := l.Claim(t.Context(), job, tick(2), recipes.TickAsk{})
	require.NoError(t, err)
	require.Equal(t, recipes.TickOverlap, claim.Verdict)
	require.Equal(t, child.Process.Pid, claim.Run.PID)

	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	require.Eventually(t, func() bool { return !state(t, l).Runs[0].Alive }, patience, 20*time.Millisecond)

	claim, err = l.Claim(t.Context(), job, tick(3), recipes.TickAsk{})
	require.NoError(t, err)
	require.Equal(t, recipes.TickClaimed, claim.Verdict)
	require.Equal(t, "child", claim.Interrupted[0].Owner)
	s := state(t, l)
	require.Equal(t, recipes.TickInterrupted, s.Latest().Outcome)
	require.Equal(t, tick(1), s.Latest().Instant)
	require.NoError(t, finish(t.Context(), l, claim.Run, recipes.TickEnd{Outcome: recipes.TickRan, Token: 7}))
	s = state(t, l)
	require.Equal(t, recipes.TickCounts{Ran: 1, Interrupted: 1, Skipped: map[string]int64{recipes.TickReasonOverlap: 1}}, s.Counts)
	require.Equal(t, recipes.Token(7), s.Latest().Token)
	require.WithinDuration(t, time.Now(), s.Latest().EndedAt, time.Minute) // one machine, one clock
	require.False(t, s.Latest().EndedAt.Before(s.Latest().ClaimedAt))
}

// shortSession is for clients whose sessions are ended by hand. Now and then
// the server forgets the connection on which the client comes back meanwhile:
// that is noticed after two fifths of the session timeout.
const shortSession = 3 * time.Second

// expire ends the session under a client, and waits until it has a new one.
func (h house) expire(c *recipes.Client) {
	h.t.Helper()
	id, password := c.Session()
	require.NotZero(h.t, id)
	require.NoError(h.t, h.server.Expire(h.t.Context(), id, password))
	require.Eventually(h.t, func() bool {
		now, _ := c.Session()
		return now != 0 && now != id
	}, patience, 10*time.Millisecond)
}

func TestARunWhoseSessionIsKilledIsInterruptedOnlyIfSomebodyNotices(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	client := h.clientWith(shortSession)
	cut, other := client.TickLedger("cut off"), h.client().TickLedger("other")

	// Nobody has noticed: it ends as if nothing had happened.
	run := claimed(t, cut, tick(1))
	h.expire(client)
	require.False(t, state(t, other).Runs[0].Alive)
	require.NoError(t, finish(t.Context(), cut, run, recipes.TickEnd{Outcome: recipes.TickRan}))
	require.Equal(t, recipes.TickCounts{Ran: 1}, state(t, other).Counts)

	// The next claimant has: the run hears of it, and overwrites nothing.
	run = claimed(t, cut, tick(2))
	h.expire(client)
	next := claimed(t, other, tick(3))
	var interrupted *recipes.TickInterruptedError
	require.ErrorAs(t, finish(t.Context(), cut, run, recipes.TickEnd{Outcome: recipes.TickRan}), &interrupted)
	require.Equal(t, job, interrupted.Job)
	s := state(t, other)
	require.Equal(t, next.ID, s.Runs[0].ID)
	require.True(t, s.Runs[0].Alive)
	require.NoError(t, finish(t.Context(), other, next, recipes.TickEnd{Outcome: recipes.TickRan}))
	require.Equal(t, recipes.TickCounts{Ran: 2, Interrupted: 1}, state(t, cut).Counts)
}

// Sessions end all the time while two daemons work through the same ticks.
func TestEveryTickEndsOnceThoughSessionsEnd(t *testing.T) {
	t.Parallel()
	const ticks = 200
	h := newHouse(t)
	clients := []*recipes.Client{h.clientWith(shortSession), h.clientWith(shortSession)}
	stop := make(chan struct{})
	expired := make(chan int, 1)
	go func() {
		n := 0
		defer func() { expired <- n }()
		for {
			select {
			case <-stop:
				return
			default:
				h.expire(clients[n%2])
				n++
			}
		}
	}()
	var mu sync.Mutex
	starts := make(map[time.Time]int)
	var wg sync.WaitGroup
	errs := make(chan error, 2*ticks)
	for i, c := range clients {
		l := c.TickLedger(fmt.Sprint(i))
		wg.Go(func() {
			for n := range ticks {
				claim, err := l.Claim(t.Context(), job, tick(n), recipes.TickAsk{})
				if err == nil && claim.Verdict == recipes.TickClaimed {
					mu.Lock()
					starts[tick(n)]++
					mu.Unlock()
					_, err = l.Finish(t.Context(), claim.Run, recipes.TickEnd{Outcome: recipes.TickRan})
				}
				if err != nil && !errors.As(err, new(*recipes.TickInterruptedError)) {
					errs <- err
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	close(errs)
	require.NoError(t, <-errs)
	for instant, n := range starts {
		require.Equal(t, 1, n, instant)
	}
	s := state(t, clients[0].TickLedger("reader"))
	require.Empty(t, s.Runs)
	require.EqualValues(t, ticks, s.Counts.Total(), "%+v", s.Counts)
	t.Logf("sessions ended: %d; %+v", <-expired, s.Counts)
}

// Two daemons buffer and run ticks one after the other while their sessions end:
// whatever happens to the one that has buffered, nothing is forgotten.
func TestNoTickThatWaitsIsForgottenThoughSessionsEnd(t *testing.T) {
	t.Parallel()
	const ticks = 60
	h := newHouse(t)
	clients := []*recipes.Client{h.clientWith(shortSession), h.clientWith(shortSession)}
	var mu sync.Mutex
	var starts []time.Time
	var wg sync.WaitGroup
	errs := make(chan error, 4*ticks)
	for i, c := range clients {
		l := c.TickLedger(fmt.Sprint(i))
		run := func(claim recipes.TickClaim, err error) bool {
			if err == nil && claim.Verdict == recipes.TickClaimed {
				mu.Lock()
				starts = append(starts, claim.Run.Instant)
				mu.Unlock()
				err = finish(t.Context(), l, claim.Run, recipes.TickEnd{Outcome: recipes.TickRan})
			}
			if err != nil && !errors.As(err, new(*recipes.TickInterruptedError)) {
				errs <- err
			}
			return err == nil && claim.Verdict == recipes.TickClaimed
		}
		wg.Go(func() {
			for n := range ticks {
				if n%20 == 10+i {
					h.expire(c)
				}
				run(l.Claim(t.Context(), job, tick(n), recipes.TickAsk{OnOverlap: recipes.BufferOverlap, Max: ticks}))
				for run(l.ClaimWaiting(t.Context(), job, 1)) {
				}
			}
		})
	}
	wg.Wait()
	l := clients[0].TickLedger("last")
	for claim, err := l.ClaimWaiting(t.Context(), job, 1); claim.Verdict == recipes.TickClaimed; claim, err = l.ClaimWaiting(t.Context(), job, 1) {
		require.NoError(t, err)
		starts = append(starts, claim.Run.Instant)
		require.NoError(t, finish(t.Context(), l, claim.Run, recipes.TickEnd{Outcome: recipes.TickRan}))
	}
	close(errs)
	require.NoError(t, <-errs)
	require.Len(t, starts, ticks) // each of them, and once
	s := state(t, l)
	require.Empty(t, s.Waiting)
	require.Empty(t, s.Runs)
	require.EqualValues(t, ticks, s.Counts.Total(), "%+v", s.Counts)
	require.Empty(t, s.Counts.Skipped)
}

func TestARunHearsThatItsPlaceIsWanted(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	client := h.clientWith(shortSession)
	mine, other := client.TickLedger("mine"), h.client().TickLedger("other")
	run := claimed(t, mine, tick(1))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
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

	claim, err := other.Claim(ctx, job, tick(2), recipes.TickAsk{OnOverlap: recipes.CancelOverlap})
	require.NoError(t, err)
	require.Equal(t, recipes.TickBuffered, claim.Verdict)
	select {
	case by := <-heard:
		require.Equal(t, tick(2), by)
	case err := <-failed:
		require.NoError(t, err)
	}

	// A session that ends does not end the wait, but the next claimant does.
	f, err := mine.Finish(ctx, run, recipes.TickEnd{Outcome: recipes.TickPreempted})
	require.NoError(t, err)
	require.Equal(t, 1, f.Waiting)
	next, err := mine.ClaimWaiting(ctx, job, 1)
	require.NoError(t, err)
	require.Equal(t, tick(2), next.Run.Instant)
	go func() {
		_, err := mine.AwaitCancel(ctx, next.Run)
		failed <- err
	}()
	h.expire(client)
	last := claimed(t, other, tick(3))
	require.ErrorAs(t, <-failed, new(*recipes.TickInterruptedError))
	require.NoError(t, finish(ctx, other, last, recipes.TickEnd{Outcome: recipes.TickRan}))
}

func TestOfManyDaemonsOneRunsWhatIsAskedForByHand(t *testing.T) {
	t.Parallel()
	const daemons, requests = 4, 10
	h := newHouse(t)
	askerClient := h.client()
	asker := askerClient.TickLedger("asker")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stop, stopped := context.WithCancelCause(ctx)
	var mu sync.Mutex
	ran := map[string]int{}
	var wg sync.WaitGroup
	for i := range daemons {
		l := h.client().TickLedger(fmt.Sprint(i))
		wg.Go(func() {
			var seen recipes.TickRequests
			for {
				standing, err := l.AwaitRequests(stop, seen)
				if err != nil {
					return
				}
				for _, r := range standing.Standing {
					claim, err := l.ClaimRequest(ctx, r, requests)
					if err != nil || claim.Verdict != recipes.TickClaimed {
						continue
					}
					mu.Lock()
					ran[claim.Run.ID]++
					mu.Unlock()
					_ = finish(ctx, l, claim.Run, recipes.TickEnd{Outcome: recipes.TickRan})
				}
				seen = standing
			}
		})
	}
	var handles []*recipes.TickRequestHandle
	for range requests {
		handle, err := asker.Request(ctx, recipes.TickRequest{Job: job, By: "ann", Reason: "again"})
		require.NoError(t, err)
		handles = append(handles, handle)
	}
	for _, handle := range handles {
		require.NoError(t, handle.AwaitTaken(ctx))
		seen := recipes.TickState{}
		for seen.Result(handle.ID()) == nil {
			var err error
			seen, err = asker.Await(ctx, job, seen)
			require.NoError(t, err)
		}
		require.Equal(t, recipes.TickRan, seen.Result(handle.ID()).Outcome)
		require.Equal(t, "ann", seen.Result(handle.ID()).By)
	}
	stopped(nil)
	wg.Wait()
	require.Len(t, ran, requests)
	for id, n := range ran {
		require.Equal(t, 1, n, id)
	}

	// One that is withdrawn, or whose asker dies, runs nowhere.
	handle, err := asker.Request(ctx, recipes.TickRequest{Job: job})
	require.NoError(t, err)
	taken, err := handle.Withdraw(ctx)
	require.NoError(t, err)
	require.False(t, taken)
	brief := h.clientWith(shortSession)
	handle, err = brief.TickLedger("brief").Request(ctx, recipes.TickRequest{Job: job})
	require.NoError(t, err)
	h.expire(brief)
	require.ErrorAs(t, handle.AwaitTaken(ctx), new(*recipes.TickRequestLostError))
}

// What waits in the ledger survives a server that is gone for a while.
func TestTheLedgerGoesOnAfterTheServerWasRestarted(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.server = testbed.Start(t, testbed.Settings{})
	l, other := h.client().TickLedger("a"), h.client().TickLedger("b")
	run := claimed(t, l, tick(1))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	heard := make(chan error, 1)
	go func() {
		_, err := l.AwaitCancel(ctx, run)
		heard <- err
	}()
	seen, err := other.AwaitRequests(ctx, recipes.TickRequests{Standing: []recipes.TickRequest{{ID: "gone"}}})
	require.NoError(t, err)
	require.Empty(t, seen)
	asked := make(chan recipes.TickRequests, 1)
	go func() {
		standing, _ := other.AwaitRequests(ctx, seen)
		asked <- standing
	}()

	require.NoError(t, h.server.Kill())
	require.NoError(t, h.server.Restart(ctx))
	claim, err := other.Claim(ctx, job, tick(2), recipes.TickAsk{OnOverlap: recipes.CancelOverlap})
	require.NoError(t, err)
	require.Equal(t, recipes.TickBuffered, claim.Verdict)
	require.NoError(t, <-heard)
	handle, err := l.Request(ctx, recipes.TickRequest{Job: job})
	require.NoError(t, err)
	standing := <-asked
	require.Len(t, standing.Standing, 1)
	require.Equal(t, handle.ID(), standing.Standing[0].ID)
	require.NoError(t, finish(ctx, l, run, recipes.TickEnd{Outcome: recipes.TickPreempted}))
}
