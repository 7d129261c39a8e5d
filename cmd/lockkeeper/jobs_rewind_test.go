package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// stop leaves the job backup as a daemon of an older version does whose clock was a
// day ahead: it has run a tick of tomorrow five minutes ago.
func (f *fortress) stop(t *testing.T) (until time.Time) {
	t.Helper()
	now := time.Now().UTC().Truncate(time.Second)
	until = now.Add(24 * time.Hour)
	run := func(id string, at, claimed time.Time) string {
		return fmt.Sprintf(`{"id":%q,"who":1,"at":%q,"claimed":%d,"end":"ran","took":9,"ended":%d}`,
			id, at.Format(time.RFC3339), claimed.UnixMilli(), claimed.UnixMilli()+9)
	}
	record := fmt.Sprintf(`{"format":1,"job":"backup","last":%q,"owners":[{"n":1,"ledger":"l","owner":"db3:7","host":"db3","pid":7}],"counts":{"ran":2}}`, until.Format(time.RFC3339)) +
		"\n" + run("a", now.Add(-time.Hour), now.Add(-time.Hour)) + "\n" + run("b", until, now.Add(-5*time.Minute))
	require.NoError(t, f.zk.Set("/lockkeeper/ticks/backup", []byte(record)))
	return until
}

// Given a job that a daemon whose clock was ahead has stopped, then every command that
// is about it says so with the remedy, and the remedy works, on record.
func TestJobThatAClockHasStoppedIsShownAndSetBack(t *testing.T) {
	f := newFortress(t, time.Minute)
	daemon := newDaemon(t, f)
	until := f.stop(t)
	stopped := fmt.Sprintf("backup is stopped until %s, 23h59m more: a daemon whose clock was ahead", clock(until))
	remedy := "lockkeeper jobs rewind backup --reason R"

	// when people look
	out := f.shows(t, "jobs", "ls")
	require.Regexp(t, `backup +stopped`, out)
	require.Contains(t, out, stopped)
	require.Contains(t, out, remedy)
	require.Contains(t, out, "the clock of the daemon on db3, pid 7 was 1d ahead of ZooKeeper's at ")
	require.NotContains(t, out, "this machine's clock")
	out = f.shows(t, "locks", "why", "backup", "-o", "json")
	require.Contains(t, out, `"state": "stopped"`)
	out = f.shows(t, "locks", "why", "backup")
	require.Contains(t, out, "is stopped until")
	out = f.shows(t, "jobs", "ls", "-o", "json")
	var listed []views.Job
	require.NoError(t, json.Unmarshal([]byte(out), &listed))
	require.Equal(t, until, *listed[0].DecidedUntil)
	require.Greater(t, listed[0].Last.ClockAhead, int64(23*time.Hour/time.Millisecond))

	// and set it back, first without doing it
	code, _, errs := f.lockkeeper(t, "jobs", "rewind", "backup", "--since", "2126-01-01")
	require.Equal(t, exitConfig, code)
	require.Contains(t, errs, "--reason is missing")
	require.Contains(t, errs, "--since: 2126-01-01 00:00:00 UTC is still to come")
	out = f.shows(t, "jobs", "rewind", "backup", "-r", "db3", "--dry-run")
	require.Contains(t, out, "backup: would be set back from ")
	require.Contains(t, out, "skipped when they come: 1 tick that ran early, up to ")
	out = f.shows(t, "jobs", "rewind", "backup", "-r", "clock of db3", "-o", "json")
	var done []rewindView
	require.NoError(t, json.Unmarshal([]byte(out), &done))
	require.Equal(t, until, *done[0].From)
	require.WithinDuration(t, time.Now(), *done[0].To, time.Minute)
	require.Len(t, done[0].LeftOut, 1)
	for _, look := range [][]string{{"jobs", "ls"}, {"locks", "why", "backup"}} {
		out = f.shows(t, look...)
		require.Contains(t, strings.Join(strings.Fields(out), " "), "backup skips ticks from "+clock(until.Add(-1))+" up to "+clock(until))
	}
	require.False(t, done[0].Forgotten)

	// then it runs again, the tick that has run is left out, and that is on record
	out = f.shows(t, "jobs", "rewind", "backup", "-r", "again")
	require.Contains(t, out, "backup: is not ahead of ZooKeeper's clock; nothing to set back")
	state, err := daemon.State(t.Context(), "backup")
	require.NoError(t, err)
	require.Zero(t, state.Ahead)
	require.Equal(t, []ticks.Stretch{{After: until.Add(-1), Until: until}}, state.LeftOut)
	claim, err := daemon.Claim(t.Context(), "backup", time.Now(), ticks.Ask{})
	require.NoError(t, err)
	require.Equal(t, ticks.Claimed, claim.Verdict)
	records := f.records(t)
	outcome := requireAct(t, records[:2], opstore.AuditJobRewind, "clock of db3")
	require.Equal(t, until.Format(time.RFC3339), outcome.Before["decided_until"])
	require.Equal(t, until.Format(time.RFC3339), outcome.After["left_out_until"])
	outcome = requireAct(t, records[2:4], opstore.AuditJobRewind, "again")
	require.Equal(t, map[string]string{"set_back": "nothing, it was not ahead"}, outcome.After)
}

// Given a job whose history has forgotten when the clock went wrong, when somebody says it as
// a time of the day, then that of today counts, and few ticks are skipped.
func TestJobIsSetBackSinceATimeOfTheDay(t *testing.T) {
	f := newFortress(t, time.Minute)
	newDaemon(t, f)
	f.stop(t)
	node, err := f.zk.Get("/lockkeeper/ticks/backup")
	require.NoError(t, err)
	require.NoError(t, f.zk.Set("/lockkeeper/ticks/backup", []byte(strings.Replace(string(node.Data), `"ran":2`, `"ran":50`, 1))))
	since := time.Now().UTC().Add(-30 * time.Minute).Truncate(time.Minute)
	out := f.shows(t, "jobs", "rewind", "backup", "-r", "db3", "--since", since.Format("15:04"), "-o", "json", "--dry-run")
	var done []rewindView
	require.NoError(t, json.Unmarshal([]byte(out), &done))
	require.True(t, done[0].Forgotten)
	require.WithinDuration(t, since.Add(24*time.Hour), done[0].LeftOut[0].After, 10*time.Minute)
}
