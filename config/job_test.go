package config

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

func TestLockSettingsComeFromJobThenDefaultsThenKindOfWork(t *testing.T) {
	cfg := mustParse(t, `
version: 1
priorities: {classes: {batch: 20}}
defaults: {lock: {lease_timeout: 20m, waiting_timeout: 1m, priority: batch, forceful: true}}
jobs:
  own:       {schedule: "@daily", run: [x], locks: [{scope: s, lease_timeout: 5m, cleanup_timeout: 4m, waiting_timeout: 0, acquire_timeout: 2m, priority: 7, forceful: false, mode: exclusive}]}
  inherits:  {schedule: "@daily", run: [x], locks: [{scope: s}]}
  unlimited: {schedule: "@daily", run: [x], locks: [{scope: s, waiting_timeout: unset}]}
  function:  {schedule: "@daily", run: "go:reindex", locks: [{scope: s}]}
`)
	own, inherits, unlimited, function := cfg.Jobs[0].Requirements[0], cfg.Jobs[1].Requirements[0], cfg.Jobs[2].Requirements[0], cfg.Jobs[3].Requirements[0]

	require.Equal(t, 5*time.Minute, own.LeaseTimeout)
	require.Equal(t, 4*time.Minute, own.CleanupTimeout)
	require.Equal(t, ptr(time.Duration(0)), own.WaitingTimeout)
	require.Equal(t, ptr(2*time.Minute), own.AcquireTimeout)
	require.Equal(t, priority.Level(7), own.Priority)
	require.False(t, own.Forceful)

	require.Equal(t, 20*time.Minute, inherits.LeaseTimeout)
	require.Equal(t, 10*time.Second, inherits.CleanupTimeout, "the default of commands")
	require.Equal(t, ptr(time.Minute), inherits.WaitingTimeout)
	require.Nil(t, inherits.AcquireTimeout)
	require.Equal(t, priority.Level(20), inherits.Priority)
	require.True(t, inherits.Forceful)

	require.Nil(t, unlimited.WaitingTimeout)
	require.Zero(t, function.CleanupTimeout, "only commands have a default")
}

func TestCleanupTimeoutOfTheDefaultsHoldsForCommandsToo(t *testing.T) {
	cfg := mustParse(t, file(`defaults: {lock: {cleanup_timeout: 0}}
jobs: {a: {schedule: "@daily", run: [x], locks: [{scope: s}]}}
`))
	require.Zero(t, cfg.Jobs[0].Requirements[0].CleanupTimeout)
	require.Negative(t, cfg.Jobs[0].Work.(*jobs.Command).CleanupTimeout, "no cleanup: it is killed at once")
}

func TestCommandGetsItsSettings(t *testing.T) {
	dir := t.TempDir()
	cfg := mustParse(t, job("run: {command: [sh, -c, 5, true, \"\"], env: {B: \"$${x}\", A: 1, C: \"\"}, dir: "+dir+"}\nlocks: [{scope: s, cleanup_timeout: 7s}]"))
	command := cfg.Jobs[0].Work.(*jobs.Command)

	require.Equal(t, []string{"sh", "-c", "5", "true", ""}, command.Argv)
	require.Equal(t, dir, command.Dir)
	require.Equal(t, 7*time.Second, command.CleanupTimeout)
	require.Nil(t, command.Env, "that of the daemon")
	require.Equal(t, []string{"A=1", "B=${x}", "C="}, command.AddEnv)
}

func TestRelativeDirectoryIsThatOfTheFile(t *testing.T) {
	cfg := mustParse(t, job("run: {command: [x], dir: fuzz}"))
	require.Equal(t, filepath.Join("testdata", "fuzz"), cfg.Jobs[0].Work.(*jobs.Command).Dir)
}

func TestCleanupCommandRunsInTheEnvironmentOfItsJob(t *testing.T) {
	dir := t.TempDir()
	cfg := mustParse(t, job(`
run:
  command: ["true"]
  env: {WORD: cleaned}
  dir: `+dir+`
  cleanup: [sh, -c, 'echo $WORD >result']
locks: [{scope: s}]
`))
	cleaner, ok := cfg.Jobs[0].Work.(jobs.Cleaner)
	require.True(t, ok)
	require.NoError(t, cleaner.Cleanup(context.Background(), jobs.Run{}))

	result, err := os.ReadFile(filepath.Join(dir, "result"))
	require.NoError(t, err)
	require.Equal(t, "cleaned\n", string(result))
}

func TestJobMayNeedSeveralLocks(t *testing.T) {
	cfg := mustParse(t, file(`defaults: {lock: {lease_timeout: 1h}}
jobs:
  move:
    schedule: "@daily"
    run: [mv, a, b]
    locks:
      - {scope: cluster/users, priority: 7, cleanup_timeout: 20s}
      - {scope: cluster/orders, message: both or none, cleanup_timeout: 5s}
`))
	require.Equal(t, []lockguard.Requirement{
		{Scope: "cluster/users", Owner: "move", Terms: priority.Terms{Priority: 7, LeaseTimeout: time.Hour, CleanupTimeout: 20 * time.Second}},
		{Scope: "cluster/orders", Owner: "move", Message: "both or none", Terms: priority.Terms{LeaseTimeout: time.Hour, CleanupTimeout: 5 * time.Second}},
	}, cfg.Jobs[0].Requirements, "in the order of the file")
	require.Equal(t, 5*time.Second, cfg.Jobs[0].Work.(*jobs.Command).CleanupTimeout, "the shortest: any of the locks may have to go")
}

func TestGoFunctionIsFoundByItsName(t *testing.T) {
	called := false
	cfg, err := Parse("f", []byte(job("run: go:reindex")), Options{Funcs: map[string]jobs.Work{
		"reindex": jobs.Func(func(context.Context, jobs.Run) error { called = true; return nil }),
	}})
	require.NoError(t, err)
	require.NoError(t, cfg.Jobs[0].Work.Run(context.Background(), jobs.Run{}))
	require.True(t, called)
}

func TestScheduleWithItsOwnZoneDoesNotGetTheDefault(t *testing.T) {
	cfg := mustParse(t, file(`defaults: {timezone: Europe/Berlin}
jobs:
  own: {schedule: "CRON_TZ=Asia/Tokyo 0 2 * * *", run: [x]}
  default: {schedule: "0 2 * * *", run: [x]}
`))
	require.Empty(t, cfg.Jobs[0].TimeZone)
	require.Equal(t, "Europe/Berlin", cfg.Jobs[1].TimeZone)
}

func TestServersAreAListOrAConnectString(t *testing.T) {
	client := mustParse(t, file("zookeeper: {servers: [zk1, \"zk2:2182\", \"[::1]:2183\"]}\n")).Client
	require.Equal(t, []string{"zk1:2181", "zk2:2182", "[::1]:2183"}, client.Servers)
	require.Empty(t, client.Chroot)

	client = mustParse(t, file("zookeeper: {servers: \"zk1:2181,zk2/tenants/a\", root: /lk/prod}\n")).Client
	require.Equal(t, []string{"zk1:2181", "zk2:2181"}, client.Servers)
	require.Equal(t, "/tenants/a", client.Chroot)
	require.Equal(t, "/lk/prod", client.Root)
}
