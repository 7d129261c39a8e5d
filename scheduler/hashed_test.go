package scheduler

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

func mustParseJob(t testing.TB, job jobs.Job) Schedule {
	t.Helper()
	s, err := ParseJob(job)
	require.NoError(t, err)
	return s
}

// values returns what a field of a spec takes in the next n ticks of a job.
func values(t *testing.T, spec, job string, n int, of func(time.Time) int) map[int]bool {
	t.Helper()
	taken := map[int]bool{}
	s := mustParseJob(t, jobs.Job{Name: job, Schedule: spec})
	for at := noon; n > 0; n-- {
		at = s.Next(at)
		taken[of(at)] = true
	}
	return taken
}

func TestHashedFieldsTakeOneNumberOfTheirRangeForEachJob(t *testing.T) {
	weekday := func(at time.Time) int { return int(at.Weekday()) }
	month := func(at time.Time) int { return int(at.Month()) }
	cases := []struct {
		spec      string
		of        func(time.Time) int
		low, high int
	}{
		{"H * * * * *", time.Time.Second, 0, 59},
		{"H 5 * * *", time.Time.Minute, 0, 59},
		{"5 H * * *", time.Time.Hour, 0, 23},
		{"5 5 H * *", time.Time.Day, 1, 28},
		{"5 5 5 H *", month, 1, 12},
		{"5 5 * * H", weekday, 0, 6},
		{"H(10-14) 5 * * *", time.Time.Minute, 10, 14},
		{"5 H(22-23) * * *", time.Time.Hour, 22, 23},
		{"5 5 H(7-7) * *", time.Time.Day, 7, 7},
	}
	for _, c := range cases {
		t.Run(c.spec, func(t *testing.T) {
			all := map[int]bool{}
			for i := range 500 {
				taken := values(t, c.spec, fmt.Sprintf("job-%d", i), 3, c.of)
				require.Len(t, taken, 1)
				for v := range taken {
					if v < c.low || v > c.high {
						t.Fatalf("job-%d is due at %d", i, v)
					}
					all[v] = true
				}
			}
			require.Len(t, all, c.high-c.low+1, "all numbers are somebody's")
		})
	}
}

func TestNoDayOfTheWeekHasMoreHashedJobsThanAnother(t *testing.T) {
	jobsOf := make([]int, 7)
	for i := range 7000 {
		numbers, err := numbersOf("H", cronFields[5], "job-"+strconv.Itoa(i))
		require.NoError(t, err)
		n, err := strconv.Atoi(numbers)
		require.NoError(t, err)
		jobsOf[n%7]++
	}
	for _, n := range jobsOf {
		require.InDelta(t, 1000, n, 150)
	}
}

func TestHashedStepsBeginAtANumberOfTheJob(t *testing.T) {
	cases := []struct {
		spec            string
		low, high, step int
	}{
		{"H/15 5 * * *", 0, 59, 15},
		{"H(30-59)/10 5 * * *", 30, 59, 10},
		{"H/7 5 * * *", 0, 59, 7},
		{"H(0-9)/10 5 * * *", 0, 9, 10},
	}
	for _, c := range cases {
		t.Run(c.spec, func(t *testing.T) {
			for i := range 50 {
				taken := values(t, c.spec, "job-"+strconv.Itoa(i), 20, time.Time.Minute)
				first := c.low
				for !taken[first] {
					first++
				}
				require.Less(t, first, c.low+c.step)
				want := map[int]bool{}
				for v := first; v <= c.high; v += c.step {
					want[v] = true
				}
				require.Equal(t, want, taken)
			}
		})
	}
}

func TestHashedFieldsAreIndependentAndTheSameForEver(t *testing.T) {
	first := func(job, spec string) string {
		return mustParseJob(t, jobs.Job{Name: job, Schedule: spec}).Next(noon).Format("01-02 15:04:05")
	}
	// then: other versions of the program agree
	require.Equal(t, "01-02 05:10:00", first("report", "H H * * *"))
	require.Equal(t, "01-02 11:00:00", first("backup", "H H * * *"))
	require.Equal(t, "01-01 12:27:49", first("report", "@every 1h/H"))
	require.Equal(t, "01-01 13:02:00", first("report", "H/15 H/6 * * *"))
	require.Equal(t, first("report", "@every 1h/H"), first("report", "@every 1h / H"))
}

func TestHashedStepsGoByElapsedTimeAsPlainOnesDo(t *testing.T) {
	// given a night in which the hour from 2 to 3 does not come
	count := func(spec string) int {
		s := mustParseJob(t, jobs.Job{Name: "report", Schedule: spec, TimeZone: "America/New_York"})
		return len(dues(t, s, "2026-03-08T05:00:00Z", "2026-03-08T12:00:00Z"))
	}
	// then
	require.Zero(t, count("*/15 2 * * *"))
	require.Zero(t, count("H/15 2 * * *"))
	require.Equal(t, 1, count("H 2 * * *"))
	require.Equal(t, 1, count("H(0-29) 2 * * *"))
}

func TestHashedFieldsThatCannotWorkAreRefusedWithAdvice(t *testing.T) {
	cases := []struct{ name, spec, want string }{
		{"", "H * * * *", "minute: the number H follows from the name of a job"},
		{"", "@every 1h/H", "the number H follows from the name of a job"},
		{"report", "H5 * * * *", `minute: "H5" cannot be read; write H, H/n, or with a range H(0-59)`},
		{"report", "H( * * * *", "cannot be read"},
		{"report", "H() * * * *", "cannot be read"},
		{"report", "H(1-2 * * * *", "cannot be read"},
		{"report", "H(1) * * * *", "cannot be read"},
		{"report", "H1-2) * * * *", "cannot be read"},
		{"report", "* H(mon-fri) * * *", "cannot be read"},
		{"report", "* H(20-24) * * *", `hour: "H(20-24)" is not a range between 0 and 23`},
		{"report", "* H(9-8) * * *", "is not a range"},
		{"report", "* * H(0-8) * *", "day of month: \"H(0-8)\" is not a range between 1 and 31"},
		{"report", "H/0 * * * *", `the step "0" is not a positive number`},
		{"report", "H/x * * * *", `the step "x" is not a positive number`},
		{"report", "H/60 * * * *", "the step 60 is longer than the range from 0 to 59"},
		{"report", "H(0-9)/11 * * * *", "the step 11 is longer than the range from 0 to 9"},
		{"report", "0 0 H(30-31) 2 *", "it is never due"},
		{"report", "@every 1h/1h", "the phase 1h0m0s is not between 0s and the period 1h0m0s; write @every 1h0m0s/0s"},
		{"report", "@every 1h/-15m", "write @every 1h0m0s/45m0s"},
		{"report", "@every 1h/1500ms", "the phase 1.5s is not of whole seconds; write 2s"},
		{"report", "@every 1h/", `the phase "" is not a duration; write for example @every 1h/15m`},
		{"report", "@every 1h/15m/3", `the phase "15m/3" is not a duration`},
		{"report", "@every /15m", `"" is not a duration`},
	}
	for _, c := range cases {
		t.Run(c.name+" "+c.spec, func(t *testing.T) {
			_, err := ParseJob(jobs.Job{Name: c.name, Schedule: c.spec})
			var bad *SpecError
			require.ErrorAs(t, err, &bad)
			require.Equal(t, "schedule", bad.Field)
			require.Equal(t, c.spec, bad.Spec)
			require.ErrorContains(t, err, c.want)
		})
	}
}
