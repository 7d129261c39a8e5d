package lockguard

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// LogObserver writes one line for every event to logger: Debug for Waiting,
// Warn for Requeued, Frozen, Bypassed, ApprovalPending, TakenOver, AtRisk,
// CleanupOverrun, Lost and for whatever went wrong, Error for Stuck, Info for the
// rest. Durations are rounded to milliseconds.
func LogObserver(logger *slog.Logger) Observer {
	return func(ctx context.Context, event Event) {
		level, message, attrs := describe(event)
		if !logger.Enabled(ctx, level) {
			return
		}
		logger.LogAttrs(ctx, level, message, append(describeSubject(event.Subject), attrs...)...)
	}
}

func describeSubject(s Subject) []slog.Attr {
	attrs := make([]slog.Attr, 0, 16)
	if s.Scope != "" {
		attrs = append(attrs, slog.String("scope", s.Scope))
	}
	if s.Class != "" && s.Class != s.Scope {
		attrs = append(attrs, slog.String("class", s.Class))
	}
	if s.Owner != "" {
		attrs = append(attrs, slog.String("owner", s.Owner))
	}
	if s.ID != "" {
		attrs = append(attrs,
			slog.String("mode", s.Mode.String()),
			slog.Int64("priority", int64(s.Priority)),
			slog.String("request", s.ID),
		)
	}
	if s.Hold != "" {
		attrs = append(attrs, slog.String("hold", s.Hold))
	}
	if s.Token != 0 {
		attrs = append(attrs, slog.Int64("token", int64(s.Token)))
	}
	if s.Message != "" {
		attrs = append(attrs, slog.String("message", s.Message))
	}
	return attrs
}

// describe is the one place that knows what to say about each event.
//
//nolint:cyclop,funlen // one case for each kind of notice
func describe(event Event) (slog.Level, string, []slog.Attr) {
	switch e := event.Notice.(type) {
	case Waiting:
		return slog.LevelDebug, "lock requested", nil
	case lock.Queued:
		return slog.LevelInfo, "waiting for lock", append(
			[]slog.Attr{slog.Int("position", e.Position)}, contenders("holder", e.Holders)...)
	case lock.Blocked:
		return slog.LevelInfo, "first in the queue for lock, others hold it now", contenders("holder", e.Holders)
	case lock.Delayed:
		return slog.LevelInfo, "lock is free, and delayed after the unclean end of a hold", delays(e)
	case lock.Displaced:
		return slog.LevelInfo, "displaced by a more important request", contender("by", e.By)
	case lock.Requeued:
		return slog.LevelWarn, "session ended, waiting for lock again from the back of the queue", failure(e.Cause)
	case lock.PreemptSent:
		return slog.LevelInfo, "preempted the holder", append(contender("holder", e.Holder),
			slog.String("reason", string(e.Reason)), duration("grace", e.Grace))
	case Frozen:
		return slog.LevelWarn, "lock is frozen, out of the queue until that ends", overriding(e.Override)
	case Thawed:
		return slog.LevelInfo, "lock is not frozen any more, requested again", nil
	case Overridden:
		return slog.LevelInfo, "overrides change the terms of the request", changes(e.Effect)
	case Bypassed:
		return slog.LevelWarn, "running without the lock", overriding(e.Override)
	case ApprovalPending:
		return slog.LevelWarn, "the holder has not finished its cleanup, an approval is needed",
			append(contenders("holder", e.Holders), duration("waited", e.Waited))
	case ApprovalDecided:
		attrs := append(failure(e.Err), deciding(e.Decision)...)
		if e.Err != nil {
			return slog.LevelWarn, "may not take the lock by force", attrs
		}
		return slog.LevelInfo, "may take the lock by force", attrs
	case lock.TakenOver:
		return slog.LevelWarn, "took the lock from a holder whose grace was over", contenders("from", e.From)
	case NotAcquired:
		return slog.LevelInfo, "lock not acquired", append(failure(e.Err), duration("waited", e.Waited))
	case Acquired:
		return slog.LevelInfo, "lock acquired", []slog.Attr{duration("waited", e.Waited)}
	case lock.PreemptRequested:
		return slog.LevelInfo, "preempted, the lock is to be released", append(contender("by", e.By),
			slog.String("reason", string(e.Reason)), duration("grace", e.Grace), slog.Bool("forceful", e.Forceful),
			markAttr(e.Override))
	case lock.PreemptionWithdrawn:
		return slog.LevelInfo, "preemption withdrawn, the lock is released all the same", nil
	case lock.AtRisk:
		return slog.LevelWarn, "ZooKeeper is silent, the lock will be lost unless it answers",
			[]slog.Attr{slog.Time("deadline", e.Deadline)}
	case lock.RiskOver:
		return slog.LevelInfo, "ZooKeeper answers again, the lock is still held", nil
	case CleanupStarted:
		return slog.LevelInfo, "cleanup started", append(reason(e.Cause), slog.Int("hooks", e.Hooks))
	case CleanupDone:
		return troubleIf(e.Err), "cleanup done", append(failure(e.Err), duration("took", e.Took))
	case CleanupOverrun:
		running := "cleanup"
		if e.WorkRunning {
			running = "work"
		}
		return slog.LevelWarn, "the grace is over and the lock is still held",
			[]slog.Attr{duration("grace", e.Grace), slog.String("running", running)}
	case Extended:
		return slog.LevelInfo, "lease extended", []slog.Attr{duration("lease", e.Lease)}
	case Downgraded:
		return slog.LevelInfo, "lock is shared from now on", nil
	case Released:
		attrs := append(reason(e.Cause), duration("held", e.Held))
		if e.Err != nil {
			return slog.LevelWarn, "lock released, not confirmed by ZooKeeper", append(attrs, failure(e.Err)...)
		}
		return slog.LevelInfo, "lock released", attrs
	case Lost:
		return slog.LevelWarn, "lock lost", append(failure(e.Err), duration("held", e.Held))
	case Skipped:
		return slog.LevelInfo, "job skipped", []slog.Attr{
			slog.String("job", e.Job),
			slog.Time("instant", e.Instant),
			slog.String("reason", e.Reason),
		}
	case Stuck:
		return slog.LevelError, "work goes on although its context has ended", append(failure(e.Cause),
			slog.String("job", e.Job),
			slog.Time("instant", e.Instant),
			duration("for", e.For),
			slog.String("stack", e.Stack))
	}
	return slog.LevelWarn, fmt.Sprintf("unknown lock event %T", event.Notice), nil
}

func troubleIf(err error) slog.Level {
	if err != nil {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

func failure(err error) []slog.Attr {
	if err == nil {
		return nil
	}
	return []slog.Attr{slog.String("error", err.Error())}
}

// reason is why work was interrupted, which is no failure.
func reason(cause error) []slog.Attr {
	if cause == nil {
		return nil
	}
	return []slog.Attr{slog.String("cause", cause.Error())}
}

func duration(key string, d time.Duration) slog.Attr {
	return slog.Duration(key, d.Round(time.Millisecond))
}

func overriding(o override.Override) []slog.Attr {
	return []slog.Attr{
		slog.String("override", o.ID), slog.String("by", o.By), slog.String("why", o.Reason), slog.Time("until", o.Until),
	}
}

// markAttr names an override; without one it is an empty group, which is left out.
func markAttr(m *lock.Mark) slog.Attr {
	if m == nil {
		return slog.Group("")
	}
	return slog.Group("", slog.String("override", m.ID), slog.String("override_by", m.By),
		slog.String("override_reason", m.Reason))
}

// changes says what overrides have made of a request, and which.
func changes(e override.Effect) []slog.Attr {
	ids := make([]string, len(e.Applied))
	for i, o := range e.Applied {
		ids[i] = o.ID
	}
	attrs := []slog.Attr{
		slog.Bool("forceful", e.Terms.Forceful),
		duration("lease", e.Terms.LeaseTimeout),
		duration("cleanup", e.Terms.CleanupTimeout),
	}
	if w := e.Terms.WaitingTimeout; w != nil {
		attrs = append(attrs, duration("waiting", *w))
	}
	if len(ids) > 0 {
		attrs = append(attrs, slog.String("override", strings.Join(ids, ", ")))
	}
	return attrs
}

func deciding(d Decision) []slog.Attr {
	var attrs []slog.Attr
	for _, a := range []struct{ key, value string }{{"approval", d.ID}, {"by", d.By}, {"why", d.Reason}} {
		if a.value != "" {
			attrs = append(attrs, slog.String(a.key, a.value))
		}
	}
	return attrs
}

func contender(key string, c lock.Contender) []slog.Attr {
	attrs := []slog.Attr{
		slog.String(key, c.Owner),
		slog.Int64(key+"_priority", int64(c.Priority)),
	}
	if c.Host != "" {
		attrs = append(attrs, slog.String(key+"_host", c.Host), slog.Int(key+"_pid", c.PID))
	}
	return attrs
}

func delays(e lock.Delayed) []slog.Attr {
	return []slog.Attr{slog.String("after", words.Join(e.After, ", ", func(d lock.Delay) string {
		return d.Owner
	})), slog.Time("until", e.Until)}
}

func contenders(key string, all []lock.Contender) []slog.Attr {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return contender(key, all[0])
	}
	return []slog.Attr{slog.String(key, words.Join(all, ", ", func(c lock.Contender) string { return c.Owner }))}
}
