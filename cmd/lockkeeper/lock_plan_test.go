package main

import (
	"encoding/json"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// reindexing is a lock with one holder, at 12:00, who may be preempted.
func reindexing(level priority.Level, minRuntimeLeft time.Duration) *lock.State {
	return &lock.State{
		Scope: "db/orders", At: at(0),
		Holders: []lock.Contender{{
			ID: "aaa", Identity: priority.Identity{Owner: "reindex", Host: "h3", PID: 811}, Terms: priority.Terms{
				Priority:     level,
				LeaseTimeout: 10 * time.Minute, CleanupTimeout: time.Minute,
				MinRuntime: 7 * time.Minute,
			}, Token: 7,
			Remaining: priority.Remaining{LeaseLeft: 4 * time.Minute, MinRuntimeLeft: minRuntimeLeft}, Since: at(-6 * time.Minute),
		}},
	}
}

func TestLockPlanSaysWhomItWaitsForAndWhomItPreempts(t *testing.T) {
	forceful := lockguard.Requirement{Scope: "db/orders", Terms: priority.Terms{Priority: 90, Forceful: true, WaitingTimeout: new(30 * time.Second), CleanupTimeout: 20 * time.Second}}
	polite := lockguard.Requirement{Scope: "db/orders", Terms: priority.Terms{Priority: 40, AcquireTimeout: new(time.Minute)}}
	free := &lock.State{Scope: "db/orders"}
	for name, c := range map[string]struct {
		r     lockguard.Requirement
		state *lock.State
		want  string
	}{
		"unknown": {forceful, nil, `  db/orders: exclusive, priority 90, lease 10m, cleanup 20s
    a run waits for it until the next tick is due; whom it preempts has 30s at most to clean up, then the lock is taken
`},
		"free": {polite, free, `  db/orders: exclusive, priority 40, lease 10m, cleanup 0s
    waits for it for 1m
    free: the job gets it at once
`},
		"preempts": {forceful, reindexing(40, 0), `  db/orders: exclusive, priority 90, lease 10m, cleanup 20s
    a run waits for it until the next tick is due; whom it preempts has 30s at most to clean up, then the lock is taken
    held by reindex  priority 40  host h3  pid 811
      since 2026-11-21 11:54:00 UTC, 6m ago; 4m left of its lease of 10m
      preempted at once; it may clean up for 30s, until 2026-11-21 12:00:30 UTC
    the job gets it when it is released, and takes it at the latest at 2026-11-21 12:00:30 UTC, in 30s
`},
		"preempts later": {forceful, reindexing(40, time.Minute), `  db/orders: exclusive, priority 90, lease 10m, cleanup 20s
    a run waits for it until the next tick is due; whom it preempts has 30s at most to clean up, then the lock is taken
    held by reindex  priority 40  host h3  pid 811
      since 2026-11-21 11:54:00 UTC, 6m ago; 4m left of its lease of 10m
      not preempted yet: 1m left of the 7m that it is to have in peace
      preempted at 2026-11-21 12:01:00 UTC, in 1m; it may clean up for 30s, until 2026-11-21 12:01:30 UTC
    the job gets it when it is released, and takes it at the latest at 2026-11-21 12:01:30 UTC, in 1m30s
`},
		"waits in vain": {polite, reindexing(40, 0), `  db/orders: exclusive, priority 40, lease 10m, cleanup 0s
    waits for it for 1m
    held by reindex  priority 40  host h3  pid 811
      since 2026-11-21 11:54:00 UTC, 6m ago; 4m left of its lease of 10m
      not preempted: its priority 40 is not below 40
    the job gets it if it is released within its acquire_timeout (1m); else it gives up at 2026-11-21 12:01:00 UTC, in 1m
`},
		"in line": {lockguard.Requirement{Scope: "db/orders", Terms: priority.Terms{Priority: 60}}, new(contended()), `  db/orders: exclusive, priority 60, lease 10m, cleanup 0s
    a run waits for it until the next tick is due
    held by reindex  priority 40  host h3  pid 811
      since 2026-11-21 11:53:48 UTC, 6m12s ago; 3m48s left of its lease of 10m
      preempted already by hotfix (priority 90), 41s ago
      preempted already by rollup (priority 50), 1m11s ago
    ahead in the queue: hotfix  priority 90  host h1  pid 12, since 42s ago
    the job waits as number 2 in the queue: those ahead decide how long
`},
		"does not wait": {lockguard.Requirement{Scope: "db/orders", Terms: priority.Terms{AcquireTimeout: new(time.Duration)}}, reindexing(0, 0), `  db/orders: exclusive, priority 0, lease 10m, cleanup 0s
    only if it is free: it does not wait
    held by reindex  priority 0  host h3  pid 811
      since 2026-11-21 11:54:00 UTC, 6m ago; 4m left of its lease of 10m
      not preempted: its priority 0 is not below 0
    the job does not get it, and does not wait (acquire_timeout 0)
`},
	} {
		t.Run(name, func(t *testing.T) {
			out := table(func(w *tabwriter.Writer) { writeLockPlans(w, []lockPlanView{newLockPlan(c.r, c.state)}) })
			require.Equal(t, c.want, out)
		})
	}
}

func TestLockPlanSaysWhenALeaseEndsThatIsNotOver(t *testing.T) {
	for left, want := range map[time.Duration]string{
		4 * time.Minute: "preempted at the end of its lease, at 2026-11-21 12:04:00 UTC, in 4m; it may clean up for 1m, until 2026-11-21 12:05:00 UTC",
		0:               "its lease is over: preempted at once; it may clean up for 1m, until 2026-11-21 12:01:00 UTC",
	} {
		state := reindexing(50, 0)
		state.Holders[0].LeaseLeft = left
		plan := newLockPlan(lockguard.Requirement{Scope: "db/orders"}, state)
		require.Contains(t, table(func(w *tabwriter.Writer) { writeLockPlans(w, []lockPlanView{plan}) }), "      "+want+"\n")
	}
}

func TestARunOfAJobWithoutTicksWaitsForItsLockAsLongAsItTakes(t *testing.T) {
	requirements := []lockguard.Requirement{{Scope: "db/orders"}}
	for schedule, want := range map[string]string{
		"manual":    "    a run waits for it as long as it takes\n",
		"":          "    a run waits for it as long as it takes\n",
		"0 2 * * *": "    a run waits for it until the next tick is due\n",
	} {
		job := jobs.Job{Name: "hand", Schedule: schedule, Requirements: requirements}
		require.Contains(t, table(func(w *tabwriter.Writer) { writeLockPlans(w, lockPlans(job, nil)) }), want, "schedule %q", schedule)
		ifRun := newIfRun(&whyFacts{now: at(0)}, job)
		require.Contains(t, drawn(80, func(pg page) { writeIfRun(pg, ifRun, at(0)) }), strings.TrimSpace(want), "schedule %q", schedule)
	}
}

func TestLockPlanForScripts(t *testing.T) {
	// given
	r := lockguard.Requirement{Scope: "db/orders", Terms: priority.Terms{Priority: 90, Forceful: true, WaitingTimeout: new(30 * time.Second)}}

	// when
	known, err := json.Marshal(newLockPlan(r, reindexing(40, 0)))
	require.NoError(t, err)
	unknown, err := json.Marshal(newLockPlan(r, nil))
	require.NoError(t, err)

	// then
	require.JSONEq(t, `{"scope":"db/orders","mode":"exclusive","priority":90,"state":"unknown","outcome":null,"after_ms":0,"position":0,
		"ahead":[],"beside":[],"obstacles":[]}`, string(unknown))
	require.JSONEq(t, `{"scope":"db/orders","mode":"exclusive","priority":90,"state":"held","outcome":"takes_over","after_ms":30000,"position":1,
		"ahead":[],"beside":[],"obstacles":[{
			"holder":{"id":"aaa","owner":"reindex","host":"h3","pid":811,"priority":40,"mode":"exclusive","message":"","cleanup_timeout_ms":60000,"min_runtime_ms":420000,"override":null,"token":7,
				"since":"2026-11-21T11:54:00Z","lease_timeout_ms":600000,"lease_left_ms":240000,"min_runtime_left_ms":0,"preempted_by":[],"state":"holding"},
			"bar":"","asks":[{"reason":"outranked","after_ms":0,"grace_ms":30000}]}]}`, string(known))
}
