package jobs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
)

func TestFingerprintIsOfWhatAJobDoesAndWhen(t *testing.T) {
	backup := func(change func(*jobs.Job, *jobs.Command)) string {
		c := jobs.Command{Argv: []string{"/usr/bin/backup", "--all"}}
		j := jobs.Job{Name: "backup", Schedule: "0 2 * * *", TimeZone: "UTC", Requirements: []lockguard.Requirement{{Scope: "db"}, {Scope: "disk"}}}
		if change != nil {
			change(&j, &c)
		}
		j.Work = &c
		return j.Fingerprint()
	}
	same := backup(nil)
	require.Regexp(t, `^1-[0-9a-f]{16}$`, same)

	for name, change := range map[string]func(*jobs.Job, *jobs.Command){
		"the zone that is the default": func(j *jobs.Job, _ *jobs.Command) { j.TimeZone = "" },
		"white space in the schedule":  func(j *jobs.Job, _ *jobs.Command) { j.Schedule = " 0  2 * * * " },
		"the order of the locks": func(j *jobs.Job, _ *jobs.Command) {
			j.Requirements[0], j.Requirements[1] = j.Requirements[1], j.Requirements[0]
		},
		"a timeout": func(j *jobs.Job, _ *jobs.Command) { j.Timeout = time.Hour },
		"the terms of a lock": func(j *jobs.Job, _ *jobs.Command) {
			j.Requirements[0].Priority = 7
			j.Requirements[0].LeaseTimeout = time.Hour
		},
		"policies":                       func(j *jobs.Job, _ *jobs.Command) { j.Retry.Max = 3 },
		"the environment, with a secret": func(_ *jobs.Job, c *jobs.Command) { c.Env = []string{"TOKEN=x"} },
		"how much output is kept":        func(_ *jobs.Job, c *jobs.Command) { c.MaxOutput = 9 },
	} {
		require.Equal(t, same, backup(change), name)
	}
	seen := map[string]string{same: "as it is"}
	for name, change := range map[string]func(*jobs.Job, *jobs.Command){
		"the program":        func(_ *jobs.Job, c *jobs.Command) { c.Argv[0] = "/usr/bin/other" },
		"an argument":        func(_ *jobs.Job, c *jobs.Command) { c.Argv[1] = "--some" },
		"the directory":      func(_ *jobs.Job, c *jobs.Command) { c.Dir = "/srv" },
		"the schedule":       func(j *jobs.Job, _ *jobs.Command) { j.Schedule = "0 3 * * *" },
		"the zone":           func(j *jobs.Job, _ *jobs.Command) { j.TimeZone = "Europe/Berlin" },
		"a lock":             func(j *jobs.Job, _ *jobs.Command) { j.Requirements[0].Scope = "db2" },
		"the mode of a lock": func(j *jobs.Job, _ *jobs.Command) { j.Requirements[0].Mode++ },
		"one lock less":      func(j *jobs.Job, _ *jobs.Command) { j.Requirements = j.Requirements[:1] },
	} {
		is := backup(change)
		require.Empty(t, seen[is], name)
		seen[is] = name
	}
}

func TestFingerprintOfARequestLeavesOutCredentials(t *testing.T) {
	of := func(h jobs.HTTP) string { return jobs.Job{Work: &h}.Fingerprint() }
	require.Equal(t, of(jobs.HTTP{URL: "https://ann:one@x.test/run"}), of(jobs.HTTP{URL: "https://bob:two@x.test/run", Method: "POST"}))
	require.NotEqual(t, of(jobs.HTTP{URL: "https://x.test/run"}), of(jobs.HTTP{URL: "https://x.test/other"}))
	require.NotEqual(t, of(jobs.HTTP{URL: "https://x.test/run"}), of(jobs.HTTP{URL: "https://x.test/run", Body: []byte("{}")}))
	require.Equal(t, jobs.Job{Work: jobs.Func(nil)}.Fingerprint(), jobs.Job{}.Fingerprint(), "code cannot be compared")
}
