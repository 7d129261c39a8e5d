package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

func TestEnvironmentVariablesStandInValues(t *testing.T) {
	for text, want := range map[string]string{
		"${A}":                "alpha",
		"x-${A}-${A}-y":       "x-alpha-alpha-y",
		"${NONE:-fallback}":   "fallback",
		"${NONE:-}":           "",
		"${EMPTY}":            "",
		"${EMPTY:-fallback}":  "fallback",
		"${A:-fallback}":      "alpha",
		"$${A}":               "${A}",
		"$A $ {A} $":          "$A $ {A} $",
		"$${A} ${A}":          "${A} alpha",
		"${NONE:-a:-b}":       "a:-b",
		"${NONE:-$HOME/here}": "$HOME/here",
	} {
		cfg := mustParse(t, job(`run: [x, "`+text+`", '`+text+`']`))
		require.Equal(t, []string{"x", want, want}, cfg.Jobs[0].Work.(*jobs.Command).Argv, text)
	}
}

func TestEnvironmentVariablesHaveTheTypeThatIsNeeded(t *testing.T) {
	lock := mustParse(t, file(`priorities: {classes: {alpha: "${FIVE}"}}
jobs:
  a: {schedule: "@daily", run: [x], locks: [{scope: "${A}", lease_timeout: "${LEASE}", priority: "${A}", forceful: "${YES}"}]}
`)).Jobs[0].Requirements[0]
	require.Equal(t, "alpha", lock.Scope)
	require.Equal(t, "30s", lock.LeaseTimeout.String())
	require.EqualValues(t, 5, lock.Priority)
	require.True(t, lock.Forceful)
}

func TestEnvironmentProblems(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"not set":    {job("timeout: ${NONE}"), "4:14 jobs[a].timeout: the environment variable NONE is not set; set it, write ${NONE:-default}, or $${NONE} to keep it as it is"},
		"wrong":      {job("timeout: ${A}"), `4:14 jobs[a].timeout: "alpha" (from "${A}") is not a duration; write it like "30s", "5m" or "1h30m"`},
		"a bad term": {lockOf(`lock_delay: "-${LEASE}"`), `4:36 jobs[a].locks[0].lock_delay: -30s is negative (from "-${LEASE}"); write how long work that was cut off may still do harm, or leave it out`},
		"empty":      {lockOf(`message: "${EMPTY}"`), `4:33 jobs[a].locks[0].message: "" (from "${EMPTY}") is empty; write why the lock is held, for people`},
		"not closed": {job("timeout: ${A"), `4:14 jobs[a].timeout: "${A": the ${ is not closed; write "}" after the name, or $${ for a plain ${`},
		"no name":    {job("run: [x, \"${1+1}\"]"), `4:14 jobs[a].run[1]: "1+1" is not the name of an environment variable; write ${NAME}, ${NAME:-default}, or $${ for a plain ${`},
		"no keys":    {file("${A}: 1\n"), `2:1 unknown field "${A}"; the file can have version, zookeeper, temporal, priorities, defaults, scopes, jobs, groups, scheduler, drain, drain_timeout, state_dir, emergency, approvals, audit, metrics, console, log`},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems, _ := parse(t, c.text)
			require.Equal(t, c.want, strings.Join(problems, "\n"))
		})
	}
}

func TestEnvironmentIsThatOfTheProcessByDefault(t *testing.T) {
	t.Setenv("LOCKKEEPER_CONFIG_TEST", "5s")
	cfg, err := Parse("f", []byte(job("timeout: ${LOCKKEEPER_CONFIG_TEST}")), Options{})
	require.NoError(t, err)
	require.Equal(t, "5s", cfg.Jobs[0].Timeout.String())
}
