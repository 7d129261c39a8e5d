package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// SkipReason says why a tick did not run.
type SkipReason string

// The reasons for a skip.
const (
	// SkipOverlap: the previous run of the job still went on, anywhere. A run
	// that had begun only just then is waited for first, for a tenth of the
	// time between ticks, a second at most.
	SkipOverlap SkipReason = ticks.ReasonOverlap

	// SkipUndecided: ZooKeeper did not answer who runs the tick until the next
	// one was due. Another daemon may have run it.
	SkipUndecided SkipReason = ticks.ReasonUndecided

	// SkipLock: the lock was not acquired in time.
	SkipLock SkipReason = "lock"

	// SkipUnavailable: the tick was claimed, but then ZooKeeper did not answer
	// the request for the lock.
	SkipUnavailable SkipReason = "unavailable"

	// SkipMissed: no daemon decided the tick in time, for none ran, its machine
	// was suspended or the clock was put forward; and the misfire policy of the
	// job does not make up for it.
	SkipMissed SkipReason = "missed"

	// SkipDraining: the daemon stops. A tick that was not claimed yet is left
	// to the other daemons.
	SkipDraining SkipReason = "draining"

	// SkipPaused: the job is paused in the whole cluster.
	SkipPaused SkipReason = ticks.ReasonPaused

	// SkipBlackout: the tick is inside a blackout of the job.
	SkipBlackout SkipReason = "blackout"

	// SkipEarly: a daemon whose clock was ahead has run it before it was due, or may
	// have, and an operator has set the job back (ticks.Ledger.Rewind).
	SkipEarly SkipReason = ticks.ReasonEarly

	// SkipRemoved: the job was removed from this daemon's configuration before
	// the tick was decided. It is left to the other daemons.
	SkipRemoved SkipReason = "removed"

	// skipCancelled: the caller of RunNow did not wait for the lock.
	skipCancelled SkipReason = "cancelled"
)

// SkipReasons returns every reason that a skipped tick can have.
func SkipReasons() []SkipReason {
	return []SkipReason{
		SkipOverlap, SkipUndecided, SkipLock, SkipUnavailable, SkipMissed, SkipDraining, SkipPaused, SkipBlackout,
		SkipEarly, SkipRemoved,
	}
}

// isQuiet reports whether a skip was requested: it is no warning.
func (r SkipReason) isQuiet() bool {
	return r == SkipPaused || r == SkipBlackout || r == SkipEarly || r == SkipRemoved
}

// tellSkip counts a skip, logs it and publishes it: once for each skip.
func (l *lane) tellSkip(ctx context.Context, id string, instant time.Time, reason SkipReason, detail error) {
	l.count(func(s *JobStats) { s.Skipped[reason]++ })
	def := l.definition()
	attrs := []any{"job", def.Name, "instant", instant.UTC(), "reason", string(reason)}
	if detail != nil {
		attrs = append(attrs, "detail", detail.Error())
	}
	level := slog.LevelWarn
	switch {
	case isUnreadable(detail): // said once, see undecided
		level = slog.LevelDebug
	case reason.isQuiet():
		level = slog.LevelInfo
	}
	l.s.log.Log(ctx, level, "tick skipped", attrs...)
	if l.s.cfg.Guard == nil {
		return
	}
	subject := lockguard.Subject{ID: id, Identity: priority.Identity{Owner: def.Name}}
	if len(def.Requirements) > 0 {
		r := def.blamed(detail)
		subject.Scope, subject.Owner, subject.Message, subject.Mode, subject.Priority = r.Scope, r.Owner, r.Message,
			r.Mode, r.Priority
	}
	l.s.cfg.Guard.Observe(ctx, lockguard.Event{
		Subject: subject, Notice: lockguard.Skipped{Job: def.Name, Instant: instant.UTC(), Reason: string(reason)},
	})
}

// isUnreadable reports whether err is about a record that this daemon cannot read,
// or must not: trying again is of no use until it is corrected.
func isUnreadable(err error) bool {
	return errors.As(err, new(*lock.RecordError)) || errors.As(err, new(*lock.AccessError))
}
