package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// refused is what exec says of locks that it did not get.
func refused(requirements []lockguard.Requirement, err error) error {
	var signal *jobs.SignalError
	switch cause := priority.CauseOf(err); {
	case errors.As(err, &signal):
		return &codeError{signal.ExitCode(), fmt.Sprintf("%s while waiting for %s: left the queue",
			signal, locksOf(requirements))}
	case isOneOf(err, new(*lockguard.RequestError), new(*lock.AccessError), new(*lock.NoRootError),
		new(*lock.ListsError), new(*lock.UntrustedError), new(*codeError)):
		return err
	case cause.Kind == priority.KindLost:
		return &codeError{exitLost, err.Error() + "; the command was not started"}
	case cause.Kind.IsPreemption():
		return &codeError{exitPreempted, err.Error() + "; the command was not started"}
	case lock.IsNotAcquired(err) && !errors.As(err, new(*lock.UnavailableError)):
		return &codeError{exitNotAcquired, fmt.Sprintf("%s; see: lockkeeper locks show %s",
			err, live.ShellWord(cause.Scope))}
	}
	return &codeError{exitNotAcquired, err.Error()}
}

func locksOf(requirements []lockguard.Requirement) string {
	scopes := make([]string, len(requirements))
	for i, r := range requirements {
		scopes[i] = fmt.Sprintf("%q", r.Scope)
	}
	if len(scopes) == 1 {
		return "lock " + scopes[0]
	}
	return "locks " + strings.Join(scopes, ", ")
}

// finished is what exec says of a command that has run: result is what came of
// it, err what came of the lock.
func finished(result, err error) error {
	var (
		lost    *lockguard.LostError
		stopped *jobs.StoppedError
		exit    *jobs.ExitError
		signal  *jobs.SignalError
	)
	isLost := errors.As(err, &lost)
	switch {
	case isLost && wasTaken(lost) && hadToGo(result): // by force, after its grace
		return &codeError{exitPreempted, result.Error()}
	case isLost, errors.Is(result, lockguard.ErrAtRisk):
		return &codeError{exitLost, err.Error()}
	case hadToGo(result):
		return &codeError{exitPreempted, result.Error()}
	case errors.As(result, &stopped) && errors.As(stopped.Cause, &signal):
		if stopped.Killed {
			return &codeError{signal.ExitCode(), result.Error()}
		}
		return &codeError{code: signal.ExitCode()}
	case errors.As(result, &exit) && stopped == nil:
		return &codeError{code: exit.ExitCode()}
	}
	// Preempted when the command had ended by itself already: its own code.
	return result
}

// wasTaken reports whether another holder has the lock, by right.
func wasTaken(lost *lockguard.LostError) bool {
	return lost.Reason == lock.LossTaken || lost.Reason == lock.LossOverridden
}

// hadToGo reports whether another request was to have the lock.
func hadToGo(err error) bool { return priority.PreemptionOf(err).Kind != "" }

// narrate says what a person at the terminal wants to know.
func (p *program) narrate(_ context.Context, event lockguard.Event) {
	switch e := event.Notice.(type) {
	case lock.Queued:
		p.say("waiting for lock %q%s, place %d in the queue", event.Scope, heldBy(e.Holders), e.Position)
	case lock.Delayed:
		p.say("lock %q is free but delayed until about %s, %s",
			event.Scope, e.Until.Local().Format(time.TimeOnly), live.UncleanEnds(e.After))
	case lock.Requeued:
		p.say("the ZooKeeper session ended; waiting for lock %q again, from the back of the queue", event.Scope)
	case lockguard.Frozen:
		p.say("lock %q is frozen until %s by %s (%s: %s): out of the queue until then",
			event.Scope, e.Override.Until.Local().Format(time.DateTime), e.Override.By, e.Override.ID, e.Override.Reason)
	case lockguard.Thawed:
		p.say("lock %q is not frozen any more", event.Scope)
	case lockguard.Overridden:
		if o := e.Effect.By(); o != nil {
			p.say("override %s of %s (%s) changes the request for lock %q: priority %s%s", o.ID, o.By, o.Reason, event.Scope,
				levelText(e.Effect.Terms.Priority), map[bool]string{true: ", forceful"}[e.Effect.Terms.Forceful])
			break
		}
		p.say("no override changes the request for lock %q any more: priority %s",
			event.Scope, levelText(e.Effect.Terms.Priority))
	case lockguard.Bypassed:
		p.say("the command runs WITHOUT lock %q, by override %s of %s: %s",
			event.Scope, e.Override.ID, e.Override.By, e.Override.Reason)
	case lockguard.ApprovalPending:
		p.say("lock %q: %s did not finish cleaning up in time; waiting for a decision on taking it by force",
			event.Scope, owners(e.Holders))
	case lock.TakenOver:
		p.say("took lock %q from %s, whose time to clean up was over", event.Scope, owners(e.From))
	case lock.PreemptRequested:
		if o := e.Override; o != nil {
			p.say("override %s of %s (%s) asks for lock %q: the command has %s to clean up",
				o.ID, o.By, o.Reason, event.Scope, human(e.Grace))
			break
		}
		p.say("%q (priority %d) asks for lock %q: the command has %s to clean up",
			e.By.Owner, e.By.Priority, event.Scope, human(e.Grace))
	case lock.AtRisk:
		p.say("ZooKeeper is silent: lock %q will be lost unless it answers soon; the command is stopped", event.Scope)
	case lockguard.Released:
		if e.Err != nil {
			p.say("ZooKeeper has not confirmed that lock %q is given back; it is free when the session ends at the latest: %s",
				event.Scope, e.Err)
		}
	}
}

func heldBy(holders []lock.Contender) string {
	if len(holders) == 0 {
		return ""
	}
	h := holders[0]
	return fmt.Sprintf(", held by %q (priority %d, host %s, pid %d)", h.Owner, h.Priority, h.Host, h.PID)
}
