package views

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// Job is a job in JSON and YAML. The names of fields are a promise to
// scripts.
type Job struct {
	Name     string      `json:"name"`
	State    string      `json:"state"`        // idle, running, cleaning up, waiting, delayed, frozen, paused or stopped
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

	// DecidedUntil is where its ticks are decided up to, if that is still to come: a
	// daemon whose clock was ahead has done it, and none runs before.
	DecidedUntil *time.Time `json:"decided_until,omitempty"`

	// LeftOut are ticks that are skipped when they come, for a clock that was ahead has run
	// them, or may have.
	LeftOut []Stretch `json:"left_out,omitempty"`

	// that daemons have of the job at the same time; not there if they agree
	Definitions []Definition `json:"differing_definitions,omitempty"`
}

// JobDetail is all that is known of one job.
type JobDetail struct {
	Job
	History []Tick     `json:"history"` // the oldest first
	Ticks   []NextTick `json:"ticks"`   // those to come
}

// Definition is what somebody means by the name of a job, and who was seen with it
// last.
type Definition struct {
	Fingerprint string    `json:"fingerprint"`
	Owner       string    `json:"owner"`
	Host        string    `json:"host"`
	PID         int       `json:"pid"`
	First       time.Time `json:"first_seen"`
	Seen        time.Time `json:"last_seen"`
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
	ClockAhead      int64      `json:"clock_ahead_ms,omitempty"` // how far its machine's clock was ahead of ZooKeeper's

	// running, cleaning up, waiting, delayed, frozen, or interrupted: its process has gone; absent if
	// the requests were not read
	State   string        `json:"state,omitempty"`
	Request *live.Request `json:"request,omitempty"` // that makes the run wait or clean up; of several, the oldest
}

// Since is since when the run is in its state.
func (r Run) Since() time.Time {
	if r.Request != nil {
		return r.Request.Since
	}
	return r.StartedAt
}

// Tick is a tick that has ended, or several skipped ones in a row.
type Tick struct {
	ID        string     `json:"id"`
	Scheduled *time.Time `json:"scheduled"` // null: by hand
	First     *time.Time `json:"first"`     // of several that are one entry
	Count     int64      `json:"count"`
	Outcome   string     `json:"outcome"`
	Reason    string     `json:"reason"`
	// more about the reason of a skip: the override that froze the request
	Detail          string     `json:"detail,omitempty"`
	Owner           string     `json:"owner"`
	Host            string     `json:"host"`
	PID             int        `json:"pid"`
	StartedAt       *time.Time `json:"started_at"` // null: it did not
	EndedAt         time.Time  `json:"ended_at"`
	Waited          int64      `json:"waited_ms"`
	Took            int64      `json:"took_ms"`
	Token           lock.Token `json:"token"`
	Attempts        int        `json:"attempts"`
	Preemptions     int        `json:"preemptions"`
	RequestedBy     string     `json:"requested_by"`
	RequestedReason string     `json:"requested_reason"`
	Trace           string     `json:"trace"`
	ClockAhead      int64      `json:"clock_ahead_ms,omitempty"` // how far its machine's clock was ahead of ZooKeeper's
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

// NewJob returns what the ledger knows of a job, and what its runs do, given
// all requests for locks; nil: they were not read, and a run counts as running.
// The caller, who knows the file, adds its schedule, its locks and its next
// run.
func NewJob(s ticks.State, requests []live.Request, now time.Time) Job {
	v := Job{
		Name: s.Job, State: "idle", By: "lockkeeper", Locks: []string{}, Runs: make([]Run, 0, len(s.Runs)),
		Waiting: make([]time.Time, 0, len(s.Waiting)),
		Paused:  NewPause(s.Paused, now), Failures: s.Failures, Counts: NewTickCounts(s.Counts),
	}
	if n := len(s.History); n > 0 {
		v.Last = new(NewTick(s.History[n-1]))
	}
	for _, d := range s.Differing {
		v.Definitions = append(v.Definitions, Definition{d.Fingerprint, d.Owner, d.Host, d.PID, d.First.UTC(), d.Seen.UTC()})
	}
	for _, t := range s.Waiting {
		v.Waiting = append(v.Waiting, t.UTC())
	}
	for _, g := range s.LeftOut {
		v.LeftOut = append(v.LeftOut, Stretch{g.After.UTC(), g.Until.UTC()})
	}
	if s.Ahead > 0 {
		v.DecidedUntil = live.Optional(s.DecidedUntil())
	}
	for i, of := range requestsOf(s, requests) {
		run := NewRun(s.Runs[i])
		if requests != nil {
			run.does(of)
		}
		v.Runs = append(v.Runs, run)
	}
	switch state := stateOfRuns(v.Runs); {
	case state != "":
		v.State = state
	case v.DecidedUntil != nil:
		v.State = "stopped"
	case v.Paused != nil:
		v.State = "paused"
	case len(v.Waiting) > 0:
		v.State = live.Waiting // for the end of a run
	}
	return v
}

// A Stretch is ticks after an instant, up to another one.
type Stretch struct {
	After time.Time `json:"after"`
	Until time.Time `json:"until"`
}

// stateOfRuns is the state of the job: a run that works goes first, then one that
// cleans up, then the oldest. "" when none lives.
func stateOfRuns(runs []Run) string {
	state := ""
	for _, r := range runs {
		is := cmp.Or(r.State, live.Running)
		if r.Alive && (state == "" || is == live.Running || is == live.CleaningUp && state != live.Running) {
			state = is
		}
	}
	return state
}

// requestsOf returns the requests of each run: those of its process in the name
// of its job. Of several runs of one process the older ones have what was
// granted, and then what waits longest.
func requestsOf(s ticks.State, all []live.Request) [][]live.Request {
	type process struct {
		host string
		pid  int
	}
	runs := map[process][]int{}
	for i, r := range s.Runs {
		if r.Alive {
			p := process{r.Host, r.PID}
			runs[p] = append(runs[p], i)
		}
	}
	byScope := map[process]map[string][]live.Request{}
	for _, r := range all {
		p := process{r.Host, r.PID}
		if r.Owner != s.Job || runs[p] == nil {
			continue
		}
		if byScope[p] == nil {
			byScope[p] = map[string][]live.Request{}
		}
		byScope[p][r.Scope] = append(byScope[p][r.Scope], r)
	}
	found := make([][]live.Request, len(s.Runs))
	for p, scopes := range byScope {
		for _, scope := range slices.Sorted(maps.Keys(scopes)) {
			requests := scopes[scope]
			slices.SortStableFunc(requests, func(a, b live.Request) int {
				return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Since.Compare(b.Since))
			})
			for n, r := range requests {
				i := runs[p][min(n, len(runs[p])-1)]
				found[i] = append(found[i], r)
			}
		}
	}
	return found
}

// rank puts granted requests first.
func rank(r live.Request) int {
	if r.State == live.Holding || r.State == live.CleaningUp {
		return 0
	}
	return 1
}

// NewRun is a run as the ledger has it.
func NewRun(r ticks.Run) Run {
	return Run{
		ID: r.ID, Scheduled: scheduledAt(r), Owner: r.Owner, Host: r.Host, PID: r.PID, StartedAt: r.ClaimedAt.UTC(),
		Alive: r.Alive, RequestedBy: r.By, RequestedReason: r.Why, ClockAhead: r.ClockAhead.Milliseconds(),
	}
}

// does adds what the requests of the run say of it.
func (r *Run) does(requests []live.Request) {
	r.State = string(ticks.Interrupted)
	if r.Alive {
		r.State, r.Request = live.RunState(requests)
	}
}

// NewTick is a tick as the ledger has it.
func NewTick(r ticks.Result) Tick {
	v := Tick{
		ID: r.ID, Scheduled: scheduledAt(r.Run), Count: max(1, r.Count), Outcome: string(r.Outcome), Reason: r.Reason,
		Detail: r.Detail, Owner: r.Owner, Host: r.Host, PID: r.PID,
		StartedAt: live.Optional(r.ClaimedAt), EndedAt: r.EndedAt.UTC(), Waited: r.Waited.Milliseconds(),
		Took: r.Took.Milliseconds(), Token: r.Token, Attempts: r.Attempts, Preemptions: r.Preemptions,
		RequestedBy: r.By, RequestedReason: r.Why, Trace: r.Trace, ClockAhead: aheadOf(r).Milliseconds(),
	}
	if r.Outcome == ticks.Ran || r.Outcome == ticks.Failed {
		v.Attempts = max(1, v.Attempts) // the ledger does not write a single one
	}
	if v.Count > 1 {
		v.First = live.Optional(r.First)
	}
	return v
}

// aheadOf is how far the clock of the machine that ran a tick was ahead of
// ZooKeeper's: as it said, or as it shows, since it was run before it was due.
func aheadOf(r ticks.Result) time.Duration {
	if by := r.Instant.Sub(r.ClaimedAt); r.ClockAhead == 0 && !r.Manual && !r.ClaimedAt.IsZero() &&
		by > 2*ticks.Tolerance {
		return by
	}
	return r.ClockAhead
}

// NewPause returns nil for a pause that is over.
func NewPause(pause *ticks.Pause, now time.Time) *Pause {
	if pause == nil || !pause.Until.IsZero() && !pause.Until.After(now) {
		return nil
	}
	return &Pause{By: pause.By, Reason: pause.Reason, Since: pause.At.UTC(), Until: live.Optional(pause.Until)}
}

// NewTickCounts has no reason missing that was counted.
func NewTickCounts(c ticks.Counts) TickCounts {
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

func scheduledAt(r ticks.Run) *time.Time {
	if r.Manual {
		return nil
	}
	return live.Optional(r.Instant)
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
func NewHistory(s ticks.State, requests []live.Request, n int, now time.Time) History {
	job := NewJob(s, requests, now)
	v := History{
		Name: s.Job, History: []Tick{}, Runs: job.Runs, Waiting: job.Waiting, Paused: job.Paused, Failures: job.Failures,
		Counts: job.Counts,
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
