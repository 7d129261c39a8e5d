package scheduler

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
)

// A Schedule tells when a job is due. It is a pure function of time: all
// daemons that parse the same spec with the same time zone data agree on every
// instant. It is safe for concurrent use.
type Schedule interface {
	// Next returns the first due instant after the given one, on a whole
	// second, in the schedule's time zone. It returns the zero time when there
	// is none.
	Next(after time.Time) time.Time

	// String returns the spec and, if one was given, the time zone.
	String() string
}

// SpecError is returned for a spec or time zone that cannot be used.
type SpecError struct {
	Field  string // of the job, as in the configuration: schedule, or blackout[0].schedule; empty from Parse
	Spec   string
	Zone   string // the time zone given beside the spec, if any
	Reason string // what is wrong, and what to write instead
}

func (e *SpecError) Error() string {
	return fmt.Sprintf("%s %q: %s", cmp.Or(e.Field, "schedule"), e.Spec, e.Reason)
}

// ParseJob reads the schedule of a job: Schedule in TimeZone, with the policies
// of DST and the Name for H. A job without a schedule has Manual's.
//
//   - five fields (minute, hour, day of month, month, day of week) or six (a
//     second in front), as in cron; names of months and days, steps, 7 for Sunday.
//     ? is the same as *. When both day fields leave days out, a day that matches
//     either one is due; a */2 leaves days out (unlike in Vixie's cron).
//   - H in a field, as in Jenkins: a number that follows from the job's name, so
//     that jobs with one spec are not due at one time. H(a-b) is one of a range;
//     H/n and H(a-b)/n are steps that begin at such a number. A day of month is
//     one of 1 to 28, unless a range says otherwise.
//   - @hourly, @daily or @midnight, @weekly, @monthly, @yearly or @annually
//   - @every D, for D of whole seconds: due when the Unix time is a multiple
//     of D, wherever and whenever the daemon was started. @every D/P is due P
//     later, and @every D/H by a time that follows from the job's name.
//   - manual: never due; see Scheduler.RunNow
//
// The fields are on the clock of the time zone, a name such as Europe/Berlin:
// from TimeZone, or from a prefix CRON_TZ= or TZ= of the spec, not both.
// Defaults to UTC, which unlike the machine's own zone is the same everywhere.
//
// When the clocks go forward, what was due in the gap is due as long after the
// gap's start as it would have been into it (02:30 becomes 03:30), or not at all
// (jobs.GapSkip). When they go back, it is due the first time only, or both
// times (jobs.FoldBoth). Specs with a * (or */n, H/n) in the hour or minute field
// go by elapsed time instead: */15 stays a quarter of an hour throughout.
//
// A spec that can never be due is an error. Every error is a *SpecError.
func ParseJob(job jobs.Job) (Schedule, error) {
	return source{
		field: "schedule", spec: cmp.Or(job.Schedule, Manual().String()), zone: job.TimeZone, job: job.Name, dst: job.DST,
	}.read()
}

// Parse reads a schedule as ParseJob does, in a time zone, with the default
// policies. H is an error: there is no name that it could follow from.
func Parse(spec, timezone string) (Schedule, error) {
	return source{spec: spec, zone: timezone}.read()
}

// HasZone reports whether the spec names its own time zone by a prefix
// CRON_TZ= or TZ=, so that a default one must not be given to Parse.
func HasZone(spec string) bool {
	_, _, ok := cutZone(strings.TrimSpace(spec))
	return ok
}

// Manual is the schedule of a job that runs only on request.
func Manual() Schedule { return manual{} }

type manual struct{}

func (manual) Next(time.Time) time.Time { return time.Time{} }
func (manual) String() string           { return "manual" }

// Every returns the schedule that is due whenever the Unix time is a multiple
// of period. The period must be at least a second and of whole seconds.
func Every(period time.Duration) (Schedule, error) {
	spec := "@every " + period.String()
	if err := checkPeriod(period); err != nil {
		return nil, &SpecError{Spec: spec, Reason: err.Error()}
	}
	return interval{seconds: int64(period / time.Second), spec: spec}, nil
}

func checkPeriod(period time.Duration) error {
	switch {
	case period <= 0:
		return fmt.Errorf("the period %s is not positive; write a period such as 5m", period)
	case period < time.Second:
		return fmt.Errorf("the period %s is shorter than a second; write 1s or more", period)
	case period%time.Second != 0:
		return fmt.Errorf("the period %s is not of whole seconds; write %s", period, period.Round(time.Second))
	}
	return nil
}

// interval is due at multiples of its length on the Unix clock, and its phase
// later.
type interval struct {
	seconds int64
	phase   int64 // less than seconds
	spec    string
}

func (s interval) Next(after time.Time) time.Time {
	unix := after.Unix() - s.phase // rounds down
	n := unix / s.seconds
	if unix%s.seconds < 0 {
		n--
	}
	return time.Unix((n+1)*s.seconds+s.phase, 0).UTC()
}

func (s interval) String() string { return s.spec }
