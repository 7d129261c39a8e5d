package main

import (
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// What commands show of jobs is what the console shows.
type (
	jobView       = views.Job
	runView       = views.Run
	tickView      = views.Tick
	pauseView     = views.Pause
	tickCountView = views.TickCounts
	historyView   = views.History
)

// newJobView joins what the file says of a job, nil for nothing, with what the
// ledger knows.
func newJobView(job *jobs.Job, s recipes.TickState, now time.Time) jobView {
	v := views.NewJob(s, now)
	if job == nil {
		return v
	}
	v.Name = job.Name
	v.Schedule, v.Timezone = specOf(*job)
	for _, r := range job.Requirements {
		v.Locks = append(v.Locks, r.Scope)
	}
	if next, ok := nextRun(*job, v.Paused, now); ok {
		v.Next = new(next.UTC())
	}
	return v
}
