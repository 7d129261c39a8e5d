package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// at is a moment of the servers' clock, some time after noon.
func at(d time.Duration) time.Time {
	return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).Add(d)
}

// contended is a lock whose holder two others want to go, at 12:00.
func contended() lock.State {
	return lock.State{
		Scope: "db/orders", At: at(0),
		Holders: []lock.Contender{{
			ID: "aaa", Identity: priority.Identity{Owner: "reindex", Host: "h3", PID: 811, Message: "nightly"}, Terms: priority.Terms{
				Priority:     40,
				LeaseTimeout: 10 * time.Minute, CleanupTimeout: time.Minute,
			}, Token: 7301444,
			Remaining: priority.Remaining{LeaseLeft: 228 * time.Second}, Session: 0x1f,
			Since: at(-372 * time.Second),
			PreemptedBy: []lock.Preemptor{
				{ID: "bbb", Owner: "hotfix", Priority: 90, Reason: priority.Outranked, Forceful: true, Grace: time.Minute, At: at(-41 * time.Second)},
				{ID: "ccc", Owner: "rollup", Priority: 50, Reason: priority.Outranked, Grace: time.Minute, At: at(-71 * time.Second)},
			},
		}},
		Waiters: []lock.Contender{
			{ID: "bbb", Identity: priority.Identity{Owner: "hotfix", Host: "h1", PID: 12}, Terms: priority.Terms{Priority: 90, Forceful: true}, Joined: at(-42 * time.Second), Position: 1},
			{ID: "ccc", Identity: priority.Identity{Owner: "rollup", Host: "h2", PID: 13}, Terms: priority.Terms{Priority: 50, WaitingTimeout: new(5 * time.Minute)}, Joined: at(-75 * time.Second), Position: 2},
		},
	}
}

func TestShowSaysWhoPreemptsWhomAndUntilWhen(t *testing.T) {
	var out bytes.Buffer
	writeLock(&out, contended(), "", nil, false)
	require.Equal(t, `db/orders: held, exclusive, 2 waiting

holder  reindex  priority 40  host h3  pid 811
        since 2026-11-21 11:53:48 UTC, 6m12s ago; 3m48s left of its lease of 10m
        token 7301444
        it is cleaning up
        message: nightly
        preempted by hotfix (priority 90), which outranks it; its grace period ends at 2026-11-21 12:00:19 UTC, 19s more; evicted after that, unless it releases first
        preempted by rollup (priority 50), which outranks it; its grace period of 1m ended 11s ago; polite: rollup waits for the release until 2026-11-21 12:03:49 UTC, 3m49s more

waiter  1. hotfix  priority 90  host h1  pid 12
        waiting since 2026-11-21 11:59:18 UTC, 42s ago; forceful

waiter  2. rollup  priority 50  host h2  pid 13
        waiting since 2026-11-21 11:58:45 UTC, 1m15s ago; waits 5m for a cleanup
`, out.String())
}

func TestShowSaysWhatAPolitePreemptorWaitsFor(t *testing.T) {
	for want, change := range map[string]func(*lock.State){
		"polite: rollup waits for the release until 2026-11-21 12:03:49 UTC, 3m49s more": func(*lock.State) {},
		"polite: rollup waits for the release":                                           func(s *lock.State) { s.Waiters[1].WaitingTimeout = nil },
		"polite: the waiting timeout of rollup ended 11s ago":                            func(s *lock.State) { s.Waiters[1].WaitingTimeout = new(time.Minute) },
		"polite: rollup no longer waits":                                                 func(s *lock.State) { s.Waiters = s.Waiters[:1] },
		"evicted after that, unless it releases first":                                   func(s *lock.State) { s.Holders[0].PreemptedBy[1].Forceful = true },
	} {
		s := contended()
		change(&s)
		require.Equal(t, want, patience(s, s.Holders[0].PreemptedBy[1]))
	}
}

func TestShowNamesTheFrozenAndTheDelayed(t *testing.T) {
	s := lock.State{
		Scope: "db/orders", At: at(0), Waiters: []lock.Contender{hotfix()},
		Delays: []lock.Delay{{ID: "gone", Owner: "nightly-reindex", LockDelay: time.Minute, Until: at(20 * time.Second)}},
	}
	var out bytes.Buffer
	writeLock(&out, s, "", live.FrozenFor("db/orders", outside()), false)
	require.Equal(t, `db/orders: delayed, 1 waiting, 1 frozen

delay   delayed until about 2026-11-21 12:00:20 UTC, 20s more, after the unclean end of nightly-reindex: no request is granted it before (lock_delay 1m)

waiter  1. hotfix-migrate  priority 90  host h1  pid 12
        delayed since 2026-11-21 11:59:19 UTC, 41s ago; forceful

frozen  importer-19  host h4  pid 14
        since 2026-11-21 11:59:40 UTC, out of db/orders by override INC-4411 of ana until 13:00:00 (in 1h): disks are failing
`, out.String())
}

func TestShowOfAHolderPastItsLease(t *testing.T) {
	s := contended()
	s.Waiters = nil
	s.Holders[0].LeaseLeft = 0
	s.Holders[0].PreemptedBy = []lock.Preemptor{{Owner: "next", Reason: priority.LeaseExpired, At: at(-time.Second)}}
	var out bytes.Buffer
	writeLock(&out, s, "", nil, true)
	require.Equal(t, `db/orders: held, exclusive

holder  reindex  priority 40  host h3  pid 811
        since 2026-11-21 11:53:48 UTC, 6m12s ago; its lease of 10m is over: the next request gets the lock
        token 7301444
        it is cleaning up
        message: nightly
        id aaa, session 0x1f, cleanup timeout 1m
        preempted by next (priority 0), because its lease is over; it has no grace period; evicted after that, unless it releases first
`, out.String())
}

func TestShowSaysWhoIsNotPreemptedAndWhoDoesNot(t *testing.T) {
	s := contended()
	s.Holders[0].MinRuntime, s.Holders[0].MinRuntimeLeft, s.Holders[0].PreemptedBy = 7*time.Minute, 48*time.Second, nil
	s.Waiters[0].NeverPreempts, s.Waiters[1].PreemptDelta = true, 20
	var out bytes.Buffer
	writeLock(&out, s, "", nil, false)
	require.Contains(t, out.String(), "\n        not preempted for a higher priority before 12:00:48, in 48s (min_runtime 7m)\n")
	require.Contains(t, out.String(), "42s ago; forceful; never preempts\n")
	require.Contains(t, out.String(), "1m15s ago; waits 5m for a cleanup; preempts those 20 below it\n")

	out.Reset()
	writeLocks(&out, []ensembleLocks{{states: []lock.State{s}}}, true)
	require.Regexp(t, `(?m)TOKEN\tMIN RUNTIME\tPREEMPTED BY`, out.String())
	require.Contains(t, out.String(), "\t7301444\t48s\t-\tnightly\n")

	s.Holders[0].MinRuntimeLeft = 0
	out.Reset()
	writeLocks(&out, []ensembleLocks{{states: []lock.State{s}}}, true)
	require.Contains(t, out.String(), "\t7301444\tover\t-\t")
	s.Holders[0].MinRuntimeLeft, s.Holders[0].LeaseLeft = 48*time.Second, 48*time.Second
	out.Reset()
	writeLock(&out, s, "", nil, false)
	require.Contains(t, out.String(), "not preempted for a higher priority before its lease is over (min_runtime)\n")
}

func TestTextOfOthersCannotPlayTricksOnTheTerminal(t *testing.T) {
	s := contended()
	s.Holders[0].Message = "\x1b[2J\nscope: free"
	var out bytes.Buffer
	writeLock(&out, s, "", nil, false)
	require.NotContains(t, out.String(), "\x1b")
	require.Contains(t, out.String(), "message: \uFFFD[2J\uFFFDscope: free\n")

	out.Reset()
	writeLocks(&out, []ensembleLocks{{states: []lock.State{s}}}, true)
	require.NotContains(t, out.String(), "\x1b")
}

func TestDurationsForPeople(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second:            "0s",
		0:                       "0s",
		850 * time.Millisecond:  "850ms",
		1900 * time.Millisecond: "1s",
		time.Minute:             "1m",
		372 * time.Second:       "6m12s",
		3 * time.Hour:           "3h",
		3*time.Hour + 5*time.Minute + time.Second: "3h5m",
		98*time.Hour + time.Minute:                "4d2h",
		24 * time.Hour:                            "1d",
	} {
		require.Equal(t, want, human(d), d.String())
	}
}

func TestShowSaysWhoHoldsTogether(t *testing.T) {
	s := contended()
	s.Waiters = nil
	agent := s.Holders[0]
	agent.Hold, agent.PreemptedBy = "shop/order-17", nil
	activity := agent
	activity.ID, activity.Owner, activity.Host = "ddd", "charge", "h4"
	s.Holders = []lock.Contender{agent, activity}
	var out bytes.Buffer
	writeLock(&out, s, "", nil, false)
	require.Equal(t, `db/orders: held, exclusive

holder  reindex  priority 40  host h3  pid 811
        since 2026-11-21 11:53:48 UTC, 6m12s ago; 3m48s left of its lease of 10m
        token 7301444
        hold shop/order-17, together with 1 other: the lock is held until both have gone
        message: nightly

holder  charge  priority 40  host h4  pid 811
        since 2026-11-21 11:53:48 UTC, 6m12s ago; 3m48s left of its lease of 10m
        token 7301444
        hold shop/order-17, together with 1 other: the lock is held until both have gone
        message: nightly
`, out.String())
	require.Equal(t, "shop/order-17", live.NewLock(s).Holders[1].Hold)
	require.Equal(t, "no waiters: it is free then", afterWords(s, false))
	require.Equal(t, "charge lost it to next, who has adopted its hold",
		live.Words{State: lock.State{At: at(0)}}.Eviction(lock.Eviction{Owner: "charge", By: "next", Reason: lock.Superseded}))
}
