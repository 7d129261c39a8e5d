package config

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

// fileName is what the files of the tests are called; Files named in them are
// looked for in testdata.
const fileName = "testdata/f.yaml"

// testOptions knows the variables A=alpha, EMPTY= and LEASE=30s, and the Go
// functions reindex and vacuum, which cleans up.
func testOptions() Options {
	nothing := jobs.Func(func(context.Context, jobs.Run) error { return nil })
	return Options{
		Env: func(name string) (string, bool) {
			value, set := map[string]string{"A": "alpha", "EMPTY": "", "LEASE": "30s", "FIVE": "5", "YES": "true"}[name]
			return value, set
		},
		Funcs: map[string]jobs.Work{"reindex": nothing, "vacuum": jobs.WithCleanup(nothing, nothing)},
	}
}

// parse returns the configuration that a text stands for, and everything that
// is wrong with it, without the name of the file.
func parse(t *testing.T, text string) (cfg *Config, problems, warnings []string) {
	t.Helper()
	cfg, err := Parse(fileName, []byte(text), testOptions())
	if err == nil {
		require.NoError(t, bySchema(t, text), "what is read is valid by the schema: %s", text)
		return cfg, nil, texts(cfg.Warnings)
	}
	var all *Errors
	require.ErrorAs(t, err, &all, "%T: %v", err, err)
	require.Nil(t, cfg)
	require.NotEmpty(t, all.Problems)
	return nil, texts(all.Problems), texts(all.Warnings)
}

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	cfg, problems, _ := parse(t, text)
	require.Empty(t, problems)
	return cfg
}

func texts(problems []Problem) []string {
	var lines []string
	for _, p := range problems {
		lines = append(lines, strings.TrimPrefix(strings.TrimPrefix(p.String(), fileName+":"), overridesName+":"))
	}
	return lines
}

// file completes what a test writes to a whole file: sections first, then a
// job, unless there are jobs.
func file(sections string) string {
	text := "version: 1\n" + sections
	if !strings.HasPrefix(sections, "jobs:") && !strings.Contains(sections, "\njobs:") {
		text += "jobs:\n  other: {schedule: \"@daily\", run: [x]}\n"
	}
	return text
}

// job makes a file of the settings of one job, which stands in line 3, its
// settings from column 5 on.
func job(settings string) string {
	text := "version: 1\njobs:\n  a:\n"
	for line := range strings.Lines(settings) {
		text += "    " + line
	}
	text += "\n"
	for _, need := range []struct{ key, value string }{{"schedule:", `schedule: "@daily"`}, {"run:", "run: [x]"}} {
		if !strings.Contains(text, "    "+need.key) {
			text += "    " + need.value + "\n"
		}
	}
	return text
}

// lock makes a file of the settings of a job's lock, which stand in line 4
// from column 13 on.
func lockOf(settings string) string { return job("locks: [{scope: s, " + settings + "}]") }

func sorted(lines []string) []string { return slices.Sorted(slices.Values(lines)) }
