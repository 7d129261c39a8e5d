package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const oneJob = "jobs: {a: {schedule: '@daily', run: ['true']}}\n"

func TestJobsAreSpreadWhenTheFileSaysSo(t *testing.T) {
	require.Equal(t, Scheduler{Strategy: "balanced"}, mustParse(t, "version: 1\n"+oneJob).Scheduler)
	require.Equal(t, Scheduler{Strategy: "balanced", Spread: true}, mustParse(t, "version: 1\nscheduler: {spread: true}\n"+oneJob).Scheduler)
	require.Equal(t, Scheduler{Strategy: "sticky", Spread: true, Name: "node1"},
		mustParse(t, "version: 1\nscheduler: {spread: true, strategy: sticky, name: node1}\n"+oneJob).Scheduler)
}

func TestWhatIsWrongWithTheSpreadIsSaid(t *testing.T) {
	_, problems, _ := parse(t, "version: 1\nscheduler: {spread: perhaps, strategy: stiky, name: /a, drain_timeout: 1s}\n"+oneJob)
	require.Len(t, problems, 4)
	_, problems, warnings := parse(t, "version: 1\nscheduler: {strategy: sticky, name: a}\n"+oneJob)
	require.Empty(t, problems)
	require.Len(t, warnings, 2)
}

func TestNameOfADaemonThatNoGroupTakesIsRefusedWhereItStands(t *testing.T) {
	long := strings.Repeat("x", 150)
	for name, want := range map[string]string{
		long:                           `participant "` + long + `" takes 150 bytes; the limit is 128`,
		`" a"`:                         `participant " a" has white space at its ends`,
		"/a":                           `participant "/a" begins with a slash; write "a"`,
		`"a\tb"`:                       `participant "a\tb" contains a control character or invalid UTF-8; write printable characters`,
		`""`:                           `"" is empty; write a name that no other daemon has, for example ${HOSTNAME}`,
		strings.Repeat("a/", 60) + "a": `participant "` + strings.Repeat("a/", 60) + `a" takes 241 bytes (a slash counts as 3); the limit is 200`,
	} {
		_, problems, _ := parse(t, "version: 1\nscheduler: {spread: true, name: "+name+"}\n"+oneJob)
		require.Equal(t, []string{"2:33 scheduler.name: " + want}, problems)
	}
}
