package scheduler

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

// due reports whether a Timing is due at an instant, nothing being made up for.
func (t Timing) due(at time.Time, loc *time.Location) bool {
	if t.Every > 0 {
		return (at.Unix()-int64(t.Phase/time.Second))%int64(t.Every/time.Second) == 0
	}
	at = at.In(loc)
	has := slices.Contains[[]int]
	for _, c := range t.Calendars {
		if has(c.Second, at.Second()) && has(c.Minute, at.Minute()) && has(c.Hour, at.Hour()) &&
			has(c.DayOfMonth, at.Day()) && has(c.Month, int(at.Month())) && has(c.DayOfWeek, int(at.Weekday())) {
			return true
		}
	}
	return false
}

func TestATimingIsDueWhenItsScheduleIs(t *testing.T) {
	for _, c := range []struct{ spec, zone string }{
		{"*/15 * * * *", "Europe/Berlin"},
		{"30 2 * * *", "UTC"},
		{"0 12 13 * fri", ""},
		{"0 0 * * 7", "Asia/Tokyo"},
		{"@hourly", "Europe/Berlin"},
		{"H H(2-5) * * *", ""},
		{"@every 7m", ""},
		{"@every 1h/15m", ""},
		{"20 10 4 * * 1-5", ""},
		{"30 2 * * *", "Europe/Berlin"},
	} {
		job := jobs.Job{Name: "move", Schedule: c.spec, TimeZone: c.zone, DST: jobs.DST{Gap: jobs.GapSkip, Overlap: jobs.FoldBoth}}
		timing, err := TimingOf(job)
		require.NoError(t, err, c.spec)
		schedule, err := ParseJob(job)
		require.NoError(t, err)
		loc, err := time.LoadLocation(timing.Zone)
		require.NoError(t, err)
		for _, from := range []time.Time{time.Date(2026, 3, 27, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 24, 0, 0, 0, 0, time.UTC)} {
			next := schedule.Next(from.Add(-time.Second))
			for at := from; at.Before(from.Add(4 * 24 * time.Hour)); at = at.Add(20 * time.Second) {
				is := at.Equal(next)
				if is != timing.due(at, loc) || next.Before(at) {
					require.Fail(t, "they differ", "%s %s at %s, due at %s", c.spec, c.zone, at, next)
				}
				if is {
					next = schedule.Next(at)
				}
			}
		}
	}
}

func TestATimingSaysWhatClocksThatChangeDoToIt(t *testing.T) {
	skip := jobs.DST{Gap: jobs.GapSkip}
	for _, c := range []struct {
		spec, zone       string
		dst              jobs.DST
		madeUp, repeated bool
	}{
		{"30 2 * * *", "Europe/Berlin", jobs.DST{}, true, true},
		{"30 2 * * *", "Europe/Berlin", skip, false, true},
		{"30 2 * * *", "America/New_York", skip, false, false}, // 01:30 comes twice there
		{"0 3 * * *", "Europe/Berlin", jobs.DST{}, false, false},
		{"59 1 * * *", "Europe/Berlin", jobs.DST{}, false, true},
		{"59 0 * * *", "Europe/Berlin", jobs.DST{}, false, false},
		{"0 4 * * 1-5", "Europe/Berlin", jobs.DST{}, false, false},
		{"30 2 * 1-2 *", "Europe/Berlin", jobs.DST{}, false, false},
		{"30 2 * * mon", "Europe/Berlin", jobs.DST{}, false, false}, // they change on Sundays
		{"*/30 * * * *", "Europe/Berlin", jobs.DST{}, false, true},
		{"30 2 * * *", "UTC", jobs.DST{}, false, false},
		{"30 2 * * *", "Asia/Tokyo", jobs.DST{}, false, false},
		{"@every 1h", "", jobs.DST{}, false, false},
		{"manual", "", jobs.DST{}, false, false},
	} {
		timing, err := TimingOf(jobs.Job{Name: "move", Schedule: c.spec, TimeZone: c.zone, DST: c.dst})
		require.NoError(t, err)
		require.Equal(t, []bool{c.madeUp, c.repeated}, []bool{timing.MadeUp, timing.Repeated}, "%+v", c)
		require.Equal(t, c.spec == "manual", timing.Manual)
	}
	_, err := TimingOf(jobs.Job{Name: "move", Schedule: "61 * * * *"})
	require.ErrorAs(t, err, new(*SpecError))
}
