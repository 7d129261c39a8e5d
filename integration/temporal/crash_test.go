package temporal_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/internal/process"
	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// Workers are killed at random, each in the middle of its critical section.
func TestTokensGrowWhileWorkersAreKilledAtRandom(t *testing.T) {
	t.Parallel()
	const activities, kills = 20, 3
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	f := newFixture(t)

	// given three workers, and what kills some of them as they write
	var mu sync.Mutex
	workers, killed := make(map[string]*process.Process), []string(nil)
	victims := make(chan string, kills)
	next := 1 + random.IntN(10)
	f.mu.Lock()
	f.arrived = func(r report) {
		if r.What != "write" {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if next--; next == 0 && len(killed) < kills {
			next = 1 + random.IntN(10)
			killed = append(killed, r.Worker)
			_ = workers[r.Worker].Kill() // it has had no answer yet
			victims <- r.Worker
		}
	}
	f.mu.Unlock()
	hire := func(name string) {
		t.Helper()
		w := f.process(name, 4*time.Second)
		mu.Lock()
		defer mu.Unlock()
		workers[name] = w
	}
	for i := range 3 {
		hire(fmt.Sprint("worker ", i))
	}

	// when they work, and others come for those that are killed
	var runs []client.WorkflowRun
	for range activities {
		runs = append(runs, f.start("labour", retrying()))
	}
	for i := range kills {
		harness.Receive(t, victims, "a kill")
		hire(fmt.Sprint("worker ", 3+i))
	}

	// then all is done, one at a time; what was done when its worker was killed, before Temporal knew, is done again
	for _, run := range runs {
		completed[any](f, run)
	}
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, killed, kills)
	f.oneAtATime(killed...)
	done := make(map[string]bool)
	for _, r := range f.reported("leave") {
		done[r.Key] = true
	}
	require.Len(t, done, activities)
	require.GreaterOrEqual(t, len(f.reported("enter")), activities+kills)
}

func TestNextAttemptAfterAKilledWorkerRunsElsewhereUnderALargerToken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	killed := f.process("killed", 10*time.Second)
	patient := func(o *workflow.ActivityOptions) { o.HeartbeatTimeout = 15 * time.Second } // the attempts must not end before the worker is killed
	run := f.start("linger", retrying(patient))
	first := f.awaits("write")
	only := f.start("labour", retrying(once, patient)) // waits for the same lock, and has no other attempt
	f.waiters(1)

	// when the worker is killed that holds the lock
	require.NoError(t, killed.Kill())
	f.work(setup{name: "other"})

	// then the next attempt waits until the session of the first has ended
	token := completed[lockguard.Token](f, run)
	second := f.awaits("write", by("other"))
	require.Greater(t, token, first.Token)
	require.Equal(t, token, second.Token)
	require.EqualValues(t, 2, second.Attempt)

	// and who has no other attempt does not wait for ever
	_, err := result[any](f, only)
	require.ErrorContains(t, err, "Heartbeat")
	f.isFree()
}

// Its session has ended long before Temporal notices.
func TestLockOfAWorkerThatIsKilledIsLostWhenTheSessionIsTooShort(t *testing.T) {
	t.Parallel()
	for name, heartbeat := range map[string]time.Duration{
		"its keeper finds out": 8 * time.Second, "an activity finds out": harness.Patience,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			killed := f.process("killed", 3*time.Second)
			run := f.migrate(migration{
				Steps: []string{"step"}, Waits: true, After: []string{"step"}, Heartbeat: heartbeat, Again: true,
			})
			f.asleep(run)
			next := f.requests(lockguard.Requirement{Terms: priority.Terms{NeverPreempts: true}})
			f.waiters(1)
			f.work(setup{})
			require.NoError(t, killed.Kill())

			// then somebody else has the lock first
			between := next.Granted()
			require.Greater(t, between, f.reported("step")[0].Token)
			if heartbeat < harness.Patience {
				f.started(run, 2)
			}

			// and the workflow does all of it again
			f.goOn(run)
			tokens := completed[[]lockguard.Token](f, run)
			require.Greater(t, f.sameToken(2, tokens[len(tokens)-2:]), between)
		})
	}
}

// The worker is stopped (SIGSTOP) for so long that Temporal gives the attempt up, and goes on (SIGCONT) as if nothing
// had happened.
func TestLateWriteOfAWorkerThatWasStoppedIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		session time.Duration
		causes  []string
	}{
		"for longer than its session":           {2 * time.Second, []string{"lost", "superseded"}},
		"for longer than the heartbeat timeout": {40 * time.Second, []string{"superseded"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			proxy := netfault.New(t, temporals.Server(t).Addr())
			zombie := f.process("zombie", c.session, func(p *workerProcess) { p.Temporal = proxy.Addr() })
			run := f.start("linger", retrying())
			first := f.awaits("write")

			// given an attempt that was given up while its worker was stopped, which has also been sent the next one
			require.NoError(t, zombie.Signal(syscall.SIGSTOP))
			f.attempts(run, 2)
			f.work(setup{name: "other", lock: temporal.Lock{OnBusy: temporal.BusyWait}})
			if c.session > 2*time.Second { // it still holds the lock
				f.waiters(1)
			} else {
				f.awaits("write", by("other"))
			}

			// when the worker goes on, and what Temporal says takes longer than a lock
			require.NoError(t, proxy.Jitter(300*time.Millisecond, 300*time.Millisecond))
			require.NoError(t, zombie.Signal(syscall.SIGCONT))

			// then it learns of its loss, an attempt elsewhere has the lock, what the first one writes is refused,
			// and the one that comes too late does not begin
			require.Contains(t, c.causes, f.awaits("told").Cause)
			require.Greater(t, completed[lockguard.Token](f, run), first.Token)
			f.open("late")
			late := f.awaits("write", refused)
			require.Equal(t, "zombie", late.Worker)
			require.Equal(t, first.Token, late.Token)
			for _, r := range f.reported("write") {
				require.Equal(t, r.Worker == "zombie" && r != first, r.Refused, "%+v", r)
			}
		})
	}
}

// That it knows before another one holds the lock is shown in virtual time, to the instant.
func TestActivityThatIsCutOffFromZooKeeperKnowsWithoutIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	proxy := netfault.New(t, f.Server.Addr())
	f.work(setup{guard: f.guard(harness.Servers(proxy.Addr()), harness.SessionTimeout(6*time.Second))})
	run := f.start("linger", retrying())
	first := f.awaits("write")

	// when ZooKeeper cannot be reached any more
	require.NoError(t, proxy.Cut())

	// then it learns that its lock is lost, and somebody else gets it
	require.Equal(t, "lost", f.awaits("told").Cause)
	f.requests(lockguard.Requirement{}).Granted()

	// and the next attempt has the lock when ZooKeeper is back, and what the first one still writes is refused
	require.NoError(t, proxy.Pass())
	require.Greater(t, completed[lockguard.Token](f, run), first.Token)
	f.open("late")
	require.Equal(t, first.Token, f.awaits("write", refused).Token)
}

// The server is stopped for as long as heartbeat timeouts need, a few seconds: what comes after that is the same after
// thirty.
func TestLocksWhileTheTemporalServerIsStopped(t *testing.T) {
	t.Parallel()
	server := devserver.Start(t, devserver.Settings{OnDisk: true})
	f, g := newFixtureOn(t, server), newFixtureOn(t, server)

	// given an activity that holds its lock, and a workflow that holds another one
	f.work(setup{})
	activity := f.start("linger", retrying())
	first := f.awaits("write")
	g.work(setup{})
	workflow := g.migrate(migration{Steps: []string{"step"}, Waits: true, After: []string{"step"}, Heartbeat: 2 * time.Second})
	g.asleep(workflow)

	// when the server stops
	require.NoError(t, server.Stop())

	// then the attempt takes itself for superseded, and its lock is free
	require.Equal(t, "superseded", f.awaits("told").Cause)
	f.isFree()

	// but the lock of the workflow is held
	next := g.requests(lockguard.Requirement{Terms: priority.Terms{NeverPreempts: true}})
	g.waiters(1)
	next.IsPending()

	// and when the server is back, both go on: with a new token, and with the same
	require.NoError(t, server.Restart(t.Context()))
	require.Greater(t, completed[lockguard.Token](f, activity), first.Token)
	g.goOn(workflow)
	require.Greater(t, next.Granted(), g.sameToken(2, completed[[]lockguard.Token](g, workflow)))
}
