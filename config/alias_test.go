package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

func TestAliasesAndMergeKeys(t *testing.T) {
	cfg := mustParse(t, `version: 1
jobs:
  base: &base
    schedule: &often "@every 5m"
    run: [x]
    timeout: 1m
    locks: &locks [&lock {scope: s, message: base}]
  same: *base
  other: {<<: *base, timeout: 2m}
  locks: {schedule: *often, run: [y], locks: *locks}
  lock: {schedule: *often, run: [y], locks: [{<<: *lock, message: other}]}
  several: {<<: [{timeout: 3m}, *base], run: [z]}
  chain: {<<: {<<: *base, timeout: 4m}, run: [z]}
  env: {<<: *base, run: {command: [z], env: {<<: {LOCKKEEPERS: merged}, LOCKKEEPERS: own}}}
`)
	require.Equal(t, cfg.Jobs[0].Schedule, cfg.Jobs[1].Schedule)
	require.Equal(t, "same", cfg.Jobs[1].Requirements[0].Owner)
	require.Equal(t, "2m0s", cfg.Jobs[2].Timeout.String(), "what the mapping says wins")
	require.Equal(t, "base", cfg.Jobs[3].Requirements[0].Message)
	require.Equal(t, "s", cfg.Jobs[4].Requirements[0].Scope)
	require.Equal(t, "other", cfg.Jobs[4].Requirements[0].Message)
	require.Equal(t, "3m0s", cfg.Jobs[5].Timeout.String(), "the first that is merged wins")
	require.Equal(t, "4m0s", cfg.Jobs[6].Timeout.String())
	require.Len(t, cfg.Jobs[6].Requirements, 1)
	env := cfg.Jobs[7].Work.(*jobs.Command).AddEnv
	require.Contains(t, env, "LOCKKEEPERS=own")
	require.NotContains(t, env, "LOCKKEEPERS=merged")
}

func TestProblemBehindAnAliasIsToldAtItsUse(t *testing.T) {
	_, problems, _ := parse(t, `version: 1
priorities:
  classes: {a: &word fast, b: *word}
jobs:
  j:
    schedule: "@daily"
    run: [x]
    timeout: *word
`)
	require.Equal(t, []string{
		`3:16 priorities.classes[a]: "fast" is not a whole number; write a number such as 50, or {value: 50}`,
		`8:14 jobs[j].timeout: "fast" is not a duration (it stands at 3:16); write it like "30s", "5m" or "1h30m"`,
	}, problems, "b has the same mistake as a: one of them is enough")
}

func TestProblemInWhatIsMergedIsToldAtTheMergeWhenItIsFineWhereItStands(t *testing.T) {
	_, problems, _ := parse(t, `version: 1
jobs:
  a: {schedule: "@daily", run: [x], locks: [&l {scope: s, lease_timeout: 20s}]}
  b:
    schedule: "@daily"
    run: [x]
    locks:
      - <<: *l
        cleanup_timeout: 30s
  c:
    schedule: "@daily"
    run: &run [x]
    locks: *run
`)
	require.Equal(t, []string{
		"9:26 jobs[b].locks[0].cleanup_timeout: cleanup_timeout (30s) must be shorter than lease_timeout (20s); shorten the one or lengthen the other",
		`13:12 jobs[c].locks[0]: "x" is not a mapping (it stands at 12:16); write it like {scope: cluster/orders, lease_timeout: 10m}`,
	}, problems)
}

func TestAliasProblems(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"alias inside of its anchor": {job("locks: &l [*l]"), []string{"4:16 the alias *l stands inside of &l itself; remove it"}},
		"merge of itself":            {"version: 1\njobs:\n  a: &a\n    <<: *a\n    schedule: '@daily'\n    run: [x]\n", []string{"4:9 the alias *a stands inside of &a itself; remove it"}},
		"alias as a key of itself":   {"version: 1\njobs: &j\n  *j : {}\n  a: {schedule: '@daily', run: [x]}\n", []string{"3:3 the alias *j stands inside of &j itself; remove it"}},
		"merge of a word":            {job("<<: x"), []string{`4:9 jobs[a]: "x" cannot be merged; write "<<: *anchor", or a list of such aliases`}},
		"merge of a list of words":   {job("<<: [x]"), []string{`4:10 jobs[a]: "x" cannot be merged; write "<<: *anchor", or a list of such aliases`}},
		"merges of merges of merges": {
			"version: 1\njobs:\n  a: {schedule: '@daily', run: [x], " + strings.Repeat("<<: {", maxMerges+1) + "timeout: 1m" + strings.Repeat("}", maxMerges+1) + "}\n",
			[]string{"3:201 jobs[a]: mappings merge mappings in more than 32 levels; use fewer"},
		},
		"merged unknown field": {job("<<: {after: 3}"), []string{`4:10 jobs[a]: unknown field "after"; this version of lockkeeper cannot do that yet, remove it`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems, _ := parse(t, c.text)
			require.Equal(t, c.want, problems)
		})
	}
}
