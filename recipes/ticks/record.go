package ticks

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// tickRecord is the data of a job's node. Instants are of the schedule; other
// times are server times in milliseconds. One of those that is zero was set by
// the node's last write, and is the time of that: the next writer puts it into
// the data.
//
// It is one line of JSON, and one more for each entry of the history, newest
// last: who decides something need not understand what has ended long ago.
type tickRecord struct {
	Format   int         `json:"format"`
	Job      string      `json:"job"`
	Begins   time.Time   `json:"begins,omitzero"` // the first instant, before anything was decided
	Last     time.Time   `json:"last,omitzero"`
	Owners   []ownerNote `json:"owners,omitempty"`  // that runs and history are about: told once
	Runs     []runNote   `json:"runs,omitempty"`    // going on, oldest first
	Waiting  []time.Time `json:"waiting,omitempty"` // decided to run once others have ended, in order
	Paused   *pauseNote  `json:"paused,omitempty"`
	LeftOut  []tickGap   `json:"left_out,omitempty"` // not to run when they come, by instant; makes it format 2
	Failures int         `json:"failures,omitempty"` // in a row
	Counts   Counts      `json:"counts"`

	Definitions []definitionNote `json:"defs,omitempty"`

	history tickHistory // in lines of their own
	written int64       // when the node was written last
}

// tickOwner says who runs a tick. It is the data of the marker, too.
type tickOwner struct {
	Ledger string `json:"ledger,omitempty"` // guid of the Ledger
	Owner  string `json:"owner,omitempty"`
	Host   string `json:"host,omitempty"`
	PID    int    `json:"pid,omitempty"`
}

type ownerNote struct {
	Number int `json:"n"` // from 1
	tickOwner
}

type runNote struct {
	ID        string    `json:"id"`
	Owner     int       `json:"who,omitempty"` // from 1; 0: none
	Instant   time.Time `json:"at"`
	Manual    bool      `json:"manual,omitempty"`
	By        string    `json:"by,omitempty"`
	Why       string    `json:"why,omitempty"`
	Waited    bool      `json:"waited,omitempty"` // it was in Waiting
	ClaimedAt int64     `json:"claimed,omitempty"`

	ClockAhead int64 `json:"clock_ahead,omitempty"` // milliseconds: of the daemon's machine, against ZooKeeper's

	Cancel time.Time `json:"cancel,omitzero"` // the tick that asks it to end
}

type endNote struct {
	runNote
	Outcome     Outcome        `json:"end"`
	Reason      string         `json:"reason,omitempty"`
	Detail      string         `json:"detail,omitempty"`
	Token       priority.Token `json:"token,omitempty"`
	Took        int64          `json:"took,omitempty"`  // milliseconds
	WaitedFor   int64          `json:"locks,omitempty"` // the same, for locks
	Retries     int            `json:"retries,omitempty"`
	Preemptions int            `json:"preempted,omitempty"`
	Trace       string         `json:"trace,omitempty"`
	EndedAt     int64          `json:"ended,omitempty"`
	First       time.Time      `json:"first,omitzero"` // of Count
	Count       int64          `json:"count,omitempty"`
}

type pauseNote struct {
	ID     string    `json:"id"` // of the call, or of the run that paused it
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	At     int64     `json:"at,omitempty"`
	Until  time.Time `json:"until,omitzero"`
	For    int64     `json:"for,omitempty"` // until then, counted from At
}

// What bounds a job's node.
const (
	maxTickHistory  = 32      // entries
	leastHistory    = 4       // of which so many stay, however long they are
	maxTickRecord   = 6 << 10 // bytes, as far as shortening the history helps
	maxReason       = 300     // of a pause
	maxTickedReason = 120     // in the history
)

// decided returns the instant up to which all are decided, or no ticks at all;
// zero: it is not known yet where they begin.
func (r *tickRecord) decided() time.Time {
	if r.Last.IsZero() && !r.Begins.IsZero() {
		return r.Begins.Add(-1)
	}
	return r.Last
}

// encode drops what the bounds leave no room for.
func (r *tickRecord) encode() []byte {
	r.tidyLeftOut()
	r.history.trim(maxTickHistory)
	r.tidyOwners()
	data := znode.Encode(r)
	for len(data)+r.history.size() > maxTickRecord && len(r.history) > leastHistory {
		r.history.trim(len(r.history) - 1)
		r.tidyOwners()
		data = znode.Encode(r)
	}
	return r.history.appendTo(data)
}

func decodeTick(data []byte, stat *zkclient.Stat) (r tickRecord, err error) {
	data, history, _ := bytes.Cut(data, []byte{'\n'})
	if err := znode.DecodeUpTo(tickFormatLeftOut, data, &r, &r.Format); err != nil {
		return r, err
	}
	if r.Format == tickFormatLeftOut && len(r.LeftOut) == 0 {
		return r, &znode.RecordError{Format: r.Format} // no client of ours has written that
	}
	r.history = splitHistory(history)
	r.stamp(stat.Mtime)
	return r, nil
}

// stamp fills in what the node's last write has set.
func (r *tickRecord) stamp(mtime int64) {
	r.written = mtime
	r.stampDefinitions(mtime)
	for i := range r.Runs {
		r.Runs[i].ClaimedAt = cmp.Or(r.Runs[i].ClaimedAt, mtime)
	}
	r.history.stamp(mtime)
	if r.Paused != nil {
		r.Paused.At = cmp.Or(r.Paused.At, mtime)
	}
}

// --- owners -------------------------------------------------------------------

// owner returns the number of o, which it adds if it is new.
func (r *tickRecord) owner(o tickOwner) int {
	number := 1
	for _, known := range r.Owners {
		if known.tickOwner == o {
			return known.Number
		}
		number = max(number, known.Number+1)
	}
	r.Owners = append(r.Owners, ownerNote{Number: number, tickOwner: o})
	return number
}

func (r *tickRecord) ownerOf(n *runNote) tickOwner {
	for _, known := range r.Owners {
		if known.Number == n.Owner {
			return known.tickOwner
		}
	}
	return tickOwner{}
}

// tidyOwners drops those that nothing is about any more, and invalid ones: 0 is
// none.
func (r *tickRecord) tidyOwners() {
	used := r.history.owners()
	for i := range r.Runs {
		used[r.Runs[i].Owner] = true
	}
	r.Owners = slices.DeleteFunc(r.Owners, func(o ownerNote) bool { return o.Number < 1 || !used[o.Number] })
}

// --- runs ---------------------------------------------------------------------

// run returns the index of a run that goes on, or -1.
func (r *tickRecord) run(id string) int {
	return slices.IndexFunc(r.Runs, func(n runNote) bool { return n.ID == id })
}

// ended returns how a run ended that the history still knows, or nil. An entry
// that stands for several skips is known by the newest.
func (r *tickRecord) ended(id string) *endNote { return r.history.find(id) }

// wait puts a tick into the buffer. Older ones go first.
func (r *tickRecord) wait(instant time.Time) {
	i, there := slices.BinarySearchFunc(r.Waiting, instant, time.Time.Compare)
	if !there {
		r.Waiting = slices.Insert(r.Waiting, i, instant)
	}
}

// waits reports whether a tick is in the buffer.
func (r *tickRecord) waits(instant time.Time) bool {
	return slices.ContainsFunc(r.Waiting, instant.Equal)
}

// finish ends a run that goes on.
func (r *tickRecord) finish(i int, end End) {
	note := r.Runs[i]
	r.Runs = slices.Delete(r.Runs, i, i+1)
	note.Waited, note.Cancel = false, time.Time{}
	r.end(endNote{
		runNote: note, Outcome: end.Outcome, Reason: end.Reason, Detail: words.Clip(end.Detail, maxTickedReason),
		Token: end.Token, Took: end.Took.Milliseconds(), WaitedFor: end.Waited.Milliseconds(),
		Retries: max(end.Attempts-1, 0), Preemptions: end.Preemptions, Trace: words.Clip(end.Trace, maxTickedReason),
	}, 1)
	switch end.Outcome { //nolint:exhaustive // all others say nothing about the work
	case Ran:
		r.Failures = 0
	case Failed:
		r.Failures++
		if end.PauseAfter > 0 && r.Failures >= end.PauseAfter {
			r.pauseAfterFailures(note.ID, end)
		}
	}
}

// interrupt ends a run whose process has died.
func (r *tickRecord) interrupt(i int) {
	r.finish(i, End{Outcome: Interrupted, Reason: "its process or its ZooKeeper session ended"})
}

// skip records a tick that does not run.
func (r *tickRecord) skip(id string, instant time.Time, reason string) {
	r.end(endNote{runNote: runNote{ID: id, Instant: instant}, Outcome: Skipped, Reason: reason}, 1)
}

// end counts ticks and appends them to the history. Skips for one reason that
// follow each other become one entry: else a job that is paused would forget
// all else.
func (r *tickRecord) end(e endNote, n int64) {
	r.Counts.add(e.Outcome, e.Reason, n)
	e.Reason = words.Clip(e.Reason, maxTickedReason)
	if n > 1 {
		e.Count = n
	}
	if newest := r.history.newest(); newest != nil && e.collapses(newest) {
		e.First = earlier(newest.first(), e.first())
		e.Count = max(newest.Count, 1) + n
		e.Instant = later(newest.Instant, e.Instant)
		r.history = r.history[:len(r.history)-1]
	}
	r.history = append(r.history, tickLine{note: &e})
}

// collapses reports whether e and the entry before it are skips for one reason.
func (e *endNote) collapses(before *endNote) bool {
	return e.Outcome == Skipped && before.Outcome == Skipped && e.Reason == before.Reason && e.Detail == before.Detail &&
		!e.Manual && !before.Manual
}

func (e *endNote) first() time.Time {
	if e.First.IsZero() {
		return e.Instant
	}
	return e.First
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (c *Counts) add(outcome Outcome, reason string, n int64) {
	switch outcome {
	case Ran:
		c.Ran += n
	case Preempted:
		c.Preempted += n
	case Lost:
		c.Lost += n
	case Interrupted:
		c.Interrupted += n
	case Skipped:
		if c.Skipped == nil {
			c.Skipped = make(map[string]int64)
		}
		c.Skipped[words.Clip(reason, maxTickedReason)] += n
	default:
		c.Failed += n
	}
}

// --- as others see it -----------------------------------------------------------

func (r *tickRecord) publicRun(n *runNote) Run {
	o := r.ownerOf(n)
	run := Run{
		Job: r.Job, Instant: znode.Writable(n.Instant), Manual: n.Manual, By: n.By, Why: n.Why, ID: n.ID,
		Owner: o.Owner, Host: o.Host, PID: o.PID, Cancel: znode.Writable(n.Cancel),
		ClockAhead: znode.Milliseconds(n.ClockAhead),
	}
	if n.ClaimedAt != 0 {
		run.ClaimedAt = znode.RecordTime(n.ClaimedAt)
	}
	return run
}

func (r *tickRecord) publicEnd(e *endNote) Result {
	result := Result{
		Run: r.publicRun(&e.runNote),
		End: End{
			Outcome: e.Outcome, Reason: e.Reason, Detail: e.Detail, Token: e.Token,
			Took:   time.Duration(e.Took) * time.Millisecond,
			Waited: time.Duration(e.WaitedFor) * time.Millisecond, Preemptions: e.Preemptions, Trace: e.Trace,
		},
		EndedAt: znode.RecordTime(e.EndedAt), First: znode.Writable(e.first()), Count: max(e.Count, 1),
	}
	if e.Retries > 0 {
		result.Attempts = e.Retries + 1
	}
	return result
}

func (n *pauseNote) public() *Pause {
	if n == nil {
		return nil
	}
	p := &Pause{By: n.By, Reason: n.Reason, Until: znode.Writable(n.until())}
	if n.At != 0 {
		p.At = znode.RecordTime(n.At)
	}
	return p
}
