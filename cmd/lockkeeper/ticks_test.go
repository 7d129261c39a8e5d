package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/observability/views"
)

func TestNextRunLeavesOutPausesAndBlackouts(t *testing.T) {
	hourly := jobs.Job{Name: "a", Schedule: "0 * * * *"}
	frozen := hourly
	frozen.Blackouts = []jobs.Blackout{{Schedule: "0 12 * * *", For: 3 * time.Hour, Reason: "freeze"}}
	always := hourly
	always.Blackouts = []jobs.Blackout{{Schedule: "0 12 * * *", For: 25 * time.Hour}}
	for name, c := range map[string]struct {
		job    jobs.Job
		paused *views.Pause
		want   string // "": never
	}{
		"next hour":                        {hourly, nil, "13:00"},
		"after a blackout":                 {frozen, nil, "15:00"},
		"never outside of blackouts":       {always, nil, ""},
		"at the end of a pause":            {hourly, &views.Pause{Until: new(at(4 * time.Hour))}, "16:00"},
		"after a pause in a blackout":      {frozen, &views.Pause{Until: new(at(90 * time.Minute))}, "15:00"},
		"paused until somebody resumes it": {hourly, &views.Pause{}, ""},
		"by hand only":                     {jobs.Job{Name: "a", Schedule: "manual"}, nil, ""},
	} {
		next, ok := nextRun(c.job, c.paused, at(0))
		require.Equal(t, c.want != "", ok, name)
		if ok {
			require.Equal(t, c.want, next.UTC().Format("15:04"), name)
		}
	}

	// when
	ticks, err := ticksOf(frozen, at(90*time.Minute), 2)

	// then
	require.NoError(t, err)
	require.Equal(t, []string{"does not run: blackout, freeze"}, ticks[0].Notes)
	require.False(t, ticks[0].Runs)
	require.True(t, ticks[1].Runs)
}
