package scheduler

import (
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

func mustParse(t testing.TB, spec, zone string) Schedule {
	t.Helper()
	s, err := Parse(spec, zone)
	require.NoError(t, err)
	return s
}

// dues lists the instants of a schedule in (from, to].
func dues(t testing.TB, s Schedule, from, to string) []string {
	t.Helper()
	start, err := time.Parse(time.RFC3339, from)
	require.NoError(t, err)
	end, err := time.Parse(time.RFC3339, to)
	require.NoError(t, err)
	var list []string
	for due := s.Next(start); !due.IsZero() && !due.After(end); due = s.Next(due) {
		list = append(list, due.Format(time.RFC3339))
	}
	return list
}

func TestSpecsAreDueWhenTheySay(t *testing.T) {
	cases := []struct{ spec, zone, after, want string }{
		{"* * * * *", "", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"},
		{"* * * * *", "", "2026-01-01T00:00:59Z", "2026-01-01T00:01:00Z"},
		{"*/10 * * * * *", "", "2026-01-01T00:00:01Z", "2026-01-01T00:00:10Z"},
		{"30 2 * * *", "", "2026-01-01T02:30:00Z", "2026-01-02T02:30:00Z"},
		{"15 30 2 * * *", "", "2026-01-01T02:30:00Z", "2026-01-01T02:30:15Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-01-01T00:00:00Z", "2026-01-01T02:30:00+01:00"},
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "", "2026-07-01T00:00:00Z", "2026-07-01T02:30:00+02:00"},
		{"TZ=Asia/Tokyo\t30 2 * * *", "", "2026-07-01T00:00:00Z", "2026-07-02T02:30:00+09:00"},
		{"TZ=Asia/Tokyo @daily", "", "2026-07-01T00:00:00Z", "2026-07-02T00:00:00+09:00"},
		{"@hourly", "", "2026-01-01T00:10:00Z", "2026-01-01T01:00:00Z"},
		{"@daily", "", "2026-01-01T00:10:00Z", "2026-01-02T00:00:00Z"},
		{"@midnight", "", "2026-01-01T00:10:00Z", "2026-01-02T00:00:00Z"},
		{"@weekly", "", "2026-01-01T00:10:00Z", "2026-01-04T00:00:00Z"},
		{"@monthly", "", "2026-01-01T00:10:00Z", "2026-02-01T00:00:00Z"},
		{"@yearly", "", "2026-01-01T00:10:00Z", "2027-01-01T00:00:00Z"},
		{"@every 90s", "", "2026-01-01T00:00:00Z", "2026-01-01T00:01:30Z"},
		{"@every 5m", "", "2026-01-01T00:01:07Z", "2026-01-01T00:05:00Z"},
		{"@every 5m", "Europe/Berlin", "1969-12-31T23:58:00Z", "1970-01-01T00:00:00Z"},
		{"@every 1h30m", "", "1969-12-31T22:30:00.5Z", "1970-01-01T00:00:00Z"},
		{"@every 1h/15m", "", "2026-01-01T12:00:00Z", "2026-01-01T12:15:00Z"},
		{"@every 1h/15m", "", "2026-01-01T12:15:00Z", "2026-01-01T13:15:00Z"},
		{"@every 1h / 15m", "", "2026-01-01T12:14:59Z", "2026-01-01T12:15:00Z"},
		{"@every 1h/0s", "", "2026-01-01T12:14:59Z", "2026-01-01T13:00:00Z"},
		{"@every 24h/6h30m", "", "2026-01-01T12:00:00Z", "2026-01-02T06:30:00Z"},
		{"@every 1h/59m59s", "", "1969-12-31T22:59:59.5Z", "1969-12-31T23:59:59Z"},
		{"0 9 * * 7", "", "2026-01-01T00:00:00Z", "2026-01-04T09:00:00Z"},
		{"0 9 * * 5-7", "", "2026-01-03T10:00:00Z", "2026-01-04T09:00:00Z"},
		{"0 9 * * fri-sun/2", "", "2026-01-02T10:00:00Z", "2026-01-04T09:00:00Z"},
		{"0 9 * * sun-mon", "", "2026-01-05T10:00:00Z", "2026-01-11T09:00:00Z"},
		{"0 9 * JAN-mar mon", "", "2026-03-30T10:00:00Z", "2027-01-04T09:00:00Z"},
		{"0 0 29 2 *", "", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},   // 2100 is no leap year
		{"0 0 13 * 5", "", "2026-01-02T12:00:00Z", "2026-01-09T00:00:00Z"},   // either day field
		{"0 0 */10 * 1", "", "2026-01-01T12:00:00Z", "2026-01-05T00:00:00Z"}, // */10 leaves days out: either
		{"0 0 */1 * 1", "", "2026-01-05T12:00:00Z", "2026-01-12T00:00:00Z"},  // */1 does not
		{"0 0 ?,13 * 1", "", "2026-01-05T12:00:00Z", "2026-01-12T00:00:00Z"},
		{"0 0 * * ?/2", "", "2026-01-01T12:00:00Z", "2026-01-03T00:00:00Z"}, // ? is the same as *
		{"05 00 * * *", "", "2026-01-01T12:00:00Z", "2026-01-02T00:05:00Z"},
		{"0 0 * * mon-sun", "", "2026-01-03T12:00:00Z", "2026-01-04T00:00:00Z"},
		{"  0 0 * * ?  ", "", "2026-01-02T12:00:00Z", "2026-01-03T00:00:00Z"},
		{"59 59 23 31 12 ?", "Africa/Cairo", "2040-03-01T00:00:00Z", "2040-12-31T23:59:59+02:00"},
		{"* * * * *", "America/New_York", "2028-12-31T12:00:00Z", "2028-12-31T07:01:00-05:00"},
		{"0 12 * * *", "", "1965-03-01T13:00:00Z", "1965-03-02T12:00:00Z"},
	}
	for _, c := range cases {
		t.Run(c.spec+" "+c.zone, func(t *testing.T) {
			after, err := time.Parse(time.RFC3339Nano, c.after)
			require.NoError(t, err)
			require.Equal(t, c.want, mustParse(t, c.spec, c.zone).Next(after).Format(time.RFC3339))
		})
	}
}

func TestSpecsThatCannotWorkAreRefusedWithAdvice(t *testing.T) {
	cases := []struct{ spec, zone, want string }{
		{"", "", "it is empty"},
		{"TZ=UTC", "", "it is empty"}, // panics in the parser
		{"CRON_TZ=", "", "the time zone in front is empty"},
		{"TZ=Nowhere/Town 0 0 * * *", "", `unknown time zone "Nowhere/Town"`},
		{"0 0 * * *", "../etc/passwd", "unknown time zone"},
		{"0 0 * * *", "Local", "differs from machine to machine"},
		{"TZ=UTC 0 0 * * *", "Europe/Berlin", "the time zone is given twice"},
		{"TZ=UTC @every 5m", "", "@every goes by Unix time"},
		{"@every", "", `"" is not a duration`},
		{"@every soon", "", `"soon" is not a duration`},
		{"@every -5s", "", "not positive"},
		{"@every 0s", "", "not positive"},
		{"@every 100ms", "", "shorter than a second"},
		{"@every 1.9s", "", "not of whole seconds; write 2s"},
		{"@reboot", "", `a tick belongs to the whole cluster, and no machine's start is one; write manual here, and let systemd start`},
		{"@Daily", "", `"@Daily" is not known; write @daily`},
		{"@every5m", "", `"@every5m" is not known; write @every 5m`},
		{"@minutely", "", `"@minutely" is not known; write five cron fields, @every 5m, @hourly`},
		{"0 0 L * *", "", `day of month: "L", the last day of the month as in Quartz, is not supported; write 28-31 and let the job end`},
		{"0 0 l-3 * ?", "", `day of month: "l-3", the last day of the month`},
		{"0 0 LW * ?", "", `day of month: "LW", the nearest working day`},
		{"0 0 15W * ?", "", `day of month: "15W", the nearest working day as in Quartz, is not supported; write the days that it can be`},
		{"0 0 ? * 6#3", "", `day of week: "6#3", a weekday in one week of the month as in Quartz, is not supported; write the name of the day`},
		{"0 0 ? * FRI#2", "", `day of week: "FRI#2", a weekday in one week`},
		{"0 0 ? * 6L", "", `day of week: "6L", a weekday in one week`},
		{"0 0 ? * friL", "", `day of week: "friL", a weekday in one week`},
		{"0 0 ? * L", "", `day of week: "L", the last day of the week as in Quartz, is not supported; write sat`},
		{"0~30 0 * * *", "", `minute: "0~30", a random value, is not supported; write H(0-30)`},
		{"~ 0 * * *", "", `minute: "~", a random value, is not supported; write H,`},
		{"0 0 12 * * ? 2026", "", "found 7: the year of Quartz (2026) is not supported; leave it out"},
		{"+5 * * * *", "", `minute: "+5" has a sign; write 5, or */5 for steps of 5`},
		{"*/+5 * * * *", "", `minute: the step "+5" is not a positive number`},
		{"-5 * * * *", "", `minute: "-5" is neither a number nor a range; write 0 to 59, or two such as 0-59`},
		{"61 * * * *", "", "minute: 61 is not between 0 and 59; write 0 to 59"},
		{"1-60 * * * *", "", "minute: 60 is not between 0 and 59"},
		{"99999999999999999999 * * * *", "", "minute: 99999999999999999999 is not between 0 and 59"},
		{"0 x * * *", "", `hour: "x" is not a number; write 0 to 23`},
		{"0 0 0 * *", "", "day of month: 0 is not between 1 and 31"},
		{"0 0 1 march *", "", `month: "march" is not a month; write 1 to 12 or jan to dec`},
		{"0 0 * * monday", "", `day of week: "monday" is not a day; write 0 to 7 or sun to sat`},
		{"0 0 * * mon-", "", `day of week: "" is not a day`},
		{"1-2-3 * * * *", "", `minute: "2-3" is not a number`},
		{"1/2/3 * * * *", "", `minute: the step "2/3" is not a positive number`},
		{"0 0 * * fri-mon", "", `day of week: "fri-mon" goes backwards; write 5-6,0-1`},
		{"0 0 1 jul-jan *", "", `month: "jul-jan" goes backwards; write 7-12,1`},
		{"*/0 * * * *", "", `minute: the step "0" is not a positive number; write 1 to 59`},
		{"0 0 * * 7-3", "", `day of week: "7-3" goes backwards; write 0-3`},
		{"* * * *", "", "expected 5 or 6 fields"},
		{"* * * * * * *", "", "found 7"},
		{", * * * *", "", "minute: an item of the list is empty; remove the comma"},
		{"*-5 * * * *", "", `minute: "*-5" is not a range`},
		{"*/100 * * * *", "", "minute: the step 100 is longer than the range"},
		{"* */x * * *", "", `hour: the step "x"`},
		{"* 22-2 * * *", "", `hour: "22-2" goes backwards; write 22-23,0-2`},
		{"* * * * 8", "", "day of week: 8 is not between 0 and 7; write 0 to 7 or sun to sat"},
		{"* * * * x-7", "", `"x" is not a day`},
		{"0 0 30 2 *", "", "it is never due"},
		{"0 0 31 2,4,6,9,11 *", "", "it is never due"},
	}
	for _, c := range cases {
		t.Run(c.spec+" "+c.zone, func(t *testing.T) {
			_, err := Parse(c.spec, c.zone)
			var bad *SpecError
			require.ErrorAs(t, err, &bad)
			require.Equal(t, c.spec, bad.Spec)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// Go's ZoneBounds is loose where a zone goes on by rule, as all do one day.
func TestStretchesFollowTheZoneInTheFarFuture(t *testing.T) {
	for _, zone := range []string{"America/New_York", "Africa/Cairo", "America/Havana", "Australia/Lord_Howe", "Europe/Dublin", "Pacific/Chatham", "UTC"} {
		loc, err := time.LoadLocation(zone)
		require.NoError(t, err)
		at, end := time.Date(2035, 6, 1, 0, 0, 0, 0, time.UTC).Unix(), time.Date(2041, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
		for at < end {
			st := stretchAt(at, loc)
			to := min(st.end, end)
			if st.forever {
				to = end
			}
			require.Greater(t, to, at, zone)
			for ; at < to; at += 2 * 3600 {
				_, offset := time.Unix(at, 0).In(loc).Zone()
				if int64(offset) != st.offset {
					t.Fatalf("%s at %s: offset %d, want %d", zone, time.Unix(at, 0).UTC(), st.offset, offset)
				}
			}
			at = to
		}
	}
}

func TestEveryRefusesWhatIsNoPeriodOfWholeSeconds(t *testing.T) {
	for _, bad := range []time.Duration{-time.Second, 0, time.Millisecond, 1500 * time.Millisecond} {
		_, err := Every(bad)
		require.Error(t, err, bad)
	}
}

func TestHasZoneSeesThePrefixOnly(t *testing.T) {
	require.True(t, HasZone(" CRON_TZ=UTC @daily"))
	require.True(t, HasZone("TZ=UTC @daily"))
	require.False(t, HasZone("@daily"))
}

// Whatever the text, the parser answers; what it accepts is due again and
// again, on whole seconds, always later, whatever the policy; and what explains
// it answers as well.
func FuzzParse(f *testing.F) {
	for i, spec := range []string{
		"* * * * *", "*/5 0-3 1,15 * mon-fri", "0 0 29 2 *", "0 0 30 2 *", "@every 5m", "@every 1ns", "@daily", "manual",
		"TZ=UTC", "CRON_TZ=", "TZ=\t* * * * *", "TZ=Africa/Cairo 0 0 * * *", ", * * * *", "*-5 * * * *", "0 0 */2 * 1", "0 0 * * sun-sun", "7-7 * * * 7-7/2",
		"@every 2562047h47m16s", "0 0 0 31 12 7", "? ? ? ? ?", "1/59 * * * *", "0 0 1-31/30 2 *", "0 0 * * 0/7", "0 0 * * -7",
		"H * * * *", "H H(1-5) H/9 H H", "H(0-59)/60 * * * *", "H( * * * *", "H)-(/ * * * *", "H,H/2,*/3 * * * H(5-7)", "@every 1h/15m", "@every 1h/H", "@every 1h/1h", "@every 5m/-1ns",
		"30 1,2 * * 0", "*/7 1 29-31 2,4 *", "* * * * * *",
	} {
		f.Add(spec, "", "report", uint8(i), int64(1767225600))
		f.Add(spec, "America/Asuncion", "", uint8(i), int64(1696118400))
		f.Add(spec, "America/New_York", "backup", uint8(i), int64(1772928000))
	}
	f.Fuzz(func(t *testing.T, spec, zone, name string, policy uint8, unix int64) {
		const century = 100 * 366 * 24 * 3600
		last := time.Unix(unix%century, 0)
		job := jobs.Job{
			Name: name, Schedule: spec, TimeZone: zone, DST: policies[policy%4], Jitter: time.Duration(policy) * time.Second,
			Blackouts: []jobs.Blackout{{Schedule: spec, For: time.Duration(1+int(policy)) * time.Minute}},
		}
		advise(job, last)
		ticks, unexplained := Occurrences(job, last, 3)
		s, err := ParseJob(job)
		if err != nil {
			require.ErrorAs(t, err, new(*SpecError))
			require.NotContains(t, err.Error(), "the cron parser", "its errors name no field")
			require.Error(t, unexplained)
			return
		}
		require.NotEmpty(t, s.String())
		if s == Manual() {
			return
		}
		for i := range 10 {
			due := s.Next(last)
			require.True(t, due.After(last), "%s: %s is not after %s", spec, due, last)
			require.Zero(t, due.Nanosecond())
			require.True(t, due.Equal(s.Next(due.Add(-time.Second))), "%s: not the same from one second before %s", spec, due)
			require.True(t, due.Equal(s.Next(due.Add(-time.Nanosecond))), "%s: not the same from just before %s", spec, due)
			require.True(t, due.Equal(s.Next(last.Add(due.Sub(last)/2).Truncate(time.Second))), "%s: not the same from halfway to %s", spec, due)
			if i < len(ticks) {
				require.True(t, ticks[i].Instant.Equal(due))
				require.NotNil(t, ticks[i].Blackout, "it begins with the tick")
			}
			last = due
		}
	})
}
