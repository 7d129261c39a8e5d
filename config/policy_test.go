package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

func TestPoliciesOfAJob(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want jobs.Job
	}{
		"overlap, a word":           {"overlap: buffer-one", jobs.Job{Overlap: jobs.Overlap{Policy: jobs.OverlapBufferOne}}},
		"overlap, a mapping":        {"overlap: {policy: buffer-all, max: 5}", jobs.Job{Overlap: jobs.Overlap{Policy: jobs.OverlapBufferAll, Max: 5}}},
		"misfire, a word":           {"misfire: all", jobs.Job{Misfire: jobs.Misfire{Policy: jobs.MisfireAll}}},
		"misfire, a mapping":        {"misfire: {policy: all, window: 1h, max: 7}", jobs.Job{Misfire: jobs.Misfire{Policy: jobs.MisfireAll, Window: time.Hour, Max: 7}}},
		"misfire, the window alone": {"misfire: {window: 1h}", jobs.Job{Misfire: jobs.Misfire{Window: time.Hour}}},
		"dst":                       {"dst: {gap: skip, overlap: both}", jobs.Job{DST: jobs.DST{Gap: jobs.GapSkip, Overlap: jobs.FoldBoth}}},
		"jitter":                    {"jitter: 30s", jobs.Job{Jitter: 30 * time.Second}},
		"timeout":                   {"timeout: 30s", jobs.Job{Timeout: 30 * time.Second}},
		"timeout, taken back":       {"timeout: unset", jobs.Job{}},
		"retry, a number":           {"retry: 3", jobs.Job{Retry: jobs.Retry{Max: 3}}},
		"retry, a mapping":          {"retry: {max: 3, initial: 5s, max_interval: 1m}", jobs.Job{Retry: jobs.Retry{Max: 3, Initial: 5 * time.Second, MaxInterval: time.Minute}}},
		"retry, short pauses":       {"retry: {max: 3, max_interval: 2s}", jobs.Job{Retry: jobs.Retry{Max: 3, Initial: 2 * time.Second, MaxInterval: 2 * time.Second}}},
		"pause":                     {"pause_after_failures: 5\npause_for: 1h", jobs.Job{PauseAfterFailures: 5, PauseFor: time.Hour}},
		"stuck":                     {"stuck_after: 1m", jobs.Job{StuckAfter: time.Minute}},
		"no blackouts":              {"blackout: []", jobs.Job{}},
		"blackouts": {
			"blackout: [{schedule: \"0 22 24 12 *\", for: 34h, reason: holidays, timezone: Europe/Berlin}, {schedule: \"@weekly\", for: 1h}]",
			jobs.Job{Blackouts: []jobs.Blackout{
				{For: 34 * time.Hour, Reason: "holidays", Schedule: "0 22 24 12 *", TimeZone: "Europe/Berlin"}, {For: time.Hour, Schedule: "@weekly"},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			// given
			want := c.want
			want.Name, want.Schedule, want.TimeZone, want.Work = "a", "@daily", "UTC", &jobs.Command{Argv: []string{"x"}}

			// when
			cfg, problems, warnings := parse(t, job(c.text))

			// then
			require.Empty(t, problems)
			require.Empty(t, warnings)
			require.Equal(t, want, cfg.Jobs[0])
		})
	}
}

func TestPoliciesAroundLocks(t *testing.T) {
	got := mustParse(t, job("hold_at_least: 10s\non_preempt: {then: requeue, max_preemptions: 2}\nlocks: [{scope: s}]")).Jobs[0]
	require.Equal(t, 10*time.Second, got.HoldAtLeast)
	require.Equal(t, jobs.OnPreempt{Then: jobs.PreemptedRequeue, MaxPreemptions: 2}, got.OnPreempt)

	got = mustParse(t, job("on_preempt: requeue\nlocks: [{scope: s}]")).Jobs[0]
	require.Equal(t, jobs.OnPreempt{Then: jobs.PreemptedRequeue}, got.OnPreempt)
}

const policyDefaults = `defaults:
  timezone: Europe/Berlin
  dst: {gap: skip}
  misfire: {policy: all, max: 3}
  overlap: {policy: buffer-all, max: 4}
  blackout: [{schedule: "@weekly", for: 1h}]
  jitter: 10s
  timeout: 20s
  retry: {max: 2, initial: 1s}
  on_preempt: requeue
  pause_after_failures: 3
  pause_for: 1h
  stuck_after: 30s
`

func TestDefaultsHoldForJobsThatDoNotSayOtherwise(t *testing.T) {
	// given
	berlin := jobs.Job{
		Blackouts: []jobs.Blackout{{For: time.Hour, Schedule: "@weekly"}}, DST: jobs.DST{Gap: jobs.GapSkip}, Jitter: 10 * time.Second,
		Misfire: jobs.Misfire{Policy: jobs.MisfireAll, Max: 3}, OnPreempt: jobs.OnPreempt{Then: jobs.PreemptedRequeue},
		Overlap: jobs.Overlap{Policy: jobs.OverlapBufferAll, Max: 4}, PauseAfterFailures: 3, PauseFor: time.Hour,
		Retry: jobs.Retry{Max: 2, Initial: time.Second}, StuckAfter: 30 * time.Second, TimeZone: "Europe/Berlin", Timeout: 20 * time.Second,
	}
	plain := func(job jobs.Job) jobs.Job {
		job.Name, job.Schedule, job.Work, job.Requirements = "", "", nil, nil
		return job
	}

	// when
	cfg, problems, warnings := parse(t, file(policyDefaults+`jobs:
  same: {schedule: "@daily", run: [x], locks: [{scope: s}]}
  unlocked: {schedule: "@daily", run: [x]}
  own: {schedule: "@daily", run: [x], timezone: UTC, dst: {overlap: both}, misfire: skip, overlap: allow-all, blackout: [], jitter: 0,
    timeout: unset, retry: 0, on_preempt: skip, pause_after_failures: 0, stuck_after: 1s}
  less: {schedule: "@daily", run: [x], overlap: {max: 5, policy: allow-all}, retry: {max: 9}, pause_after_failures: 9}
`))

	// then
	require.Empty(t, problems)
	require.Empty(t, warnings)
	require.Equal(t, berlin, cfg.Defaults.Job)
	require.Equal(t, berlin, plain(cfg.Jobs[0]))

	unlocked := berlin
	unlocked.OnPreempt = jobs.OnPreempt{}
	require.Equal(t, unlocked, plain(cfg.Jobs[1]), "a job without locks cannot be preempted and needs no on_preempt")

	require.Equal(t, jobs.Job{
		DST: jobs.DST{Overlap: jobs.FoldBoth}, Misfire: jobs.Misfire{Policy: jobs.MisfireSkip}, OnPreempt: jobs.OnPreempt{Then: jobs.PreemptedSkip},
		Overlap: jobs.Overlap{Policy: jobs.OverlapAllowAll}, StuckAfter: time.Second, TimeZone: "UTC",
	}, plain(cfg.Jobs[2]), "what a job writes takes the place of the default as a whole")

	less := unlocked
	less.Overlap = jobs.Overlap{Policy: jobs.OverlapAllowAll, Max: 5}
	less.Retry, less.PauseAfterFailures = jobs.Retry{Max: 9}, 9
	require.Equal(t, less, plain(cfg.Jobs[3]))
}

func TestJobsDoNotShareTheirDefaults(t *testing.T) {
	cfg := mustParse(t, file("defaults: {blackout: [{schedule: '@weekly', for: 1h}]}\njobs:\n  a: {schedule: '@daily', run: [x]}\n  b: {schedule: '@daily', run: [x]}\n"))

	cfg.Jobs[0].Blackouts[0].Reason = "changed"

	require.Empty(t, cfg.Jobs[1].Blackouts[0].Reason)
}

func TestPolicyRules(t *testing.T) {
	locked := func(settings string) string { return job(settings + "\nlocks: [{scope: s}]") }
	for name, c := range map[string]struct{ text, want string }{
		"overlap, unknown":            {job("overlap: bufer-one"), `4:14 jobs[a].overlap: "bufer-one" is not possible here; did you mean "buffer-one"?`},
		"overlap, a list":             {job("overlap: [skip]"), "4:14 jobs[a].overlap: a list cannot stand here; write a policy such as buffer-one, or {policy: buffer-all, max: 10}"},
		"overlap, nothing":            {job("overlap:"), "4:13 jobs[a].overlap: has no value; write a policy such as buffer-one, or {policy: buffer-all, max: 10}"},
		"overlap, bound of none":      {job("overlap: {policy: skip, max: 3}"), "4:34 jobs[a].overlap.max: has no meaning for skip; it is for buffer-all and allow-all"},
		"overlap, bound alone":        {job("overlap: {max: 3}"), "4:20 jobs[a].overlap.max: has no meaning for skip; it is for buffer-all and allow-all"},
		"overlap, too much":           {job("overlap: {policy: allow-all, max: 101}"), "4:39 jobs[a].overlap.max: 101 is more than 100; write a smaller bound"},
		"overlap, none":               {job("overlap: {policy: allow-all, max: 0}"), "4:39 jobs[a].overlap.max: 0 is less than 1; write how many, 1 or more"},
		"misfire, unknown":            {job("misfire: onse"), `4:14 jobs[a].misfire: "onse" is not possible here; did you mean "once"?`},
		"misfire, unknown in mapping": {job("misfire: {policy: some}"), `4:23 jobs[a].misfire.policy: "some" is not possible here; write once or skip or all`},
		"misfire, bound of one":       {job("misfire: {policy: once, max: 3}"), "4:34 jobs[a].misfire.max: has no meaning unless the policy is all; leave it out"},
		"misfire, window of nothing":  {job("misfire: {window: 0}"), `4:23 jobs[a].misfire.window: "0" must be positive; write a duration such as "30s", or leave it out`},
		"dst, unknown":                {job("dst: {gap: both, overlap: skip}"), "4:16 jobs[a].dst.gap: \"both\" is not possible here; write run-after or skip\n4:31 jobs[a].dst.overlap: \"skip\" is not possible here; write first or both"},
		"dst, a word":                 {job("dst: skip"), `4:10 jobs[a].dst: "skip" is not a mapping; write it like {gap: run-after, overlap: first}`},
		"retry, negative":             {job("retry: -1"), "4:12 jobs[a].retry: -1 is less than 0; write how many times, 0 or more"},
		"retry, a list":               {job("retry: [1]"), "4:12 jobs[a].retry: a list is not a mapping; write how many times, for example 3, or {max: 3, initial: 10s}"},
		"retry, pauses of none":       {job("retry: {initial: 1s}"), "4:12 jobs[a].retry: is 0, so the pauses have no meaning; write how many times to try again"},
		"retry, first is longest":     {job("retry: {max: 1, initial: 2m, max_interval: 1m}"), "4:30 jobs[a].retry.initial: initial (2m0s) is longer than max_interval (1m0s); shorten the one or lengthen the other"},
		"retry, as others call it":    {job("retry: {attempts: 1}"), `4:13 jobs[a].retry: unknown field "attempts"; did you mean "max"?`},
		"preempted without a lock":    {job("on_preempt: requeue"), "4:17 jobs[a].on_preempt: on_preempt requeue: there is no lock that could be preempted; write the job's locks, or remove it"},
		"preempted too often":         {locked("on_preempt: {then: skip, max_preemptions: 2}"), "4:47 jobs[a].on_preempt.max_preemptions: has no meaning unless then is requeue; leave it out"},
		"held without a lock":         {job("hold_at_least: 1m"), "4:20 jobs[a].hold_at_least: hold_at_least: there is no lock to hold; write the job's locks, or remove it"},
		"pause without a reason":      {job("pause_for: 1h"), "4:16 jobs[a].pause_for: pause_for has no meaning without pause_after_failures; write that as well, or remove pause_for"},
		"pause after less than none":  {job("pause_after_failures: -1"), "4:27 jobs[a].pause_after_failures: -1 is less than 0; write after how many failures in a row, or 0 for never"},
		"stuck at once":               {job("stuck_after: 0"), `4:18 jobs[a].stuck_after: "0" must be positive; write a duration such as "30s", or leave it out`},
		"jitter, negative":            {job("jitter: -5s"), `4:13 jobs[a].jitter: "-5s" is negative; write "5s"`},
		"jitter, as long as the period": {
			job("jitter: 5m\nschedule: \"@every 5m\""), "4:13 jobs[a].jitter: jitter (5m) must be shorter than the time between two ticks (5m); write a shorter jitter in the job",
		},
		"jitter, longer than the shortest period": {
			job("jitter: 90m\nschedule: \"0 9,10 * * *\""), "4:13 jobs[a].jitter: jitter (1h30m) must be shorter than the time between two ticks (1h); write a shorter jitter in the job",
		},
		"jitter of the defaults": {
			file("defaults: {jitter: 1m}\njobs:\n  a: {schedule: '@every 30s', run: [x]}\n  b: {schedule: manual, run: [x]}\n"),
			"4:3 jobs[a]: jitter (1m, from defaults) must be shorter than the time between two ticks (30s); write a shorter jitter in the job",
		},
		"blackout, a mapping":           {job("blackout: {for: 1h}"), `4:15 jobs[a].blackout: a mapping is not a list; write it like [{schedule: "0 22 24 12 *", for: 34h}], or [] for none`},
		"blackout, empty":               {job("blackout: [{}]"), "4:16 jobs[a].blackout[0]: schedule is missing; write when the window begins, for example schedule: \"0 22 24 12 *\"\n4:16 jobs[a].blackout[0]: for is missing; write how long the window lasts, for example for: 34h"},
		"blackout, too short":           {job("blackout: [{schedule: \"@daily\", for: 1ms}]"), "4:42 jobs[a].blackout[0].for: 1ms is shorter than a second; write how long the window lasts"},
		"blackout, too long":            {job("blackout: [{schedule: \"@daily\", for: 9000h}]"), "4:42 jobs[a].blackout[0].for: 9000h0m0s is longer than a year; pause the job instead"},
		"blackout, never":               {job("blackout: [{schedule: \"0 0 30 2 *\", for: 1h}]"), `4:27 jobs[a].blackout[0].schedule: "0 0 30 2 *": it is never due: no month has such a day; write for example "0 2 * * *" or "@every 5m"`},
		"blackout, manual":              {job("blackout: [{schedule: manual, for: 1h}]"), `4:27 jobs[a].blackout[0].schedule: "manual": the window never begins; write when, for example "0 22 24 12 *"`},
		"blackout, two zones":           {job("blackout: [{schedule: CRON_TZ=UTC @daily, timezone: UTC, for: 1h}]"), `4:27 jobs[a].blackout[0].schedule: "CRON_TZ=UTC @daily": the time zone is given twice, as "UTC" in front and as "UTC" beside it; drop one`},
		"blackout, a zone of its own":   {job("timezone: Europe/Berlin\nblackout: [{schedule: CRON_TZ=UTC @daily, for: 1h}]"), ""},
		"blackout, unknown zone":        {job("blackout: [{schedule: \"@daily\", timezone: Mars, for: 1h}]"), `4:47 jobs[a].blackout[0].timezone: "Mars" is not a time zone; write a name such as UTC or Europe/Berlin`},
		"blackout of the defaults":      {file("defaults: {blackout: [{schedule: \"x\", for: 1h}]}\n"), `2:34 defaults.blackout[0].schedule: "x": expected 5 or 6 fields (second, if any; minute, hour, day of month, month, day of week), found 1; write for example "0 2 * * *" or "@every 5m"`},
		"defaults of one job":           {file("defaults: {hold_at_least: 1s}\n"), `2:12 defaults: unknown field "hold_at_least"; it belongs to a job`},
		"least runtime over the lease":  {lockOf("min_runtime: 11m"), "4:37 jobs[a].locks[0].min_runtime: min_runtime (11m) is longer than lease_timeout (10m, the default); shorten the one or lengthen the other"},
		"least runtime of the defaults": {file("defaults: {lock: {min_runtime: 5m}}\njobs:\n  a: {schedule: '@daily', run: [x], locks: [{scope: s, lease_timeout: 2m}]}\n"), "4:71 jobs[a].locks[0].lease_timeout: min_runtime (5m, from defaults.lock) is longer than lease_timeout (2m); shorten the one or lengthen the other"},
		"least runtime is negative":     {lockOf("min_runtime: -1s"), `4:37 jobs[a].locks[0].min_runtime: -1s is negative; write how long the work is not to be preempted, or leave it out`},
		"lock-delay is negative":        {lockOf("lock_delay: -1s"), `4:36 jobs[a].locks[0].lock_delay: -1s is negative; write how long work that was cut off may still do harm, or leave it out`},
		"lock-delay without end":        {lockOf("lock_delay: 11m"), "4:36 jobs[a].locks[0].lock_delay: 11m is longer than 10m; write how long work that was cut off may still do harm"},
		"lock-delay of a scope":         {file("scopes: {s: {lock_delay: 1h}}\n"), "2:26 scopes[s].lock_delay: 1h is longer than 10m; write how long work that was cut off may still do harm"},
		"delta is negative":             {file("priorities: {preempt_delta: -1}\n"), "2:29 priorities.preempt_delta: -1 is negative; write 1 for any higher priority, or leave it out"},
		"class that preempts":           {file("priorities: {classes: {a: {value: 5, preempts: always}}}\n"), `2:48 priorities.classes[a].preempts: "always" is not possible here; write never`},
		"class with a least runtime":    {file("priorities: {min_runtime: 5m}\n"), `2:14 priorities: unknown field "min_runtime"; it belongs to a lock, or to all: defaults: {lock: {min_runtime: ...}}`},
		"drain twice":                   {file("drain_timeout: 1m\ndrain: {finish: 1m}\n"), "2:16 drain_timeout: drain_timeout is short for drain.finish, which stands at 3:17; remove one of them"},
		"drain, negative":               {file("drain: {finish: -1s, cancel: -1s}\n"), "2:17 drain.finish: \"-1s\" is negative; write \"1s\"\n2:30 drain.cancel: \"-1s\" is negative; write \"1s\""},
		"drain, as others call it":      {file("drain: {grace: 1s}\n"), `2:9 drain: unknown field "grace"; did you mean "cancel"?`},
		"state in a file":               {file("state_dir: lockkeeper.yaml\n"), `2:12 state_dir: "testdata/lockkeeper.yaml" is not a directory; name a directory, or what may become one`},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems, _ := parse(t, c.text)
			require.Equal(t, c.want, strings.Join(problems, "\n"), "%s", c.text)
		})
	}
}

func TestPolicyWarnings(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"forceful, but never preempts": {file("priorities: {classes: {low: {value: 1, preempts: never}}}\ndefaults: {lock: {priority: low, forceful: true}}\n"), "3:44 defaults.lock.forceful: warning: a class that never preempts takes nothing from a holder before its lease is over: forceful does little; remove it"},
		"window of nothing":            {job("misfire: {policy: skip, window: 1h}"), "4:37 jobs[a].misfire.window: warning: window does nothing with the policy skip; remove it"},
		"retries take longer than the period": {
			job("retry: 3\nschedule: \"@every 1m\""),
			"4:12 jobs[a].retry: warning: the pauses between 3 retries (1m10s in all) take longer than the time between two ticks (1m): ticks come due meanwhile; write a smaller max, or shorter pauses",
		},
		"retries beside other runs":          {job("retry: 3\noverlap: allow-all\nschedule: \"@every 1m\""), ""},
		"very many retries":                  {job("retry: 2147483647\nschedule: manual"), ""},
		"held longer than the lease":         {job("hold_at_least: 20m\nlocks: [{scope: s}]"), "4:20 jobs[a].hold_at_least: warning: hold_at_least (20m) is longer than lease_timeout (10m, the default): after the lease any request may preempt the job; write a lease_timeout as long as the locks are to be held"},
		"held from tick to tick":             {job("hold_at_least: 1m\nschedule: \"@every 1m\"\nlocks: [{scope: s}]"), "4:20 jobs[a].hold_at_least: warning: hold_at_least (1m) is not shorter than the time between two ticks (1m): ticks come due meanwhile; write a shorter one"},
		"timeout of the defaults, own lease": {file("defaults: {timeout: 1h}\njobs:\n  a: {schedule: '@daily', run: [x], locks: [{scope: s, lease_timeout: 5m}]}\n"), "4:71 jobs[a].locks[0].lease_timeout: warning: timeout (1h, from defaults) is longer than lease_timeout (5m): after the lease any request may preempt the job; write a lease_timeout as long as the work may take"},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems, warnings := parse(t, c.text)
			require.Empty(t, problems)
			require.Equal(t, c.want, strings.Join(warnings, "\n"), "%s", c.text)
		})
	}
}

func TestWhoMayPreemptWhom(t *testing.T) {
	cfg := mustParse(t, file(`priorities: {preempt_delta: 10, classes: {batch: 20, scavenger: {value: 5, preempts: never}}}
defaults: {lock: {min_runtime: 1m}}
jobs:
  a: {schedule: '@daily', run: [x], locks: [{scope: s, priority: batch}, {scope: t, priority: scavenger, min_runtime: 0}, {scope: u, priority: 5}]}
`))

	batch, scavenger, number := cfg.Jobs[0].Requirements[0], cfg.Jobs[0].Requirements[1], cfg.Jobs[0].Requirements[2]
	require.Equal(t, lockguard.Requirement{
		Terms: priority.Terms{CleanupTimeout: 10 * time.Second, LeaseTimeout: 10 * time.Minute, MinRuntime: time.Minute, PreemptDelta: 10, Priority: 20}, Owner: "a", Scope: "s",
	}, batch)
	require.True(t, scavenger.NeverPreempts)
	require.Zero(t, scavenger.PreemptDelta)
	require.Zero(t, scavenger.MinRuntime)
	require.EqualValues(t, 5, scavenger.Priority)
	require.False(t, number.NeverPreempts, "a number belongs to no class")
	require.Equal(t, 10, number.PreemptDelta)
}

func TestLockDelayIsThatOfTheLockOrOfTheScopeOrOfTheDefaults(t *testing.T) {
	cfg := mustParse(t, file(`defaults: {lock: {lock_delay: 5s}}
scopes: {own: {lock_delay: 10s}, scope: {lock_delay: 10s}, none: {lock_delay: 0}, defaults: {}}
jobs:
  a: {schedule: '@daily', run: [x], locks: [{scope: own, lock_delay: 15s}, {scope: scope}, {scope: none}, {scope: defaults}]}
`))
	var delays []time.Duration
	for _, r := range cfg.Jobs[0].Requirements {
		delays = append(delays, r.LockDelay)
	}
	require.Equal(t, []time.Duration{15 * time.Second, 10 * time.Second, 0, 5 * time.Second}, delays)
}

func TestScheduleThatIsSpreadByTheNameOfItsJob(t *testing.T) {
	cfg := mustParse(t, job("schedule: \"H 2 * * *\"\nblackout: [{schedule: \"H 0 * * 0\", for: 1h}]"))
	require.Equal(t, "H 2 * * *", cfg.Jobs[0].Schedule)
}

func TestDrain(t *testing.T) {
	const finish, cancel, release = scheduler.DefaultDrainFinish, scheduler.DefaultDrainCancel, scheduler.DefaultDrainRelease
	for text, want := range map[string]scheduler.Drain{
		"":                      {Finish: finish, Cancel: cancel, Release: release},
		"drain_timeout: 0\n":    {Finish: -1, Cancel: cancel, Release: release},
		"drain_timeout: 1m\n":   {Finish: time.Minute, Cancel: cancel, Release: release},
		"drain: {finish: 1m}\n": {Finish: time.Minute, Cancel: cancel, Release: release},
		"drain: {finish: 0, cancel: 0, release: 0}\n":           {Finish: -1, Cancel: -1, Release: -1},
		"drain_timeout: 5s\ndrain: {cancel: 7s, release: 3s}\n": {Finish: 5 * time.Second, Cancel: 7 * time.Second, Release: 3 * time.Second},
	} {
		require.Equal(t, want, mustParse(t, file(text)).Drain, text)
	}
}

func TestStateDirectoryIsBesideTheFile(t *testing.T) {
	require.Empty(t, mustParse(t, file("")).StateDir)
	require.Equal(t, "testdata/state", mustParse(t, file("state_dir: state\n")).StateDir)
	require.Equal(t, "/var/lib/lockkeeper", mustParse(t, file("state_dir: /var/lib/lockkeeper\n")).StateDir)
}

func TestPausesBetweenRetriesAddUp(t *testing.T) {
	for _, c := range []struct {
		retry jobs.Retry
		want  string
	}{
		{jobs.Retry{}, "0s"},
		{jobs.Retry{Max: 1}, "10s"},
		{jobs.Retry{Max: 3}, "1m10s"},
		{jobs.Retry{Max: 7}, "15m10s"}, // 10, 20, 40, 80, 160 and twice 300 seconds
		{jobs.Retry{Max: 2, Initial: time.Hour}, "2h0m0s"},
	} {
		require.Equal(t, c.want, retryPauses(c.retry).String(), fmt.Sprint(c.retry))
	}
	require.Positive(t, retryPauses(jobs.Retry{Max: 1<<31 - 1, Initial: time.Hour, MaxInterval: 1 << 62}), "no overflow")
}
