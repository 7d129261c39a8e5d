package ticks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// Outcome is how a tick ended.
type Outcome string

// The outcomes of a tick.
const (
	Ran         Outcome = "ran"         // it ran to its end
	Failed      Outcome = "failed"      // it ran and returned an error
	Preempted   Outcome = "preempted"   // it was preempted: outranked, or its lease had run out
	Lost        Outcome = "lost"        // its lock was lost while it ran
	Interrupted Outcome = "interrupted" // its process ended, or had to end it
	Skipped     Outcome = "skipped"     // it did not run
)

// End is how a claimed run ended, as its process tells.
type End struct {
	Outcome     Outcome
	Reason      string         // why, for people; for a skip one word, which is counted
	Detail      string         // more about the reason of a skip, for people; "": nothing
	Token       priority.Token // of the lock; 0 without one
	Took        time.Duration  // the work, without the wait for locks
	Waited      time.Duration  // for locks
	Attempts    int            // 0 and 1: one
	Preemptions int
	Trace       string // traceparent

	// PauseAfter pauses the job when so many runs in a row have failed, this one
	// included. 0: never.
	PauseAfter int

	// PauseFor is how long it then stays paused. The first run after that is a
	// trial: if it fails, too, the job is paused again. 0: until Resume.
	PauseFor time.Duration
}

// Run is a run that was claimed.
type Run struct {
	Job       string
	Instant   time.Time // of the schedule, UTC
	Manual    bool      // run by hand; then Instant is when that was asked for
	By        string    // who asked for a manual run, if that is known
	Why       string    // and why
	ID        string    // unique in the cluster
	Owner     string
	Host      string
	PID       int
	ClaimedAt time.Time // server's clock

	// Cancel is the tick that has cancelled the run (CancelOverlap). Zero: none.
	Cancel time.Time

	// ClockAhead is how far the clock of its machine was ahead of ZooKeeper's
	// (positive) or behind it when it was claimed. 0: no more than Tolerance.
	ClockAhead time.Duration

	// Alive: its process lives. Only in a State.
	Alive bool
}

// State is what the ledger knows about a job.
type State struct {
	Job      string
	Begins   time.Time   // the first instant of the job's ticks; zero: not known
	Last     time.Time   // the last instant that was decided; zero: none
	Runs     []Run       // going on, oldest first
	Waiting  []time.Time // decided to run once others have ended, in order
	Paused   *Pause      // nil: it is not; its end may have passed
	Failures int         // runs in a row that failed
	Counts   Counts      // since the first tick
	History  []Result    // how the last ones ended, newest last

	// Ahead is how far the last instant that was decided is after ZooKeeper's clock, if that is more than
	// Tolerance: no tick runs until then, unless it is set back with Rewind.
	Ahead time.Duration

	// LeftOut are stretches whose ticks do not run when they come: see Rewind.
	LeftOut []Stretch

	// Differing are the definitions of the job that daemons have at the same time.
	// Daemons of one definition, or of versions that do not say it: none.
	Differing []Definition

	version int32 // of the node, from 1; 0: there is none
}

// DecidedUntil returns the instant up to which the ticks of the job are
// decided; zero: none was decided, nor was the job begun.
func (s *State) DecidedUntil() time.Time {
	if s.Last.IsZero() && !s.Begins.IsZero() {
		return s.Begins.Add(-1)
	}
	return s.Last
}

// Latest returns the tick that ended last, nil when none has.
func (s *State) Latest() *Result {
	if len(s.History) == 0 {
		return nil
	}
	return &s.History[len(s.History)-1]
}

// Result returns how a run ended, nil when it has not or when that was too long
// ago.
func (s *State) Result(run string) *Result {
	for i := len(s.History) - 1; i >= 0; i-- {
		if s.History[i].ID == run {
			return &s.History[i]
		}
	}
	return nil
}

// Result is the recorded end of a tick, or of several that were skipped one
// after the other for one reason: from First to Instant, Count of them.
type Result struct {
	End
	Run
	EndedAt time.Time // server's clock
	First   time.Time // equals Instant for one
	Count   int64     // at least 1
}

// Counts counts the ticks of a job by their outcome, since its first one.
type Counts struct {
	Ran         int64            `json:"ran,omitempty"`
	Failed      int64            `json:"failed,omitempty"`
	Preempted   int64            `json:"preempted,omitempty"`
	Lost        int64            `json:"lost,omitempty"`
	Interrupted int64            `json:"interrupted,omitempty"`
	Skipped     map[string]int64 `json:"skipped,omitempty"` // by reason
}

// Total returns how many ticks have ended.
func (c Counts) Total() int64 {
	n := c.Ran + c.Failed + c.Preempted + c.Lost + c.Interrupted
	for _, skipped := range c.Skipped {
		n += skipped
	}
	return n
}

// InterruptedError is returned by Finish and AwaitCancel for a run that another
// process has recorded as interrupted meanwhile: the session under which it was
// claimed had ended. What was recorded stays.
type InterruptedError struct {
	Job     string
	Instant time.Time
}

func (e *InterruptedError) Error() string {
	return fmt.Sprintf(
		"the run of job %q at %s was recorded as interrupted before it ended, because its ZooKeeper session had ended",
		e.Job, e.Instant.Format(time.RFC3339))
}

// State returns what the ledger knows about job. One that it has never heard of
// has nothing but its name.
func (l *Ledger) State(ctx context.Context, job string) (State, error) {
	path, err := l.path(job)
	if err != nil {
		return State{}, err
	}
	state, err := l.stateAt(ctx, path, job)
	if err != nil {
		return State{}, fmt.Errorf("ticks of job %q: %w", job, l.explain(ctx, err))
	}
	if state.version > 0 {
		l.lookAtClock(ctx)
		state.Ahead = l.ahead(state.DecidedUntil())
	}
	return state, nil
}

// States returns what the ledger knows about all jobs, sorted by name, and the
// nodes that cannot be read, by path. Each is looked at on its own: the whole is
// no snapshot.
func (l *Ledger) States(ctx context.Context) ([]State, []zkclient.Unreadable, error) {
	states, left, err := l.states(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("ticks of all jobs: %w", l.explain(ctx, err))
	}
	if len(states) > 0 {
		l.lookAtClock(ctx)
	}
	for i := range states {
		states[i].Ahead = l.ahead(states[i].DecidedUntil())
	}
	return states, zkclient.ByPath(left), nil
}

func (l *Ledger) states(ctx context.Context) (states []State, left []zkclient.Unreadable, err error) {
	names, _, err := l.store.List(ctx, l.root)
	if errors.Is(err, zkclient.ErrNoNode) {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, err
	}
	var mu sync.Mutex
	work, inner := errgroup.WithContext(ctx)
	work.SetLimit(16)
	for _, name := range names {
		path := l.root + "/" + name
		job, ok := znode.UnescapeScope(name)
		if !ok {
			mu.Lock()
			left = append(left, zkclient.Misplaced(path, NotAJob))
			mu.Unlock()
			continue
		}
		work.Go(func() error {
			state, err := l.stateAt(inner, path, job)
			bad, isBad := zkclient.LeftOut(err, path, job)
			if err != nil && !isBad {
				return fmt.Errorf("job %q: %w", job, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if isBad {
				left = append(left, bad)
			} else {
				states = append(states, state)
			}
			return nil
		})
	}
	err = work.Wait()
	slices.SortFunc(states, func(a, b State) int { return strings.Compare(a.Job, b.Job) })
	return states, left, err
}

func (l *Ledger) stateAt(ctx context.Context, path, job string) (State, error) {
	v, err := l.look(ctx, path)
	if errors.Is(err, zkclient.ErrNoNode) {
		return State{Job: job}, nil
	}
	if err != nil {
		return State{}, err
	}
	return l.state(v, job), nil
}

func (l *Ledger) state(v *tickView, job string) State {
	r := &v.record
	s := State{
		Job: job, Begins: znode.Writable(r.Begins), Last: znode.Writable(r.Last), Paused: r.Paused.public(),
		Failures: r.Failures, Counts: r.Counts, Differing: r.differing(""), version: v.stat.Version + 1,
		Ahead: l.ahead(r.decided()), LeftOut: r.publicLeftOut(),
	}
	for _, t := range r.Waiting {
		s.Waiting = append(s.Waiting, znode.Writable(t))
	}
	for i := range r.Runs {
		run := r.publicRun(&r.Runs[i])
		run.Alive = v.alive(run.ID)
		s.Runs = append(s.Runs, run)
	}
	for i := range r.history {
		s.History = append(s.History, r.publicEnd(r.history[i].read()))
	}
	return s
}

// Await returns the state of job as soon as it differs from seen, or a run has
// died that was alive. A zero seen differs from whatever was recorded. It polls
// nothing.
func (l *Ledger) Await(ctx context.Context, job string, seen State) (state State, err error) {
	path, err := l.path(job)
	if err != nil {
		return State{}, err
	}
	err = l.store.Await(ctx, path, true, func(sight zkclient.NodeSight) (bool, error) {
		if sight.Stat == nil {
			state = State{Job: job}
			return seen.version != 0, nil
		}
		v, err := viewOf(sight)
		if err != nil {
			return false, znode.InNode(err, path)
		}
		state = l.state(v, job)
		same := func(a, b Run) bool { return a.ID == b.ID && a.Alive == b.Alive }
		return state.version != seen.version || !slices.EqualFunc(state.Runs, seen.Runs, same), nil
	})
	if err != nil {
		return State{}, fmt.Errorf("ticks of job %q: %w", job, l.explain(ctx, err))
	}
	return state, nil
}

// AwaitCancel returns when a run of this ledger is asked to end: by is the tick
// that wants its place (CancelOverlap). When the run is no longer recorded as
// going on, the error is a *InterruptedError. It polls nothing.
func (l *Ledger) AwaitCancel(ctx context.Context, run Run) (by time.Time, err error) {
	path, err := l.path(run.Job)
	if err != nil {
		return time.Time{}, err
	}
	gone := &InterruptedError{Job: run.Job, Instant: run.Instant}
	err = l.store.Await(ctx, path, false, func(sight zkclient.NodeSight) (bool, error) {
		if sight.Stat == nil {
			return false, gone
		}
		rec, err := decodeTick(sight.Data, sight.Stat)
		if err != nil {
			return false, err
		}
		i := rec.run(run.ID)
		if i < 0 {
			return false, gone
		}
		by = rec.Runs[i].Cancel
		return !by.IsZero(), nil
	})
	if err != nil && !errors.Is(err, gone) {
		err = fmt.Errorf("run of job %q at %s is not watched: %w",
			run.Job, run.Instant.Format(time.RFC3339), l.explain(ctx, err))
	}
	return by, err
}

// NotAJob is why a node is left out.
const NotAJob = "its name is no job's"
