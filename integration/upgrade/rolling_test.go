package upgrade

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
	"github.com/lockkeeper/lockkeeper/scheduler"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// busy has three jobs that run each second: two share a lock with each other and with commands.
const busy = `version: 1
defaults: {misfire: {policy: all, window: 10m}}
jobs:
  free: {schedule: "@every 1s", run: [sh, -c, 'echo $LOCKKEEPER_JOB $LOCKKEEPER_SCHEDULED >>ticks']}
  left: {schedule: "@every 1s", run: [sh, -c, '` + critical + `'], locks: [{scope: shared/db}]}
  right: {schedule: "@every 1s", run: [sh, -c, '` + critical + `'], locks: [{scope: shared/db}]}
`

// critical is work that must not run beside itself: the directory is there already when it does.
const critical = `mkdir held || echo $SITE >>violations; echo $LOCKKEEPER_TOKEN >>tokens; ` +
	`echo $LOCKKEEPER_JOB $LOCKKEEPER_SCHEDULED >>ticks; sleep 0.05; rmdir held`

func TestDaemonsAreUpgradedAndDowngradedOneByOneUnderLoad(t *testing.T) {
	if !hasHistory(t) {
		t.Logf("the commit %s is not at hand", earlier)
		return
	}
	t.Parallel()
	programs := map[string]string{"old": buildEarlier(t), "new": buildToday(t)}
	s := newSite(t, zktest.RunT(t))
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "lockkeeper.yaml"), []byte(busy), 0o644))

	// Given three daemons of the old program, and commands of both that contend all the while.
	daemons := make([]*process, 3)
	for i := range daemons {
		daemons[i] = s.start("old", programs["old"], "run")
	}
	var contenders []*process
	for _, version := range []string{"old", "new"} {
		contenders = append(contenders, s.start("exec-"+version, "sh", "-c",
			`while [ ! -e stop ]; do "$0" exec -s shared/db -- sh -c "$1" || exit 1; done`, programs[version], critical))
	}
	s.ticked(3)

	// When each is replaced by the new program, and then by the old one again.
	for _, version := range []string{"new", "old"} {
		for i, d := range daemons {
			d.terminate()
			d.exits(0)
			daemons[i] = s.start(version, programs[version], "run")
			s.ticked(2)
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "stop"), nil, 0o644))
	for _, p := range contenders {
		p.exits(0)
	}
	for _, d := range daemons {
		d.terminate()
		d.exits(0)
	}

	// Then the lock had one holder at a time, with tokens that grow.
	require.NoFileExists(t, filepath.Join(s.dir, "violations"))
	last := uint64(0)
	for _, line := range s.lines("tokens", func([]string) bool { return true }, "") {
		token, err := strconv.ParseUint(line, 10, 64)
		require.NoError(t, err)
		require.Greater(t, token, last)
		last = token
	}
	// And each tick has one outcome: it ran once, or it is recorded why it did not.
	ran := s.ran()
	for _, job := range []string{"free", "left", "right"} {
		s.balance(job, ran[job])
	}
}

// ran is how often each tick has run, by job and instant.
func (s *site) ran() map[string]map[string]int {
	s.t.Helper()
	all := map[string]map[string]int{}
	for _, line := range s.lines("ticks", func([]string) bool { return true }, "") {
		job, instant, isTick := strings.Cut(line, " ")
		if !isTick || instant == "" {
			continue // a command has none
		}
		if all[job] == nil {
			all[job] = map[string]int{}
		}
		all[job][instant]++
	}
	return all
}

// ticked waits until the job that needs no lock has run n times more.
func (s *site) ticked(n int) {
	s.t.Helper()
	count := func(lines []string) (all int) {
		for _, line := range lines {
			if strings.HasPrefix(line, "free ") {
				all++
			}
		}
		return all
	}
	before := count(s.lines("ticks", func([]string) bool { return true }, ""))
	s.lines("ticks", func(lines []string) bool { return count(lines) >= before+n }, "more ticks")
}

// balance compares what has run with what the ledger has.
func (s *site) balance(job string, ran map[string]int) {
	s.t.Helper()
	user, password, _ := strings.Cut(credentials, ":")
	client := harness.NewClient(s.t, lock.Config{Servers: []string{s.zk}, Auth: &lock.Digest{User: user, Password: password}})
	state, err := client.TickLedger("").State(s.t.Context(), job)
	require.NoError(s.t, err)
	counts := state.Counts
	s.t.Logf("%s: %+v", job, counts)
	require.Equal(s.t, int64(state.Last.Sub(state.Begins)/time.Second)+1, counts.Total(), "each tick has one outcome")
	require.Equal(s.t, counts.Ran, int64(len(ran)), "what is recorded as run has run")
	for instant, n := range ran {
		require.Equal(s.t, 1, n, "%s at %s", job, instant)
	}
	require.Zero(s.t, counts.Failed+counts.Interrupted+counts.Lost+counts.Preempted, "%+v", counts)
	// A drain ends what has not begun yet; where there is much else to do, a connection may take too long.
	policy := []string{ticks.ReasonOverlap, string(scheduler.SkipDraining), string(scheduler.SkipUnavailable)}
	if job != "free" {
		policy = append(policy, string(scheduler.SkipLock)) // the next tick ends the wait for its lock
	}
	for reason := range counts.Skipped {
		require.True(s.t, slices.Contains(policy, reason), "%s: %+v", job, counts)
	}
	require.Empty(s.t, state.Runs)
}
