package config

import (
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
