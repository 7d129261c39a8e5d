package views

import (
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// Job is a job in JSON and YAML. The names of fields are a promise to
// scripts.
type Job struct {
	Name     string      `json:"name"`
	State    string      `json:"state"`        // idle, running, waiting or paused
	By       string      `json:"scheduled_by"` // lockkeeper, or temporal: one of that server's schedules
	Schedule *string     `json:"schedule"`     // null: it is not in the file, or there is none
	Timezone *string     `json:"timezone"`
	Next     *time.Time  `json:"next"`  // null: never, or not known
	Locks    []string    `json:"locks"` // scopes
	Runs     []Run       `json:"runs"`
	Waiting  []time.Time `json:"waiting"` // ticks that wait for the end of a run
	Paused   *Pause      `json:"paused"`
	Last     *Tick       `json:"last"` // the last tick that ended
	Failures int         `json:"failures_in_a_row"`
	Counts   TickCounts  `json:"counts"` // since its first tick
}

// Run is a run that goes on.
type Run struct {
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

// Tick is a tick that has ended, or several skipped ones in a row.
type Tick struct {
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

// Pause is why a job does not run, and until when.
type Pause struct {
	By     string     `json:"by"`
	Reason string     `json:"reason"`
	Since  time.Time  `json:"since"`
	Until  *time.Time `json:"until"` // null: until somebody resumes it
}

// TickCounts is how many ticks have ended in which way.
type TickCounts struct {
	Ran         int64            `json:"ran"`
	Failed      int64            `json:"failed"`
	Preempted   int64            `json:"preempted"`
	Lost        int64            `json:"lost"`
	Interrupted int64            `json:"interrupted"`
	Skipped     map[string]int64 `json:"skipped"` // by reason
}

// NewJob is what the ledger knows of a job. Its schedule, its locks and its next
// run are for those to add who know the file.
func NewJob(s recipes.TickState, now time.Time) Job {
	v := Job{
		Name: s.Job, State: "idle", By: "lockkeeper", Locks: []string{}, Runs: make([]Run, 0, len(s.Runs)), Waiting: make([]time.Time, 0, len(s.Waiting)),
		Paused: NewPause(s.Paused, now), Failures: s.Failures, Counts: NewTickCounts(s.Counts),
	}
	if n := len(s.History); n > 0 {
		v.Last = new(NewTick(s.History[n-1]))
	}
	for _, t := range s.Waiting {
		v.Waiting = append(v.Waiting, t.UTC())
	}
	running := false
	for _, r := range s.Runs {
		v.Runs = append(v.Runs, NewRun(r))
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
	return v
}

// NewRun is a run as the ledger has it.
func NewRun(r recipes.TickRun) Run {
	return Run{
		ID: r.ID, Scheduled: scheduledAt(r), Owner: r.Owner, Host: r.Host, PID: r.PID, StartedAt: r.ClaimedAt.UTC(), Alive: r.Alive,
		RequestedBy: r.By, RequestedReason: r.Why,
	}
}

// NewTick is a tick as the ledger has it.
func NewTick(r recipes.TickResult) Tick {
	v := Tick{
		ID: r.ID, Scheduled: scheduledAt(r.TickRun), Count: max(1, r.Count), Outcome: string(r.Outcome), Reason: r.Reason,
		Owner: r.Owner, Host: r.Host, PID: r.PID, StartedAt: Optional(r.ClaimedAt), EndedAt: r.EndedAt.UTC(),
		Waited: r.Waited.Milliseconds(), Took: r.Took.Milliseconds(), Token: r.Token, Attempts: r.Attempts, Preemptions: r.Preemptions,
		RequestedBy: r.By, RequestedReason: r.Why, Trace: r.Trace,
	}
	if r.Outcome == recipes.TickRan || r.Outcome == recipes.TickFailed {
		v.Attempts = max(1, v.Attempts) // the ledger does not write a single one
	}
	if v.Count > 1 {
		v.First = Optional(r.First)
	}
	return v
}

// NewPause returns nil for a pause that is over.
func NewPause(pause *recipes.TickPause, now time.Time) *Pause {
	if pause == nil || !pause.Until.IsZero() && !pause.Until.After(now) {
		return nil
	}
	return &Pause{By: pause.By, Reason: pause.Reason, Since: pause.At.UTC(), Until: Optional(pause.Until)}
}

// NewTickCounts has no reason missing that was counted.
func NewTickCounts(c recipes.TickCounts) TickCounts {
	v := TickCounts{
		Ran: c.Ran, Failed: c.Failed, Preempted: c.Preempted, Lost: c.Lost, Interrupted: c.Interrupted, Skipped: c.Skipped,
	}
	if v.Skipped == nil {
		v.Skipped = map[string]int64{}
	}
	return v
}

// AllSkipped is how many ticks were skipped, for whatever reason.
func (v TickCounts) AllSkipped() (n int64) {
	for _, k := range v.Skipped {
		n += k
	}
	return n
}

func scheduledAt(r recipes.TickRun) *time.Time {
	if r.Manual {
		return nil
	}
	return Optional(r.Instant)
}

// Optional returns nil for no time.
func Optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

// History is how the last ticks of a job ended, and what goes on.
type History struct {
	Name     string      `json:"name"`
	History  []Tick      `json:"history"` // the oldest first
	Runs     []Run       `json:"runs"`
	Waiting  []time.Time `json:"waiting"`
	Paused   *Pause      `json:"paused"`
	Failures int         `json:"failures_in_a_row"`
	Counts   TickCounts  `json:"counts"` // since its first tick
}

// NewHistory has the last n ticks.
func NewHistory(s recipes.TickState, n int, now time.Time) History {
	job := NewJob(s, now)
	v := History{
		Name: s.Job, History: []Tick{}, Runs: job.Runs, Waiting: job.Waiting, Paused: job.Paused, Failures: job.Failures, Counts: job.Counts,
	}
	for _, t := range s.History[max(0, len(s.History)-n):] {
		v.History = append(v.History, NewTick(t))
	}
	return v
}

// NextTick is a tick to come.
type NextTick struct {
	Job      string    `json:"job"`
	At       time.Time `json:"at"`        // UTC
	Local    string    `json:"local"`     // the same in the zone of the job
	Zone     string    `json:"zone"`      // that zone
	StartsAt time.Time `json:"starts_at"` // with its jitter
	Runs     bool      `json:"runs"`      // false: it falls into a blackout
	Notes    []string  `json:"notes"`     // what is special about it
}
