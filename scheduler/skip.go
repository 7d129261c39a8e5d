package scheduler

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// SkipReason says why a tick did not run.
type SkipReason string

// The reasons for a skip.
const (
	// SkipOverlap: the previous run of the job still went on, anywhere. A run
	// that had begun only just then is waited for first, for a tenth of the
	// time between ticks, a second at most.
	SkipOverlap SkipReason = recipes.TickReasonOverlap

	// SkipUndecided: ZooKeeper did not answer who runs the tick until the next
	// one was due. Another daemon may have run it.
	SkipUndecided SkipReason = recipes.TickReasonUndecided

	// SkipLock: the lock was not acquired in time.
	SkipLock SkipReason = "lock"

	// SkipUnavailable: the tick was claimed, but then ZooKeeper did not answer
	// the request for the lock.
	SkipUnavailable SkipReason = "unavailable"

	// SkipMissed: the daemon, or its machine, was suspended or the clock was
	// put forward, and a newer tick is due as well.
	SkipMissed SkipReason = "missed"

	// SkipDraining: the daemon stops. A tick that was not claimed yet is left
	// to the other daemons.
	SkipDraining SkipReason = "draining"

	// skipCancelled: the caller of RunNow did not wait for the lock.
	skipCancelled SkipReason = "cancelled"
)

// tellSkip counts a skip, logs it and publishes it: once for each skip.
func (l *lane) tellSkip(id string, instant time.Time, reason SkipReason, detail error) {
	l.count(func(s *JobStats) { s.Skipped[reason]++ })
	attrs := []any{"job", l.job.Name, "instant", instant.UTC(), "reason", string(reason)}
	if detail != nil {
		attrs = append(attrs, "detail", detail.Error())
	}
	l.s.log.Warn("tick skipped", attrs...)
	if l.s.cfg.Guard == nil {
		return
	}
	subject := lockguard.Subject{ID: id, Owner: l.job.Name}
	if len(l.job.Requirements) > 0 {
		r := l.blamed(detail)
		subject.Scope, subject.Owner, subject.Message, subject.Mode, subject.Priority = r.Scope, r.Owner, r.Message, r.Mode, r.Priority
	}
	l.s.cfg.Guard.Observe(context.Background(), lockguard.Skipped{
		Subject: subject, Job: l.job.Name, Instant: instant.UTC(), Reason: string(reason),
	})
}
