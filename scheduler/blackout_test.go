package scheduler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

func TestBlackoutsCoverFromTheirStartToTheirEnd(t *testing.T) {
	cases := []struct {
		name     string
		job      jobs.Job
		instants map[string]bool
	}{
		{"a change freeze", jobs.Job{Blackouts: []jobs.Blackout{{Schedule: "0 22 24 12 *", For: 36 * time.Hour}}}, map[string]bool{
			"2026-12-24T21:59:59Z": false, "2026-12-24T22:00:00Z": true, "2026-12-26T09:59:59Z": true, "2026-12-26T10:00:00Z": false,
		}},
		{"in the zone of the job", jobs.Job{TimeZone: "Asia/Tokyo", Blackouts: []jobs.Blackout{{Schedule: "0 9 * * *", For: time.Hour}}}, map[string]bool{
			"2026-01-01T00:30:00Z": true, "2026-01-01T09:30:00Z": false,
		}},
		{"in the zone in front of the job's schedule", jobs.Job{Schedule: "TZ=Asia/Tokyo @daily", Blackouts: []jobs.Blackout{{Schedule: "0 9 * * *", For: time.Hour}}}, map[string]bool{
			"2026-01-01T00:30:00Z": true, "2026-01-01T09:30:00Z": false,
		}},
		{"in its own zone", jobs.Job{TimeZone: "Asia/Tokyo", Blackouts: []jobs.Blackout{{Schedule: "0 9 * * *", TimeZone: "UTC", For: time.Hour}}}, map[string]bool{
			"2026-01-01T00:30:00Z": false, "2026-01-01T09:30:00Z": true,
		}},
		{"in the zone in front of it", jobs.Job{TimeZone: "Asia/Tokyo", Blackouts: []jobs.Blackout{{Schedule: "CRON_TZ=UTC 0 9 * * *", For: time.Hour}}}, map[string]bool{
			"2026-01-01T00:30:00Z": false, "2026-01-01T09:30:00Z": true,
		}},
		{"longer than the time between two", jobs.Job{Blackouts: []jobs.Blackout{{Schedule: "0 0 1 * *", For: jobs.MaxBlackout}}}, map[string]bool{
			"2026-01-15T00:30:00Z": true, "2026-07-01T00:00:00Z": true,
		}},
		{"a year long, once in four years", jobs.Job{Blackouts: []jobs.Blackout{{Schedule: "0 0 29 2 *", For: jobs.MaxBlackout}}}, map[string]bool{
			"2024-02-28T23:59:59Z": false, "2024-02-29T00:00:00Z": true, "2025-02-28T23:59:59Z": true, "2025-03-01T00:00:00Z": false, "2027-03-01T00:00:00Z": false,
		}},
		{"minutely", jobs.Job{Blackouts: []jobs.Blackout{{Schedule: "* * * * *", For: 15 * time.Second}}}, map[string]bool{
			"2026-01-15T00:30:00Z": true, "2026-01-15T00:30:14Z": true, "2026-01-15T00:30:15Z": false, "2026-01-15T00:30:59Z": false,
		}},
		{"elapsed time, over a change of the clocks", jobs.Job{TimeZone: "America/New_York", Blackouts: []jobs.Blackout{{Schedule: "0 0 8 3 *", For: 24 * time.Hour}}}, map[string]bool{
			"2026-03-09T04:59:59Z": true, "2026-03-09T05:00:00Z": false, // one in the morning
		}},
		{"any of several", jobs.Job{Blackouts: []jobs.Blackout{{Schedule: "0 9 * * *", For: time.Hour}, {Schedule: "@every 2h/30m", For: time.Minute}}}, map[string]bool{
			"2026-01-15T09:30:00Z": true, "2026-01-15T10:30:30Z": true, "2026-01-15T11:30:00Z": false,
		}},
		{"none", jobs.Job{}, map[string]bool{"2026-01-15T09:30:00Z": false}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			// given
			blackouts, err := ParseBlackouts(c.job)
			require.NoError(t, err)
			for text, want := range c.instants {
				instant, err := time.Parse(time.RFC3339, text)
				require.NoError(t, err)

				// when
				_, covered := blackouts.Cover(instant)

				// then
				require.Equal(t, want, covered, text)
			}
		})
	}
}

func TestBlackoutsThatCannotWorkAreRefusedEachWithItsPlace(t *testing.T) {
	// given
	job := jobs.Job{Name: "report", TimeZone: "Asia/Tokyo", Blackouts: []jobs.Blackout{
		{Schedule: "0 9 * *", For: time.Hour},
		{Schedule: "0 9 * * *", For: time.Hour},
		{Schedule: "manual", For: time.Hour},
		{Schedule: "TZ=UTC 0 9 * * *", TimeZone: "UTC", For: time.Hour},
		{Schedule: "H 9 * * *", For: time.Hour},
	}}

	// when
	_, err := ParseBlackouts(job)

	// then
	all, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok)
	var places []string
	for _, err := range all.Unwrap() {
		var bad *SpecError
		require.ErrorAs(t, err, &bad)
		places = append(places, bad.Field)
	}
	require.Equal(t, []string{"blackout[0].schedule", "blackout[2].schedule", "blackout[3].schedule"}, places)
	require.ErrorContains(t, err, `blackout[2].schedule "manual": the window never begins`)
}
