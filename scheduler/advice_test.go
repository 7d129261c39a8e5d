package scheduler

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

func TestSurprisingSchedulesAreTold(t *testing.T) {
	const newYork = "America/New_York"
	cases := []struct {
		name string
		job  jobs.Job
		want []string // the beginning of each
	}{
		{"plain", jobs.Job{Schedule: "*/15 9-17 1,15 * *", TimeZone: newYork}, nil},
		{"daily", jobs.Job{Schedule: "0 12 * * 1-5", TimeZone: newYork}, nil},
		{"descriptor", jobs.Job{Schedule: "@daily", TimeZone: newYork}, nil},
		{"an error is reported elsewhere", jobs.Job{Schedule: "* * *"}, nil},

		{"by hand", jobs.Job{}, []string{"schedule: nothing starts this job by itself"}},
		{"by hand, written", jobs.Job{Schedule: " manual "}, []string{"schedule: nothing starts this job by itself"}},
		{"both day fields", jobs.Job{Schedule: "0 0 13 * 5"}, []string{"schedule: day of month (13) and day of week (5) are both set"}},
		{"both day fields, behind a zone", jobs.Job{Schedule: "TZ=UTC 0 0 13 * 5"}, []string{"schedule: day of month (13) and day of week (5) are both set"}},
		{"both day fields, one is a step", jobs.Job{Schedule: "0 0 */2 * 1"}, []string{
			"schedule: day of month (*/2) and day of week (1) are both set", "schedule: day of month: */2 begins anew with each month",
		}},
		{"seconds", jobs.Job{Schedule: "* * * * * *"}, []string{"schedule: six fields begin with the second, and * is every second"}},
		{"seconds, in steps", jobs.Job{Schedule: "*/10 * * * * *"}, nil},
		{"uneven minutes", jobs.Job{Schedule: "*/7 * * * *"}, []string{"schedule: minute: 7 does not divide 60, so that the last step of */7 is 4 instead of 7; write a step that divides 60, or @every 7m"}},
		{"uneven minutes of a hash", jobs.Job{Name: "report", Schedule: "H/40 * * * *"}, []string{"schedule: minute: 40 does not divide 60"}},
		{"uneven hours", jobs.Job{Schedule: "0 */5 * * *"}, []string{"schedule: hour: 5 does not divide 24"}},
		{"uneven months", jobs.Job{Schedule: "0 0 1 */5 *"}, []string{"schedule: month: 5 does not divide 12, so that the last step of */5 is 2 instead of 5; write a step that divides 12"}},
		{"uneven days of the week", jobs.Job{Schedule: "0 0 * * */2"}, []string{"schedule: day of week: */2 begins anew with each Sunday"}},
		{"every second day", jobs.Job{Schedule: "0 0 */2 * *"}, []string{"schedule: day of month: */2 begins anew with each month, so that the last step of a month is shorter or longer than 2 days; write @every 48h"}},
		{"the 31st", jobs.Job{Schedule: "0 0 31 * *"}, []string{"schedule: day of month (31): not due in Feb, Apr, Jun, Sep, Nov"}},
		{"the 30th", jobs.Job{Schedule: "0 0 30 * *"}, []string{"schedule: day of month (30): not due in Feb"}},
		{"the 29th", jobs.Job{Schedule: "0 0 29-31 * *"}, []string{"schedule: day of month (29-31): February has it only in leap years"}},
		{"the 31st of long months", jobs.Job{Schedule: "0 0 31 1,3,5 *"}, nil},
		{"the 31st or a Monday", jobs.Job{Schedule: "0 0 31 * 1"}, []string{"schedule: day of month (31) and day of week (1) are both set"}},
		{"drift", jobs.Job{Schedule: "@every 7h"}, []string{"schedule: @every 7h does not divide a day"}},
		{"drift by days", jobs.Job{Schedule: "@every 36h"}, []string{"schedule: @every 36h does not divide a day"}},
		{"no drift", jobs.Job{Schedule: "@every 48h"}, nil},
		{"no visible drift", jobs.Job{Schedule: "@every 7s"}, nil},

		{"gap", jobs.Job{Schedule: "30 2 * * *", TimeZone: newYork}, []string{
			"schedule: 2026-03-08 02:30 does not come in America/New_York, where the clocks then go forward: due at 03:30 instead (dst.gap: run-after)",
		}},
		{"gap, known", jobs.Job{Schedule: "30 2 * * *", TimeZone: newYork, DST: jobs.DST{Gap: jobs.GapRunAfter}}, nil},
		{"gap of the next year", jobs.Job{Schedule: "30 2 14 3 *", TimeZone: newYork}, []string{"schedule: 2027-03-14 02:30 does not come"}},
		{"gap far ahead", jobs.Job{Schedule: "30 2 12 3 *", TimeZone: newYork}, nil}, // 2028
		{"gap, left out by a star", jobs.Job{Schedule: "*/30 2 * * *", TimeZone: newYork}, []string{
			"schedule: 2026-03-08 02:00 does not come in America/New_York, where the clocks then go forward: not due then, as with any *",
		}},
		{"fold", jobs.Job{Schedule: "30 1 * * *", TimeZone: newYork}, []string{
			"schedule: 2026-11-01 01:30 comes twice in America/New_York, where the clocks then go back: due the first time only (dst.overlap: first)",
		}},
		{"fold, known", jobs.Job{Schedule: "30 1 * * *", TimeZone: newYork, DST: jobs.DST{Overlap: jobs.FoldFirst}}, nil},
		{"fold, twice by a star", jobs.Job{Schedule: "*/30 1 * * *", TimeZone: newYork}, []string{
			"schedule: 2026-11-01 01:00 comes twice in America/New_York, where the clocks then go back: due both times",
		}},
		{"no midnight", jobs.Job{Schedule: "TZ=Africa/Cairo @daily"}, []string{
			"schedule: 2026-04-24 00:00 does not come in Africa/Cairo, where the clocks then go forward: due at 01:00 instead",
		}},

		{"jitter", jobs.Job{Schedule: "* * * * *", Jitter: 59 * time.Second}, nil},
		{"much jitter", jobs.Job{Schedule: "* * * * *", Jitter: time.Minute}, []string{"jitter: jitter (1m) is not shorter than the time between two ticks (1m)"}},
		{"much jitter for some", jobs.Job{Schedule: "0,5 12 * * *", Jitter: time.Hour}, []string{"jitter: jitter (1h) is not shorter than the time between two ticks (5m): ticks may wait for the jitter of the one before; write less than 5m"}},

		{"some blackouts", jobs.Job{Schedule: "0 * * * *", Blackouts: []jobs.Blackout{{Schedule: "0 9 * * *", For: 23 * time.Hour}}}, nil},
		{"a blackout over all", jobs.Job{Schedule: "0 12 * * *", Blackouts: []jobs.Blackout{{Schedule: "0 9 * * *", For: 4 * time.Hour}}}, []string{
			"blackout: blackouts cover every tick of the next year",
		}},
		{"blackouts over all together", jobs.Job{Schedule: "0 * * * *", Blackouts: []jobs.Blackout{{Schedule: "0 0 * * *", For: 12 * time.Hour}, {Schedule: "30 11 * * *", For: 13 * time.Hour}}}, []string{
			"blackout: blackouts cover every tick of the next year",
		}},
		{"many blackouts over all", jobs.Job{Schedule: "* * * * *", Blackouts: []jobs.Blackout{{Schedule: "* * * * *", For: 1500 * time.Millisecond}}}, []string{
			"blackout: blackouts cover every tick until 2026-01-02 04:41 at least",
		}},
		{"a blackout over the next year", jobs.Job{Schedule: "0 * * * *", Blackouts: []jobs.Blackout{{Schedule: "0 0 1 1 *", For: jobs.MaxBlackout}}}, []string{
			"blackout: blackouts cover every tick of the next year",
		}},
		{"a blackout that is an error is reported elsewhere", jobs.Job{Schedule: "0 * * * *", Blackouts: []jobs.Blackout{{Schedule: "* *", For: time.Hour}}}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			// when
			all := advise(c.job, noon)

			// then
			var got []string
			for i, a := range all {
				require.NotEmpty(t, a.Instead)
				text := a.Field + ": " + a.What + "; " + a.Instead
				if i < len(c.want) && strings.HasPrefix(text, c.want[i]) {
					text = c.want[i]
				}
				got = append(got, text)
			}
			require.Equal(t, c.want, got)
		})
	}
}
