package recipes

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"
)

// TickOutcome is how a tick ended.
type TickOutcome string

// The outcomes of a tick.
const (
	TickRan         TickOutcome = "ran"         // it ran to its end
	TickFailed      TickOutcome = "failed"      // it ran and returned an error
	TickPreempted   TickOutcome = "preempted"   // it was asked to go: outranked, or its lease had run out
	TickLost        TickOutcome = "lost"        // its lock was lost while it ran
	TickInterrupted TickOutcome = "interrupted" // its process ended, or had to end it
	TickSkipped     TickOutcome = "skipped"     // it did not run
)

// TickEnd is how a claimed run ended, as its process tells.
type TickEnd struct {
	Outcome TickOutcome
	Reason  string // why, for people; for a skip one word, which is counted
	Token   Token  // of the lock; 0 without one
}

// TickRun is a run that was claimed.
type TickRun struct {
	Job       string
	Instant   time.Time // of the schedule, UTC
	Manual    bool      // run by hand; then Instant is when that was asked for
	ID        string    // unique in the cluster
	Owner     string
	Host      string
	PID       int
	ClaimedAt time.Time // server's clock
}

// TickState is what the ledger knows about a job.
type TickState struct {
	Job      string
	Last     time.Time   // the last instant that was decided; zero: none
	Run      *TickRun    // nil: nothing runs
	Alive    bool        // the process of Run lives
	Finished *TickResult // the last tick that ended; nil: none
	Counts   TickCounts
}

// TickResult is the recorded end of a tick.
type TickResult struct {
	TickEnd
	TickRun
	EndedAt time.Time // server's clock
}

// TickCounts counts the ticks of a job by their outcome, since its first one.
type TickCounts struct {
	Ran         int64            `json:"ran,omitempty"`
	Failed      int64            `json:"failed,omitempty"`
	Preempted   int64            `json:"preempted,omitempty"`
	Lost        int64            `json:"lost,omitempty"`
	Interrupted int64            `json:"interrupted,omitempty"`
	Skipped     map[string]int64 `json:"skipped,omitempty"` // by reason
}

// Total returns how many ticks have ended.
func (c TickCounts) Total() int64 {
	n := c.Ran + c.Failed + c.Preempted + c.Lost + c.Interrupted
	for _, skipped := range c.Skipped {
		n += skipped
	}
	return n
}

// TickInterruptedError is returned by Finish for a run that somebody else has
// recorded as interrupted meanwhile: the session under which it was claimed
// had ended. What was recorded stays.
type TickInterruptedError struct {
	Job     string
	Instant time.Time
}

func (e *TickInterruptedError) Error() string {
	return fmt.Sprintf("the run of job %q at %s was recorded as interrupted before it ended, because its ZooKeeper session had ended",
		e.Job, e.Instant.Format(time.RFC3339))
}

// --- in ZooKeeper -------------------------------------------------------------

// tickRecord is the data of a job's node. Instants are of the schedule; other
// times are server times in milliseconds. One of those that is zero was set by
// the node's last write, and is the time of that: whoever writes next puts it
// into the data.
type tickRecord struct {
	Format      int        `json:"format"`
	Job         string     `json:"job"`
	Begins      time.Time  `json:"begins,omitzero"` // the first instant, before anything was decided
	Last        time.Time  `json:"last,omitzero"`
	Run         *runNote   `json:"run,omitempty"`
	Finished    *endNote   `json:"finished,omitempty"`
	Interrupted string     `json:"interrupted,omitempty"` // id of the last run that was found dead
	Counts      TickCounts `json:"counts"`
}

// tickOwner says who runs a tick. It is the data of the marker, too.
type tickOwner struct {
	Ledger string `json:"ledger,omitempty"` // guid of the TickLedger
	Owner  string `json:"owner,omitempty"`
	Host   string `json:"host,omitempty"`
	PID    int    `json:"pid,omitempty"`
}

type runNote struct {
	tickOwner
	ID        string    `json:"id"`
	Instant   time.Time `json:"instant"`
	Manual    bool      `json:"manual,omitempty"`
	State     string    `json:"state,omitempty"` // claimed, while it goes on
	ClaimedAt int64     `json:"claimed_at,omitempty"`
}

type endNote struct {
	runNote
	Outcome TickOutcome `json:"outcome"`
	Reason  string      `json:"reason,omitempty"`
	Token   Token       `json:"token,omitempty"`
	EndedAt int64       `json:"ended_at,omitempty"`
}

// decided returns the instant up to which all are decided, or no ticks at all;
// zero: it is not known yet where they begin.
func (r *tickRecord) decided() time.Time {
	if r.Last.IsZero() && !r.Begins.IsZero() {
		return r.Begins.Add(-1)
	}
	return r.Last
}

func (r tickRecord) encode() []byte { return encode(r) }

func decodeTick(data []byte, stat *zk.Stat) (r tickRecord, err error) {
	if err := decode(data, &r, &r.Format); err != nil {
		return r, err
	}
	if r.Run != nil && r.Run.ClaimedAt == 0 {
		r.Run.ClaimedAt = stat.Mtime
	}
	if r.Finished != nil && r.Finished.EndedAt == 0 {
		r.Finished.EndedAt = stat.Mtime
	}
	return r, nil
}

// finish ends the run that goes on.
func (r *tickRecord) finish(end TickEnd) {
	r.Counts.add(end.Outcome, end.Reason, 1)
	r.Finished = &endNote{runNote: *r.Run, Outcome: end.Outcome, Reason: shorten(end.Reason), Token: end.Token}
	r.Finished.State = ""
	r.Run = nil
}

// interrupt ends the run whose process has died.
func (r *tickRecord) interrupt() {
	r.Interrupted = r.Run.ID
	r.finish(TickEnd{Outcome: TickInterrupted, Reason: "its process or its ZooKeeper session ended"})
}

// skip records a tick that does not run.
func (r *tickRecord) skip(id string, instant time.Time, reason string, n int64) {
	r.Counts.add(TickSkipped, reason, n)
	r.Finished = &endNote{runNote: runNote{ID: id, Instant: instant}, Outcome: TickSkipped, Reason: shorten(reason)}
}

func (c *TickCounts) add(outcome TickOutcome, reason string, n int64) {
	switch outcome {
	case TickRan:
		c.Ran += n
	case TickPreempted:
		c.Preempted += n
	case TickLost:
		c.Lost += n
	case TickInterrupted:
		c.Interrupted += n
	case TickSkipped:
		if c.Skipped == nil {
			c.Skipped = make(map[string]int64)
		}
		c.Skipped[shorten(reason)] += n
	default:
		c.Failed += n
	}
}

// maxReason bounds what one job can make of its node.
const maxReason = 300

func shorten(s string) string {
	if len(s) <= maxReason {
		return s
	}
	end := maxReason
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

func (n *runNote) public(job string) TickRun {
	run := TickRun{Job: job, Instant: n.Instant, Manual: n.Manual, ID: n.ID, Owner: n.Owner, Host: n.Host, PID: n.PID}
	if n.ClaimedAt != 0 {
		run.ClaimedAt = time.UnixMilli(n.ClaimedAt)
	}
	return run
}

func (v *tickView) state(job string) TickState {
	s := TickState{Job: job, Last: v.record.Last, Alive: v.alive, Counts: v.record.Counts}
	if v.record.Run != nil {
		s.Run = new(v.record.Run.public(job))
	}
	if f := v.record.Finished; f != nil {
		s.Finished = &TickResult{
			TickRun: f.public(job),
			TickEnd: TickEnd{Outcome: f.Outcome, Reason: f.Reason, Token: f.Token},
			EndedAt: time.UnixMilli(f.EndedAt),
		}
	}
	return s
}
