package scheduler

import (
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
)

// A definition is a job, as it was read.
type definition struct {
	jobs.Job
	schedule  Schedule
	blackouts Blackouts
	print     string // see jobs.Job.Fingerprint

	since        time.Time     // in force; zero: always
	before       Schedule      // of ticks up to then
	jitterBefore time.Duration // likewise
}

// define checks a job, and reads what is to be read of it.
func (s *Scheduler) define(job jobs.Job) (*definition, error) {
	job = job.WithDefaults()
	schedule, scheduleErr := ParseJob(job)
	blackouts, blackoutErr := ParseBlackouts(job)
	problems := []error{job.Validate(), scheduleErr, blackoutErr}
	if len(job.Requirements) > 0 && s.cfg.Guard == nil {
		problems = append(problems, errors.New("it needs a lock, but Config.Guard is nil"))
	}
	return &definition{Job: job, schedule: schedule, blackouts: blackouts, print: job.Fingerprint()},
		errors.Join(problems...)
}

// due is when a tick is to start: its identity is not changed by that. It waits
// for those before it, if they have a longer jitter.
func (d *definition) due(tick time.Time) time.Time {
	if !tick.After(d.since) {
		return latestDue(d.Name, d.before, d.jitterBefore, tick.Add(-d.jitterBefore), tick, tick)
	}
	due := latestDue(d.Name, d.schedule, d.Jitter, later(d.since, tick.Add(-d.Jitter)), tick, tick)
	if d.before != nil {
		due = latestDue(d.Name, d.before, d.jitterBefore, tick.Add(-d.jitterBefore), d.since, due)
	}
	return due
}

// latestDue returns when the last of the ticks after one instant and up to
// another one may start, or an earliest time.
func latestDue(job string, schedule Schedule, jitter time.Duration, after, until, earliest time.Time) time.Time {
	if jitter == 0 {
		return earliest
	}
	for tick := schedule.Next(after); !tick.IsZero() && !tick.After(until); tick = schedule.Next(tick) {
		earliest = later(earliest, tick.Add(jitterOf(job, tick, jitter)))
	}
	return earliest
}

// follow makes d the definition after another one, from now on. The feed may
// still hold back ticks of that one, and with a jitter from before.
func (d *definition) follow(old *definition, now time.Time) {
	d.since, d.before, d.jitterBefore = now, old.schedule, old.Jitter
	if old.since.Add(old.jitterBefore).After(now) {
		d.jitterBefore = max(d.jitterBefore, old.jitterBefore)
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// next returns the first tick after another one; ok is false when there is none.
func (d *definition) next(tick time.Time) (next time.Time, ok bool) {
	next = d.schedule.Next(tick)
	return next, !next.IsZero()
}
