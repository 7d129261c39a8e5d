package scheduler

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
)

// Blackouts are the windows in which no tick of a job runs. Like a schedule
// they are a pure function of time, and safe for concurrent use.
type Blackouts struct{ windows []window }

// A window is a blackout that has been read.
type window struct {
	jobs.Blackout
	starts Schedule
}

// ParseBlackouts reads the blackouts of a job, each in its time zone, else in
// that of the job. It returns everything that is wrong with them, joined; each
// problem is a *SpecError with its field. Their lengths are checked by
// jobs.Job.Validate.
func ParseBlackouts(job jobs.Job) (Blackouts, error) {
	var all Blackouts
	var problems []error
	for i, b := range job.Blackouts {
		src := source{field: fmt.Sprintf("blackout[%d].schedule", i), spec: b.Schedule, zone: b.TimeZone, job: job.Name}
		if src.zone == "" && !HasZone(b.Schedule) {
			src.zone = zoneOf(job)
		}
		starts, err := src.read()
		if err == nil && starts == Manual() {
			err = &SpecError{
				Field: src.field, Spec: src.spec, Zone: src.zone,
				Reason: `the window never begins; write when, for example "0 22 24 12 *"`,
			}
		}
		problems = append(problems, err)
		all.windows = append(all.windows, window{b, starts})
	}
	if err := errors.Join(problems...); err != nil {
		return Blackouts{}, err
	}
	return all, nil
}

// zoneOf returns the name of the time zone of a job's schedule; empty: UTC.
func zoneOf(job jobs.Job) string {
	if zone, _, ok := cutZone(strings.TrimSpace(job.Schedule)); ok && job.TimeZone == "" {
		return zone
	}
	return job.TimeZone
}

// Cover returns the first blackout that has begun by the instant and is not
// over yet.
func (b Blackouts) Cover(instant time.Time) (jobs.Blackout, bool) {
	w, _ := b.cover(instant)
	if w == nil {
		return jobs.Blackout{}, false
	}
	return w.Blackout, true
}

// cover returns the same, and when that window is over.
func (b Blackouts) cover(instant time.Time) (*window, time.Time) {
	for i := range b.windows {
		w := &b.windows[i]
		// A start in (instant-For, instant]: the first one there is enough.
		if start := w.starts.Next(instant.Add(-w.For)); !start.IsZero() && !start.After(instant) {
			return w, start.Add(w.For)
		}
	}
	return nil, time.Time{}
}
