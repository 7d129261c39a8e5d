package scheduler

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// ErrStarted is returned by Add and Run after Run.
var ErrStarted = errors.New("scheduler: it has been started; add all jobs first or Reconcile them, and start it once")

// ErrStopped is returned by RunNow while the scheduler does not run: before
// Run, and from the moment it drains.
var ErrStopped = errors.New("scheduler: it is not running")

// UnknownJobError is returned by RunNow for a name that no job has.
type UnknownJobError struct{ Job string }

func (e *UnknownJobError) Error() string { return fmt.Sprintf("scheduler: no job is named %q", e.Job) }

// OverlapError is returned by RunNow for a job that runs already, perhaps in
// another daemon.
type OverlapError struct{ Run ticks.Run }

func (e *OverlapError) Error() string {
	if e.Run.ID == "" {
		return "earlier ticks wait for the end of a run, or as many runs go on as may"
	}
	return fmt.Sprintf("job %q runs already: by %q on %s (pid %d) since %s; wait for its end",
		e.Run.Job, e.Run.Owner, e.Run.Host, e.Run.PID, e.Run.ClaimedAt.Format(time.RFC3339))
}

// SupersededError is the cause with which the context of a run ends whose job
// has the overlap policy cancel-other, when a newer tick has come due.
type SupersededError struct {
	By  time.Time // the newer tick
	Job string
}

func (e *SupersededError) Error() string {
	return fmt.Sprintf("run of job %q is cancelled for its tick at %s", e.Job, e.By.Format(time.RFC3339))
}

// Is makes errors.Is find lockguard.ErrStopped: a guard then runs the hooks.
func (e *SupersededError) Is(target error) bool { return target == lockguard.ErrStopped }

// PausedError is why a tick of a job that is paused is skipped.
type PausedError struct {
	Job   string
	Pause *ticks.Pause // what the ledger says; nil: an override pauses it

	// Override is the operator's override that pauses it; nil: none does.
	Override *override.Override
}

func (e *PausedError) Error() string {
	switch o := e.Override; {
	case o != nil:
		return fmt.Sprintf("job %q is paused by the override %s of %s until %s: %s",
			e.Job, o.ID, o.By, orForever(o.Until), o.Reason)
	case e.Pause == nil:
		return fmt.Sprintf("job %q is paused", e.Job)
	}
	return fmt.Sprintf("job %q is paused by %s until %s: %s", e.Job, e.Pause.By, orForever(e.Pause.Until), e.Pause.Reason)
}

// orForever writes when a pause ends.
func orForever(until time.Time) string {
	if until.IsZero() {
		return "somebody resumes it"
	}
	return until.UTC().Format(time.RFC3339)
}

// BlackoutError is why a tick in a blackout is skipped.
type BlackoutError struct{ Blackout jobs.Blackout }

func (e *BlackoutError) Error() string {
	text := fmt.Sprintf("blackout %q for %s", e.Blackout.Schedule, e.Blackout.For)
	if e.Blackout.Reason != "" {
		text += ": " + e.Blackout.Reason
	}
	return text
}
