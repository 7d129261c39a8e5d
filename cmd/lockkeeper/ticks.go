package main

import (
	"cmp"
	"io"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

// nextRun returns the next tick that is neither in a blackout nor in a pause.
func nextRun(job jobs.Job, paused *views.Pause, now time.Time) (time.Time, bool) {
	if paused != nil {
		if paused.Until == nil {
			return time.Time{}, false
		}
		now = paused.Until.Add(-1) // a tick at that time runs
	}
	schedule, err := scheduler.ParseJob(job)
	if err != nil {
		return time.Time{}, false
	}
	blackouts, err := scheduler.ParseBlackouts(job)
	if err != nil {
		return time.Time{}, false
	}
	// A job that is due each second has more ticks in a year's blackout than
	// a person wants to wait for.
	const enough = 10_000
	at := now
	for range enough {
		if at = schedule.Next(at); at.IsZero() {
			break
		}
		if _, covered := blackouts.Cover(at); !covered {
			return at, true
		}
	}
	return time.Time{}, false
}

// nextView is a tick to come, with what tables need besides.
type nextView struct {
	views.NextTick
	zoned time.Time
}

// ticksOf returns the first n ticks of a job after a time; fewer if there are
// no more.
func ticksOf(job jobs.Job, after time.Time, n int) ([]nextView, error) {
	ticks, err := scheduler.Occurrences(job, after, n)
	if err != nil {
		return nil, err
	}
	all := make([]nextView, len(ticks))
	for i, t := range ticks {
		all[i] = nextView{zoned: t.Instant, NextTick: views.NextTick{
			Job: job.Name, At: t.Instant.UTC(), Local: t.Instant.Format(time.RFC3339), Zone: t.Instant.Location().String(),
			StartsAt: t.StartsAt.UTC(), Runs: t.Blackout == nil, Notes: append([]string{}, t.Notes...),
		}}
		if b := t.Blackout; b != nil {
			note := "does not run: blackout"
			if b.Reason != "" {
				note += ", " + b.Reason
			}
			all[i].Notes = append(all[i].Notes, note)
		} else if later := t.StartsAt.Sub(t.Instant); later > 0 {
			all[i].Notes = append(all[i].Notes, "starts "+human(later)+" later (jitter)")
		}
	}
	return all, nil
}

// writeTicks writes one line for each tick as seen from now, the name of its job
// only if there may be several.
func writeTicks(w io.Writer, ticks []nextView, now time.Time, indent string, named bool) {
	write := func(local, utc, in, job, notes string) {
		if named {
			row(w, indent+local, utc, in, job, notes)
		} else {
			row(w, indent+local, utc, in, notes)
		}
	}
	write("IN THE JOB'S ZONE", "UTC", "IN", "JOB", "NOTES")
	for _, t := range ticks {
		write(t.zoned.Format("Mon 2006-01-02 15:04:05 MST"), t.At.Format("2006-01-02 15:04:05"), human(t.At.Sub(now)),
			t.Job, cmp.Or(strings.Join(t.Notes, "; "), "-"))
	}
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
