package main

import (
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// jobView is a job in JSON and YAML. The names of fields are a promise to
// scripts.
type jobView struct {
	Name     string        `json:"name"`
	State    string        `json:"state"`        // idle, running, waiting or paused
	By       string        `json:"scheduled_by"` // lockkeeper, or temporal: one of that server's schedules
	Schedule *string       `json:"schedule"`     // null: it is not in the file, or there is none
	Timezone *string       `json:"timezone"`
	Next     *time.Time    `json:"next"`  // null: never, or not known
	Locks    []string      `json:"locks"` // scopes
	Runs     []runView     `json:"runs"`
	Waiting  []time.Time   `json:"waiting"` // ticks that wait for the end of a run
	Paused   *pauseView    `json:"paused"`
	Last     *tickView     `json:"last"` // the last tick that ended
	Failures int           `json:"failures_in_a_row"`
	Counts   tickCountView `json:"counts"` // since its first tick
}

// runView is a run that goes on.
type runView struct {
	ID              string     `json:"id"`
	Scheduled       *time.Time `json:"scheduled"` // null: by hand
	Owner           string     `json:"owner"`
	Host            string     `json:"host"`
	PID             int        `json:"pid"`
	StartedAt       time.Time  `json:"started_at"`
	Alive           bool       `json:"alive"` // its process lives
	RequestedBy     string     `json:"requested_by"`
	RequestedReason string     `json:"requested_reason"`
}

// tickView is a tick that has ended, or several skipped ones in a row.
type tickView struct {
	ID              string        `json:"id"`
	Scheduled       *time.Time    `json:"scheduled"` // null: by hand
	First           *time.Time    `json:"first"`     // of several that are one entry
	Count           int64         `json:"count"`
	Outcome         string        `json:"outcome"`
	Reason          string        `json:"reason"`
	Owner           string        `json:"owner"`
	Host            string        `json:"host"`
	PID             int           `json:"pid"`
	StartedAt       *time.Time    `json:"started_at"` // null: it did not
	EndedAt         time.Time     `json:"ended_at"`
	Waited          int64         `json:"waited_ms"`
	Took            int64         `json:"took_ms"`
	Token           recipes.Token `json:"token"`
	Attempts        int           `json:"attempts"`
	Preemptions     int           `json:"preemptions"`
	RequestedBy     string        `json:"requested_by"`
	RequestedReason string        `json:"requested_reason"`
	Trace           string        `json:"trace"`
}

type pauseView struct {
	By     string     `json:"by"`
	Reason string     `json:"reason"`
	Since  time.Time  `json:"since"`
	Until  *time.Time `json:"until"` // null: until somebody resumes it
}

type tickCountView struct {
	Ran         int64            `json:"ran"`
	Failed      int64            `json:"failed"`
	Preempted   int64            `json:"preempted"`
	Lost        int64            `json:"lost"`
	Interrupted int64            `json:"interrupted"`
	Skipped     map[string]int64 `json:"skipped"` // by reason
}

// newJobView joins what the file says of a job, nil for nothing, with what the
// ledger knows.
func newJobView(job *jobs.Job, s recipes.TickState, now time.Time) jobView {
	v := jobView{
		Name: s.Job, State: "idle", By: "lockkeeper", Locks: []string{}, Runs: make([]runView, 0, len(s.Runs)), Waiting: make([]time.Time, 0, len(s.Waiting)),
		Paused: newPauseView(s.Paused, now), Failures: s.Failures, Counts: newTickCountView(s.Counts),
	}
	if n := len(s.History); n > 0 {
		v.Last = new(newTickView(s.History[n-1]))
	}
	for _, t := range s.Waiting {
		v.Waiting = append(v.Waiting, t.UTC())
	}
	running := false
	for _, r := range s.Runs {
		v.Runs = append(v.Runs, newRunView(r))
		running = running || r.Alive
	}
	switch {
	case running:
		v.State = "running"
	case v.Paused != nil:
		v.State = "paused"
	case len(v.Waiting) > 0:
		v.State = "waiting"
	}
	if job != nil {
		v.Name = job.Name
		v.Schedule, v.Timezone = specOf(*job)
		for _, r := range job.Requirements {
			v.Locks = append(v.Locks, r.Scope)
		}
		if next, ok := nextRun(*job, v.Paused, now); ok {
			v.Next = new(next.UTC())
		}
	}
	return v
}

func newRunView(r recipes.TickRun) runView {
	return runView{
		ID: r.ID, Scheduled: scheduledAt(r), Owner: r.Owner, Host: r.Host, PID: r.PID, StartedAt: r.ClaimedAt.UTC(), Alive: r.Alive,
		RequestedBy: r.By, RequestedReason: r.Why,
	}
}

func newTickView(r recipes.TickResult) tickView {
	v := tickView{
		ID: r.ID, Scheduled: scheduledAt(r.TickRun), Count: max(1, r.Count), Outcome: string(r.Outcome), Reason: r.Reason,
		Owner: r.Owner, Host: r.Host, PID: r.PID, StartedAt: optional(r.ClaimedAt), EndedAt: r.EndedAt.UTC(),
		Waited: r.Waited.Milliseconds(), Took: r.Took.Milliseconds(), Token: r.Token, Attempts: r.Attempts, Preemptions: r.Preemptions,
		RequestedBy: r.By, RequestedReason: r.Why, Trace: r.Trace,
	}
	if r.Outcome == recipes.TickRan || r.Outcome == recipes.TickFailed {
		v.Attempts = max(1, v.Attempts) // the ledger does not write a single one
	}
	if v.Count > 1 {
		v.First = optional(r.First)
	}
	return v
}

// newPauseView returns nil for a pause that is over.
func newPauseView(pause *recipes.TickPause, now time.Time) *pauseView {
	if pause == nil || !pause.Until.IsZero() && !pause.Until.After(now) {
		return nil
	}
	return &pauseView{By: pause.By, Reason: pause.Reason, Since: pause.At.UTC(), Until: optional(pause.Until)}
}

func newTickCountView(c recipes.TickCounts) tickCountView {
	v := tickCountView{
		Ran: c.Ran, Failed: c.Failed, Preempted: c.Preempted, Lost: c.Lost, Interrupted: c.Interrupted, Skipped: c.Skipped,
	}
	if v.Skipped == nil {
		v.Skipped = map[string]int64{}
	}
	return v
}

func (v tickCountView) skipped() (n int64) {
	for _, k := range v.Skipped {
		n += k
	}
	return n
}

func scheduledAt(r recipes.TickRun) *time.Time {
	if r.Manual {
		return nil
	}
	return optional(r.Instant)
}

// optional returns nil for no time.
func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}
