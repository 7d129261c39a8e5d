package views_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func ago(seconds int) time.Time { return noon.Add(-time.Duration(seconds) * time.Second) }

func run(id string, pid, claimed int) ticks.Run {
	return ticks.Run{ID: id, Job: "backup", Owner: "backup", Host: "h1", PID: pid, ClaimedAt: ago(claimed), Alive: true}
}

// request is of the job's process with pid.
func request(id string, pid, since int) lock.Contender {
	return lock.Contender{ID: id, Identity: priority.Identity{Owner: "backup", Host: "h1", PID: pid}, Joined: ago(since), Since: ago(since), Position: 1}
}

func stranger() lock.Contender {
	return lock.Contender{ID: "x", Identity: priority.Identity{Owner: "exec", Host: "h9", PID: 9}, Since: ago(300)}
}

func TestStateOfAJobIsThatOfItsRequests(t *testing.T) {
	disk := func(change func(*lock.State)) lock.State {
		s := lock.State{Scope: "cluster/disk", At: noon}
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		runs   []ticks.Run
		locks  []lock.State
		frozen []lock.FrozenRequest
		state  string
		since  time.Time
		words  string
	}{
		"idle": {state: "idle"},
		"works without a lock": {
			runs: []ticks.Run{run("r", 1, 30)}, state: "running", since: ago(30),
		},
		"works under its lock": {
			runs:  []ticks.Run{run("r", 1, 30)},
			locks: []lock.State{disk(func(s *lock.State) { s.Holders = []lock.Contender{request("a", 1, 20)} })},
			state: "running", since: ago(30),
		},
		"waits for a holder": {
			runs: []ticks.Run{run("r", 1, 30)},
			locks: []lock.State{disk(func(s *lock.State) {
				s.Holders, s.Waiters = []lock.Contender{stranger()}, []lock.Contender{request("a", 1, 20)}
			})},
			state: "waiting", since: ago(20), words: "for cluster/disk, held by exec on h9",
		},
		"waits in the queue of a lock without a holder": {
			runs:  []ticks.Run{run("r", 1, 30)},
			locks: []lock.State{disk(func(s *lock.State) { s.Waiters = []lock.Contender{request("a", 1, 20)} })},
			state: "waiting", since: ago(20), words: "for cluster/disk",
		},
		"is frozen": {
			runs: []ticks.Run{run("r", 1, 30)},
			frozen: []lock.FrozenRequest{{
				ID: "f", Scope: "cluster/disk", Identity: priority.Identity{Owner: "backup", Host: "h1", PID: 1}, Since: ago(15), Until: noon.Add(time.Minute),
				Override: lock.Mark{ID: "INC-7", By: "ana", Reason: "disks"},
			}},
			state: "frozen", since: ago(15), words: "out of cluster/disk by override INC-7 of ana until 12:01:00 (in 1m): disks",
		},
		"waits for the end of a lock-delay": {
			runs: []ticks.Run{run("r", 1, 30)},
			locks: []lock.State{disk(func(s *lock.State) {
				s.Waiters = []lock.Contender{request("a", 1, 20)}
				s.Delays = []lock.Delay{{ID: "gone", Owner: "reindex", LockDelay: time.Minute, Until: noon.Add(30 * time.Second)}}
			})},
			state: "delayed", since: ago(20), words: "for cluster/disk: lock-delay after the unclean end of reindex, until about 12:00:30 (in 30s)",
		},
		"cleans up": {
			runs: []ticks.Run{run("r", 1, 30)},
			locks: []lock.State{disk(func(s *lock.State) {
				h := request("a", 1, 20)
				h.PreemptedBy = []lock.Preemptor{{ID: "b", Owner: "hotfix", Reason: priority.Outranked, Grace: time.Minute, At: ago(5)}}
				s.Holders = []lock.Contender{h}
			})},
			state: "cleaning up", since: ago(5), words: "under cluster/disk: preempted by hotfix, grace period until 12:00:55 (in 55s)",
		},
		"holds one lock and waits for another": {
			runs: []ticks.Run{run("r", 1, 30)},
			locks: []lock.State{
				{Scope: "a", At: noon, Holders: []lock.Contender{request("a", 1, 25)}},
				disk(func(s *lock.State) {
					s.Holders, s.Waiters = []lock.Contender{stranger()}, []lock.Contender{request("b", 1, 20)}
				}),
			},
			state: "waiting", since: ago(20), words: "for cluster/disk, held by exec on h9",
		},
		"the request of another process is not its own": {
			runs: []ticks.Run{run("r", 1, 30)},
			locks: []lock.State{disk(func(s *lock.State) {
				s.Holders, s.Waiters = []lock.Contender{stranger()}, []lock.Contender{request("a", 2, 20)}
			})},
			state: "running", since: ago(30),
		},
		"one run works, another waits for it": {
			runs: []ticks.Run{run("r1", 1, 60), run("r2", 1, 30)},
			locks: []lock.State{disk(func(s *lock.State) {
				s.Holders, s.Waiters = []lock.Contender{request("a", 1, 50)}, []lock.Contender{request("b", 1, 20)}
			})},
			state: "running", since: ago(60), words: "for cluster/disk, held by backup on h1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			requests := append([]live.Request{}, live.Requests(live.NewLocks(c.locks), c.frozen)...)
			j := views.NewJob(ticks.State{Job: "backup", Runs: c.runs}, requests, noon)
			require.Equal(t, c.state, j.State)
			words := ""
			for _, r := range j.Runs {
				if r.State == j.State {
					require.True(t, c.since.Equal(r.Since()), "since %s", r.Since())
				}
				if r.Request != nil {
					words = r.Request.Words(noon)
				}
			}
			require.Equal(t, c.words, words)
			require.Equal(t, j.Runs, views.NewHistory(ticks.State{Job: "backup", Runs: c.runs}, requests, 3, noon).Runs)
		})
	}
}

func TestRunWithoutKnownRequestsCountsAsRunning(t *testing.T) {
	j := views.NewJob(ticks.State{Job: "backup", Runs: []ticks.Run{run("r", 1, 30)}}, nil, noon)
	require.Equal(t, "running", j.State)
	require.Empty(t, j.Runs[0].State)
}

func TestOverrideSaysWhomItKeepsOut(t *testing.T) {
	mark := lock.Mark{ID: "INC-7", By: "ana"}
	held := request("op", 5, 60)
	held.Owner, held.Override = "ana", &mark
	requests := live.Requests(live.NewLocks([]lock.State{
		{Scope: "a", At: noon, Holders: []lock.Contender{held}, Waiters: []lock.Contender{request("b", 1, 20)}},
		{Scope: "b", At: noon, Holders: []lock.Contender{stranger()}, Waiters: []lock.Contender{request("c", 2, 20)}},
	}), []lock.FrozenRequest{
		{ID: "f", Scope: "c", Identity: priority.Identity{Owner: "importer", Host: "h3", PID: 3}, Since: ago(15), Override: mark},
		{ID: "g", Scope: "c", Identity: priority.Identity{Owner: "other", Host: "h3", PID: 3}, Since: ago(15), Override: lock.Mark{ID: "INC-8"}},
	})
	jobs := []views.JobLabels{{Name: "nightly-backup"}, {Name: "hourly"}}
	named := func(kind override.Kind, match override.Match) (names []string) {
		for _, k := range views.KeptOutBy(override.Override{ID: "INC-7", Kind: kind, Match: match, Until: noon.Add(time.Hour)}, requests, jobs) {
			names = append(names, k.String())
		}
		return names
	}
	require.Equal(t, []string{"importer on h3 frozen out of c"}, named(override.Freeze, override.Match{Scope: "c"}))
	require.Equal(t, []string{"backup on h1 waiting for a", "importer on h3 frozen out of c"}, named(override.Hold, override.Match{Scope: "a"}))
	require.Equal(t, []string{"nightly-backup paused"}, named(override.Pause, override.Match{Job: "nightly-*"}))
	require.Empty(t, views.KeptOutBy(override.Override{ID: "INC-9", Kind: override.Freeze}, requests, jobs))
}
