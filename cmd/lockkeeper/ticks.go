package main

import (
	"cmp"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

// dueTick is an instant at which a job is due.
type dueTick struct {
	job   string
	at    time.Time // in the zone of the job
	runs  bool      // it is in no blackout
	notes []string  // what is special about it
}

// ticksOf returns the first n ticks after a time; fewer if there are no more.
func ticksOf(job jobs.Job, after time.Time, n int) ([]dueTick, error) {
	schedule, err := scheduler.ParseJob(job)
	if err != nil {
		return nil, err
	}
	ticks := make([]dueTick, 0, n)
	for len(ticks) < n {
		after = schedule.Next(after)
		if after.IsZero() {
			break
		}
		ticks = append(ticks, dueTick{job: job.Name, at: after, runs: true})
	}
	return ticks, nil
}

// nextRun returns the next tick that is neither in a blackout nor in a pause.
func nextRun(job jobs.Job, paused *pauseView, now time.Time) (time.Time, bool) {
	if paused != nil {
		if paused.Until == nil {
			return time.Time{}, false
		}
		now = *paused.Until
	}
	const enough = 100 // a blackout may last longer than that many ticks
	ticks, err := ticksOf(job, now, enough)
	if err != nil {
		return time.Time{}, false
	}
	for _, t := range ticks {
		if t.runs {
			return t.at, true
		}
	}
	return time.Time{}, false
}

// specOf returns the schedule of a job and its zone, nil if it has none.
func specOf(job jobs.Job) (spec, zone *string) {
	text := cmp.Or(strings.TrimSpace(job.Schedule), "manual")
	if text == "manual" || strings.HasPrefix(text, "@every") {
		return &text, nil
	}
	name := cmp.Or(job.TimeZone, "UTC")
	if scheduler.HasZone(text) {
		prefix, rest, _ := strings.Cut(text, " ")
		_, name, _ = strings.Cut(prefix, "=")
		text = strings.TrimSpace(rest)
	}
	return &text, &name
}
