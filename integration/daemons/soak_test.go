package daemons

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

var (
	soakFor  = flag.Duration("soak", 40*time.Second, "how long daemons are stopped, killed and paused at random")
	soakSeed = flag.Uint64("seed", 0, "of the soak's random numbers; 0: another one each time")
	soakCast = flag.String("soak-cast", "soak 200", "of the soak: \"soak 200\" or \"soak 500\", so many jobs")
)

const (
	soakDaemons = 3
	soakSession = 4 * time.Second
)

// soak is so many jobs that are due every second. One in five needs a lock of its
// own, one in fifty one that it shares with the others.
func soak(n int) func(daemon string, tell func(mark)) []jobs.Job {
	return func(daemon string, tell func(mark)) []jobs.Job { return soakJobs(n, daemon, tell) }
}

func soakJobs(n int, daemon string, tell func(mark)) (all []jobs.Job) {
	for i := range n {
		job := jobs.Job{
			Name:     fmt.Sprintf("soak-%03d", i),
			Schedule: "* * * * * *",
			Work: jobs.Func(func(_ context.Context, run jobs.Run) error {
				tell(mark{At: time.Now(), Daemon: daemon, Job: run.Job, Instant: run.Scheduled, What: began})
				return nil
			}),
		}
		switch {
		case i%50 == 0:
			job.Requirements = []lockguard.Requirement{{Scope: "soak/shared"}}
		case i%5 == 0:
			job.Requirements = []lockguard.Requirement{{Scope: "soak/" + job.Name}}
		}
		all = append(all, job)
	}
	return all
}

// A tally is which instants of which jobs have begun, and how often.
type tally struct {
	mu    sync.Mutex
	begun map[string]map[time.Time]int
	marks int
}

func (t *tally) add(m mark) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.What != began {
		return
	}
	if t.begun[m.Job] == nil {
		t.begun[m.Job] = make(map[time.Time]int)
	}
	t.begun[m.Job][m.Instant.UTC()]++
	t.marks++
}

// A soaker is one place for a daemon: a process after the other.
type soaker struct {
	t        *testing.T
	tally    *tally
	settings settings
	process  *exec.Cmd
	stdin    interface{ Close() error }
	log      bytes.Buffer
	told     chan struct{}
}

func (s *soaker) start() {
	s.t.Helper()
	self, err := os.Executable()
	require.NoError(s.t, err)
	encoded, err := json.Marshal(s.settings)
	require.NoError(s.t, err)
	s.process = exec.Command(self)
	s.process.Env = append(os.Environ(), childVariable+"="+string(encoded))
	s.log.Reset()
	s.process.Stderr = &s.log
	s.stdin, err = s.process.StdinPipe()
	require.NoError(s.t, err)
	stdout, err := s.process.StdoutPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, s.process.Start())
	told := make(chan struct{})
	s.told = told
	go func() {
		defer close(told)
		for decoder := json.NewDecoder(stdout); ; {
			var m mark
			if decoder.Decode(&m) != nil {
				return
			}
			s.tally.add(m)
		}
	}()
}

// end ends the process by a signal, and waits until it has gone.
func (s *soaker) end(sig syscall.Signal) {
	s.t.Helper()
	require.NoError(s.t, s.process.Process.Signal(sig))
	select {
	case <-s.told:
	case <-time.After(patience):
		_ = s.process.Process.Kill()
		require.FailNow(s.t, "a daemon does not end", s.log.String())
	}
	err := s.process.Wait()
	if sig == syscall.SIGTERM {
		require.NoError(s.t, err, s.log.String())
	}
	_ = s.stdin.Close()
}

// TestEveryTickRunsOnceOrItsSkipHasAReason lets three daemons with clocks that
// differ run hundreds of jobs a second, while they are restarted, killed and paused.
// What the ledger has recorded is then compared with what has happened.
func TestEveryTickRunsOnceOrItsSkipHasAReason(t *testing.T) {
	var soakJobs int
	_, err := fmt.Sscanf(*soakCast, "soak %d", &soakJobs)
	require.NoError(t, err)
	seed := *soakSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("-seed %d", seed)

	// given three daemons whose clocks are a second apart, and drift
	server := shared.Server(t)
	root := zkserver.Root(t)
	began := &tally{begun: make(map[string]map[time.Time]int)}
	places := make([]*soaker, soakDaemons)
	for i := range places {
		places[i] = &soaker{t: t, tally: began, settings: settings{
			Name: fmt.Sprintf("place-%d", i), ZK: server.Connect(), Root: root, Session: soakSession, Drain: 2 * time.Second,
			Cast: *soakCast, Skew: time.Duration(i-1) * time.Second, Drift: time.Duration(i-1) * time.Millisecond,
		}}
		places[i].start()
	}
	t.Cleanup(func() {
		for _, p := range places {
			_ = p.process.Process.Signal(syscall.SIGCONT)
			_ = p.process.Process.Kill()
		}
	})

	// when one of them after the other is restarted, killed or paused
	faults := map[string]int{}
	ends := time.Now().Add(*soakFor)
	for time.Now().Before(ends) {
		wait(t, time.Duration(1000+random.IntN(2000))*time.Millisecond)
		p := places[random.IntN(len(places))]
		switch random.IntN(3) {
		case 0:
			faults["restarted"]++
			p.end(syscall.SIGTERM)
			p.start()
		case 1:
			faults["killed"]++
			p.end(syscall.SIGKILL)
			p.start()
		case 2: // shorter than the session timeout, and longer
			faults["paused"]++
			require.NoError(t, p.process.Process.Signal(syscall.SIGSTOP))
			wait(t, time.Duration(200+random.IntN(7000))*time.Millisecond)
			require.NoError(t, p.process.Process.Signal(syscall.SIGCONT))
		}
	}
	wait(t, 2*soakSession) // what was cut short is found
	for _, p := range places {
		p.end(syscall.SIGTERM)
	}

	// then each instant of each job has one outcome
	ledger := reader(t, settings{ZK: server.Connect(), Root: root, Session: soakSession})
	var total recipes.TickCounts
	total.Skipped = map[string]int64{}
	ticks, open := int64(0), 0
	for i := range soakJobs {
		name := fmt.Sprintf("soak-%03d", i)
		state := ledger.state(name)
		instants := int64(state.Last.Sub(state.Begins)/time.Second) + 1
		decided := state.Counts.Total() + int64(len(state.Runs)+len(state.Waiting))
		require.Equal(t, instants, decided, "%s: from %s to %s: %+v", name, state.Begins, state.Last, state.Counts)
		open += len(state.Runs)
		ticks += instants

		// each ran at most once, and what is recorded as run has run
		for instant, n := range began.begun[name] {
			require.Equal(t, 1, n, "%s at %s", name, instant)
		}
		runs := int64(len(began.begun[name]))
		cut := state.Counts.Interrupted + state.Counts.Lost + state.Counts.Preempted + int64(len(state.Runs))
		require.LessOrEqual(t, state.Counts.Ran, runs, "%s: %+v", name, state.Counts)
		require.GreaterOrEqual(t, state.Counts.Ran+cut, runs, "%s: %+v", name, state.Counts)
		require.Zero(t, state.Counts.Failed)
		for _, entry := range state.History {
			if entry.Outcome == recipes.TickRan {
				require.Equal(t, 1, began.begun[name][entry.Instant.UTC()], "%s at %s", name, entry.Instant)
			}
			if entry.Outcome == recipes.TickSkipped {
				require.Zero(t, began.begun[name][entry.Instant.UTC()], "%s at %s", name, entry.Instant)
				require.NotEmpty(t, entry.Reason)
			}
		}
		total.Ran += state.Counts.Ran
		total.Interrupted += state.Counts.Interrupted
		total.Lost += state.Counts.Lost
		total.Preempted += state.Counts.Preempted
		for reason, n := range state.Counts.Skipped {
			total.Skipped[reason] += n
		}
	}
	t.Logf("%s, %d daemons, %d jobs, faults %v", *soakFor, soakDaemons, soakJobs, faults)
	t.Logf("%d ticks: %d ran (%.1f %%), %d interrupted, %d lost, %d preempted, skipped: %s; %d runs of daemons that died last",
		ticks, total.Ran, 100*float64(total.Ran)/float64(ticks), total.Interrupted, total.Lost, total.Preempted, describe(total.Skipped), open)
	require.Greater(t, total.Ran, ticks/10, "the machine is too slow for this to say anything")
}

func describe(counts map[string]int64) string {
	var all []string
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%s %d", reason, counts[reason]))
	}
	return strings.Join(all, ", ")
}

// wait lets time pass in which faults have their effect.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	<-ctx.Done()
	require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
}
