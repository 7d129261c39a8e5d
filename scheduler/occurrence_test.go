package scheduler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

func TestOccurrencesTellWhatTheClocksDo(t *testing.T) {
	type told struct{ at, note string }
	cases := []struct {
		name  string
		job   jobs.Job
		after string
		want  []told
	}{
		{"moved out of a gap", jobs.Job{Schedule: "30 2 * * *", TimeZone: "America/New_York"}, "2026-03-07T12:00:00Z", []told{
			{"2026-03-08T03:30:00-04:00", "clocks go forward at 02:00: moved from 02:30"}, {"2026-03-09T02:30:00-04:00", ""},
		}},
		{"moved out of a gap, among others", jobs.Job{Schedule: "30 2,3,4 * * *", TimeZone: "America/New_York"}, "2026-03-07T12:00:00Z", []told{
			{"2026-03-08T03:30:00-04:00", ""}, {"2026-03-08T04:30:00-04:00", ""},
		}},
		{"left out in a gap", jobs.Job{Schedule: "30 2 * * *", TimeZone: "America/New_York", DST: jobs.DST{Gap: jobs.GapSkip}}, "2026-03-07T12:00:00Z", []told{
			{"2026-03-09T02:30:00-04:00", "clocks go forward at 2026-03-08 02:00: nothing at 02:30"}, {"2026-03-10T02:30:00-04:00", ""},
		}},
		{"left out in a gap, by elapsed time", jobs.Job{Schedule: "*/20 2 * * *", TimeZone: "America/New_York"}, "2026-03-07T12:00:00Z", []told{
			{"2026-03-09T02:00:00-04:00", "clocks go forward at 2026-03-08 02:00: nothing at 02:00"}, {"2026-03-09T02:20:00-04:00", ""},
		}},
		{"the first of two", jobs.Job{Schedule: "30 1 * * *", TimeZone: "America/New_York"}, "2026-10-31T12:00:00Z", []told{
			{"2026-11-01T01:30:00-04:00", "clocks go back: the first of two 01:30, nothing at the second"}, {"2026-11-02T01:30:00-05:00", ""},
		}},
		{"both", jobs.Job{Schedule: "15 30 1 * * *", TimeZone: "America/New_York", DST: jobs.DST{Overlap: jobs.FoldBoth}}, "2026-10-31T12:00:00Z", []told{
			{"2026-11-01T01:30:15-04:00", "clocks go back: the first of two 01:30:15"},
			{"2026-11-01T01:30:15-05:00", "clocks go back: the second of two 01:30:15"},
			{"2026-11-02T01:30:15-05:00", ""},
		}},
		{"a day that never was", jobs.Job{Schedule: "0 12 30 12 *", TimeZone: "Pacific/Apia"}, "2011-12-01T00:00:00Z", []told{
			{"2011-12-31T12:00:00+14:00", "clocks go forward at 00:00: moved from 2011-12-30 12:00"}, {"2012-12-30T12:00:00+14:00", ""},
		}},
		{"@every, in the zone of the job", jobs.Job{Schedule: "@every 12h", TimeZone: "America/New_York"}, "2026-01-01T12:00:00Z", []told{
			{"2026-01-01T19:00:00-05:00", ""}, {"2026-01-02T07:00:00-05:00", ""},
		}},
		{"never", jobs.Job{}, "2026-01-01T12:00:00Z", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			// given
			after, err := time.Parse(time.RFC3339, c.after)
			require.NoError(t, err)

			// when
			all, err := Occurrences(c.job, after, max(2, len(c.want)))

			// then
			require.NoError(t, err)
			var got []told
			for _, o := range all {
				note := ""
				if len(o.Notes) > 0 {
					require.Len(t, o.Notes, 1)
					note = o.Notes[0]
				}
				got = append(got, told{o.Instant.Format(time.RFC3339), note})
				require.Equal(t, o.Instant, o.StartsAt)
				require.Nil(t, o.Blackout)
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestOccurrencesTellJitterAndBlackouts(t *testing.T) {
	// given
	job := jobs.Job{
		Name: "report", Schedule: "* * * * *", TimeZone: "Asia/Tokyo", Jitter: 10 * time.Minute,
		Blackouts: []jobs.Blackout{{Schedule: "5 21 * * *", For: time.Minute, Reason: "dinner"}},
	}

	// when
	all, err := Occurrences(job, noon, 20)

	// then
	require.NoError(t, err)
	require.Len(t, all, 20)
	var earliest time.Time
	for i, o := range all {
		require.Equal(t, "Asia/Tokyo", o.Instant.Location().String())
		require.True(t, o.Instant.Equal(noon.Add(time.Duration(i+1)*time.Minute)))
		if own := o.Instant.Add(jitterOf("report", o.Instant, job.Jitter)); own.After(earliest) {
			earliest = own
		}
		require.True(t, earliest.Equal(o.StartsAt))
		if i+1 == 5 {
			require.Equal(t, "dinner", o.Blackout.Reason)
		} else {
			require.Nil(t, o.Blackout)
		}
	}
}
