package config

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestSampleFileIsReadCompletely(t *testing.T) {
	cfg, err := Load("testdata/lockkeeper.yaml", Options{Env: func(string) (string, bool) { return "", false }})
	require.NoError(t, err)

	require.Empty(t, cfg.Warnings)
	require.Equal(t, "testdata/lockkeeper.yaml", cfg.File)
	require.Equal(t, lock.Config{
		Auth:           &lock.Digest{User: "lockkeeper", Password: "not-a-secret"},
		Operators:      []string{lock.DigestID("lockkeeper", "not-a-secret"), "x509:CN=ana,OU=operations,O=example"},
		Root:           "/lockkeeper",
		Servers:        []string{"zk1:2181", "zk2:2181", "zk3:2181"},
		SessionTimeout: 15 * time.Second,
	}, cfg.Client)
	require.Equal(t, map[string]priority.Level{"critical": 90, "normal": 50, "batch": 20, "scavenger": 5}, cfg.Classes)
	require.Equal(t, "UTC", cfg.Defaults.Job.TimeZone)
	require.Equal(t, []Scope{
		{Name: "cluster/orders/resource/carts", Owner: "team-carts"},
		{LockDelay: ptr(30 * time.Second), Name: "cluster/orders/resource/totals", Owner: "team-orders"},
		{Name: "cluster/orders/resource/users", Owner: "team-orders"},
	}, cfg.Scopes)
	require.Equal(t, time.Minute, cfg.Drain.Finish)
	require.Equal(t, Log{Format: "json", Level: slog.LevelInfo}, cfg.Log)

	require.Equal(t, []group.Spec{
		{
			CleanupTimeout: 10 * time.Second, Debounce: 100 * time.Millisecond, Holders: 1, Locks: group.NumberedLocks("lock-group", 12), Name: "lock-group",
			Participants: []string{"localhost_12001", "localhost_12002", "localhost_12003"}, Pins: map[string]string{"lock-group_3": "localhost_12001"},
			Strategy: "balanced",
		},
		{
			CleanupTimeout: 10 * time.Second, Debounce: 100 * time.Millisecond, Holders: 2, Locks: []string{"users", "carts", "orders"}, Name: "shards",
			Strategy: "weighted", Weights: map[string]float64{"big": 2, "small": 0.5}, Zones: map[string]string{"big": "a", "small": "b"},
		},
	}, cfg.Groups)
	require.Len(t, cfg.Jobs, 7)
	defer cfg.Close()
	backup, compact, hotfix, move, report := cfg.Jobs[0], cfg.Jobs[1], cfg.Jobs[2], cfg.Jobs[3], cfg.Jobs[6]
	require.Equal(t, "backup", backup.Name)
	require.Equal(t, "0 2 * * *", backup.Schedule)
	require.Equal(t, "Europe/Berlin", backup.TimeZone)
	require.Equal(t, 50*time.Minute, backup.Timeout)
	require.Equal(t, []lockguard.Requirement{{
		Terms: priority.Terms{
			AcquireTimeout: ptr(30 * time.Minute), CleanupTimeout: 2 * time.Minute, LeaseTimeout: time.Hour, MinRuntime: time.Minute, PreemptDelta: 10,
			Priority: 50, WaitingTimeout: ptr(5 * time.Minute),
		}, Message: "nightly backup",
		Class: "cluster/{name}/resource/{name}",
		Owner: "backup", Scope: "cluster/orders/resource/users",
	}}, backup.Requirements)
	require.Implements(t, (*jobs.Cleaner)(nil), backup.Work)

	require.Equal(t, []lockguard.Requirement{{
		Terms: priority.Terms{CleanupTimeout: 30 * time.Second, LeaseTimeout: 10 * time.Minute, MinRuntime: time.Minute, PreemptDelta: 10, Priority: 20}, Owner: "compact", Scope: "cluster/orders/resource/users",
	}}, compact.Requirements)
	require.Equal(t, &jobs.Command{Argv: []string{"/usr/local/bin/compact", "--all"}, CleanupTimeout: 30 * time.Second}, compact.Work)

	require.Equal(t, []lockguard.Requirement{{
		Terms: priority.Terms{
			CleanupTimeout: 30 * time.Second, Forceful: true, LeaseTimeout: 10 * time.Minute, MinRuntime: time.Minute, PreemptDelta: 10, Priority: 90,
			WaitingTimeout: ptr(3 * time.Minute),
		}, Owner: "hotfix",
		Scope: "cluster/orders/resource/users",
	}}, hotfix.Requirements)

	require.Equal(t, []lockguard.Requirement{
		{
			Terms: priority.Terms{
				CleanupTimeout: 30 * time.Second, LeaseTimeout: 10 * time.Minute, MinRuntime: time.Minute, PreemptDelta: 10, Priority: 20,
				WaitingTimeout: ptr(5 * time.Minute),
			}, Owner: "move",
			Scope: "cluster/orders/resource/users",
		},
		{
			Terms: priority.Terms{
				CleanupTimeout: 30 * time.Second, LeaseTimeout: 10 * time.Minute, MinRuntime: time.Minute, PreemptDelta: 10, Priority: 20,
				LockDelay: 30 * time.Second, Mode: priority.Shared, WaitingTimeout: ptr(5 * time.Minute),
			}, Owner: "move",
			Scope: "cluster/orders/resource/totals",
		},
	}, move.Requirements)

	require.Empty(t, report.Requirements)
	for _, job := range cfg.Jobs {
		require.NoError(t, job.Validate())
	}
}

func ptr[T any](v T) *T { return new(v) }

func TestEverythingThatIsWrongIsReportedAtOnceAndInOrder(t *testing.T) {
	_, err := Load("testdata/wrong.yaml", testOptions())
	require.Error(t, err)

	got := strings.ReplaceAll(err.Error(), `testdata\`, "testdata/") + "\n"
	golden := "testdata/wrong.golden"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got)

	// Each line of the file that is wrong says so, and how often.
	text, err := os.ReadFile("testdata/wrong.yaml")
	require.NoError(t, err)
	promised := 0
	for i, line := range strings.Split(string(text), "\n")[1:] {
		_, numbers, found := strings.Cut(line, "  # ")
		if !found {
			continue
		}
		for range strings.SplitSeq(numbers, ", ") {
			promised++
		}
		require.Contains(t, got, fmt.Sprintf("wrong.yaml:%d:", i+2), line)
	}
	require.Equal(t, promised, strings.Count(got, "\n"))
}

func TestFileThatCannotBeReadIsOneProblemWithoutALine(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing.yaml")

	_, err := Load(missing, Options{})
	require.EqualError(t, err, missing+": the file cannot be read: no such file or directory; name a file that this user can read")

	_, err = Load(dir, Options{})
	require.EqualError(t, err, dir+": the file cannot be read: is a directory; name a file that this user can read")
}

func TestEmptySettingsHaveDefaults(t *testing.T) {
	cfg := mustParse(t, job(""))

	require.Equal(t, lock.Config{SessionTimeout: 15 * time.Second}, cfg.Client)
	require.Equal(t, Defaults{Job: jobs.Job{TimeZone: "UTC"}, Lock: lockguard.Requirement{Terms: priority.Terms{LeaseTimeout: 10 * time.Minute}}}, cfg.Defaults)
	require.Equal(t, scheduler.DefaultDrainFinish, cfg.Drain.Finish)
	require.Equal(t, Log{Format: "text", Level: slog.LevelInfo}, cfg.Log)
	require.Empty(t, cfg.Scopes)
	require.Empty(t, cfg.Classes)
	require.Equal(t, []jobs.Job{{Name: "a", Schedule: "@daily", TimeZone: "UTC", Work: &jobs.Command{Argv: []string{"x"}}}}, cfg.Jobs)
}

func TestLongErrorListIsCut(t *testing.T) {
	var text strings.Builder
	for i := range 250 {
		fmt.Fprintf(&text, "unknown%d: 1\n", i)
	}
	_, err := Parse("f", []byte("version: 1\n"+text.String()+"jobs: {a: {schedule: '@daily', run: [x]}}\n"), Options{})
	lines := strings.Split(err.Error(), "\n")
	require.Len(t, lines, shown+1)
	require.Equal(t, "f: 150 more problems", lines[shown])
}

// A place is where a shape stands in a file, %s being the fields.
type place struct {
	shape *shape
	text  string
}

var places = []place{
	{&fileShape, "%s"},
	{&zookeeperShape, "zookeeper: {%s}"},
	{&ensembleShape, "zookeeper: {ensembles: {e: {%s}}}"},
	{&temporalShape, "temporal: {%s}"},
	{&temporalTLSShape, "temporal: {tls: {%s}}"},
	{&authShape, "zookeeper: {auth: {%s}}"},
	{&tlsShape, "zookeeper: {tls: {%s}}"},
	{&prioritiesShape, "priorities: {%s}"},
	{&classShape, "priorities: {classes: {c: {%s}}}"},
	{&defaultsShape, "defaults: {%s}"},
	{&defaultsLockShape, "defaults: {lock: {%s}}"},
	{&scopeShape, "scopes: {s: {%s}}"},
	{&jobShape, "jobs: {j: {%s}}"},
	{&runShape, "jobs: {j: {run: {%s}}}"},
	{&cleanupShape, "jobs: {j: {run: {cleanup: {%s}}}}"},
	{&httpShape, "jobs: {j: {run: {http: {%s}}}}"},
	{&workflowShape, "jobs: {j: {run: {temporal: {%s}}}}"},
	{&lockShape, "jobs: {j: {locks: [{%s}]}}"},
	{&logShape, "log: {%s}"},
	{&drainShape, "drain: {%s}"},
	{&overlapShape, "defaults: {overlap: {%s}}"},
	{&misfireShape, "jobs: {j: {misfire: {%s}}}"},
	{&dstShape, "jobs: {j: {dst: {%s}}}"},
	{&retryShape, "defaults: {retry: {%s}}"},
	{&onPreemptShape, "jobs: {j: {on_preempt: {%s}}}"},
	{&blackoutShape, "jobs: {j: {blackout: [{%s}]}}"},
	{&schedulerShape, "scheduler: {%s}"},
	{&emergencyShape, "emergency: {%s}"},
	{&approvalsShape, "approvals: {%s}"},
	{&schedulesShape, "temporal: {schedules: {%s}}"},
	{&approvalsTemporalShape, "approvals: {temporal: {%s}}"},
	{&escalationShape, "approvals: {temporal: {escalation: [{%s}]}}"},
	{&ruleShape, "approvals: {rules: [{%s}]}"},
	{&whenShape, "approvals: {rules: [{when: {%s}}]}"},
	{&partyShape, "approvals: {rules: [{when: {victim: {%s}}}]}"},
	{&auditShape, "audit: {%s}"},
	{&metricsShape, "metrics: {%s}"},
	{&consoleShape, "console: {%s}"},
	{&consoleProxyShape, "console: {proxy: {%s}}"},
	{&consoleTLSShape, "console: {tls: {%s}}"},
	{&consoleLinksShape, "console: {links: {%s}}"},
	{&groupShape, "groups: [{%s}]"},
}

// overridePlaces are those of an overrides file.
var overridePlaces = []place{
	{&overridesFileShape, "%s"},
	{&overrideShape, "overrides: [{%s}]"},
	{&matchShape, "overrides: [{match: {%s}}]"},
}

// odd is a value that a field cannot have.
func odd(field string) string {
	if field == "args" {
		return "{}"
	}
	return "[[[x]]]"
}

// Every field that a file may have has to be read: a value that cannot be
// right must be refused. A field that is only known would be a setting that
// does nothing.
func TestEveryFieldIsRead(t *testing.T) {
	for i, place := range slices.Concat(places, overridePlaces) {
		require.NotEmpty(t, place.shape.keys)
		for _, field := range place.shape.names() {
			text := fmt.Sprintf(place.text, field+": "+odd(field))
			_, problems, _ := parse(t, text)
			if i >= len(places) {
				_, problems, _ = parseOverrides(t, text, "")
			}
			require.Contains(t, strings.Join(problems, "\n"), field, "%s in %s", field, place.shape.name)
			require.NotContains(t, strings.Join(problems, "\n"), "unknown field", "%s in %s", field, place.shape.name)
		}
		for _, field := range place.shape.later {
			require.NotContains(t, place.shape.names(), field, "%s is there now", field)
		}
		for field := range place.shape.hints {
			require.NotContains(t, place.shape.names(), field)
		}
	}
}
