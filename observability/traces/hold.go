package traces

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// holdsLocked takes note of what happens to a hold.
func (t *Tracer) holdsLocked(ctx context.Context, l *life, event lockguard.Event, at trace.SpanEventOption) {
	about := event.Subject
	switch e := event.Notice.(type) {
	case lockguard.Acquired:
		t.holdLocked(ctx, l, about, at)
	case lockguard.Bypassed:
		t.holdLocked(ctx, l, about, at)
		l.hold.SetAttributes(overrideID.String(e.Override.ID))
	}
	if l.hold == nil {
		return
	}
	switch e := event.Notice.(type) {
	case lock.PreemptRequested:
		attributes := append(contender(e.By), preemptReason.String(string(e.Reason)), graceKey.Float64(e.Grace.Seconds()),
			deadlineKey.String(e.Deadline.UTC().Format(time.RFC3339Nano)), forcefulKey.Bool(e.Forceful))
		l.hold.AddEvent("preempt.received", at, trace.WithAttributes(attributes...))
		if l.asked.IsZero() {
			l.asked = about.At
		}
		t.link(l, l.hold, e.Trace, "preempted_by", contender(e.By)...)
	case lock.PreemptionWithdrawn:
		l.hold.AddEvent("preempt.withdrawn", at)
	case lock.AtRisk:
		l.hold.AddEvent("session.suspended", at,
			trace.WithAttributes(deadlineKey.String(e.Deadline.UTC().Format(time.RFC3339Nano))))
	case lock.RiskOver:
		l.hold.AddEvent("session.reconnected", at)
	case lockguard.Extended:
		l.hold.AddEvent("extended", at, trace.WithAttributes(leaseKey.Float64(e.Lease.Seconds())))
	case lockguard.Downgraded:
		l.hold.AddEvent("downgraded", at)
	case lockguard.CleanupStarted:
		l.cancelledLocked(e.Cause, e.Since)
		l.hold.AddEvent("cleanup.start", at, trace.WithAttributes(hooksKey.Int(e.Hooks)))
		l.cleanup = t.startCleanup(trace.ContextWithSpan(ctx, l.hold), about, e)
	case lockguard.CleanupDone:
		l.hold.AddEvent("cleanup.end", at)
		endCleanup(l.cleanup, about.At, e, l.overran)
		l.cleanup = nil
		if l.lost {
			t.forgetLocked(about.ID, l)
		}
	case lockguard.CleanupOverrun:
		l.overran = true
		l.hold.AddEvent("cleanup.overrun", at, trace.WithAttributes(workRunning.Bool(e.WorkRunning)))
	case lockguard.Released:
		t.releasedLocked(ctx, l, about, e, at)
	case lockguard.Lost:
		t.lostLocked(l, about, e)
	}
}

// holdLocked starts the span of the hold, unless it has been.
func (t *Tracer) holdLocked(ctx context.Context, l *life, about lockguard.Subject, at trace.SpanEventOption) {
	if l.hold != nil {
		return
	}
	var links []trace.Link
	if l.waited.IsSampled() {
		links = append(links, linkTo(l.waited, "acquired_by"))
	}
	for _, b := range l.blockers {
		links = append(links, linkTo(b, "follows"))
	}
	if about.Priority != l.rank {
		l.about = describe(about)
	}
	attributes := append(l.about, tokenKey.String(about.Token.String()))
	options := append(make([]trace.SpanStartOption, 0, 3), at, trace.WithAttributes(attributes...))
	if len(links) > 0 {
		options = append(options, trace.WithLinks(links...))
	}
	_, l.hold = t.tracer.Start(ctx, SpanHold, options...)
	if l.hold.IsRecording() && about.Token != 0 {
		l.hold.AddEvent("fence.issued", at, trace.WithAttributes(attributes[len(attributes)-1:]...))
	}
	t.progress.add(l, about)
}

// cancelledLocked tells, once, that the context of the work has ended.
func (l *life) cancelledLocked(cause error, since time.Time) {
	if l.cancelled || cause == nil || since.IsZero() {
		return
	}
	l.cancelled = true
	l.hold.AddEvent("ctx.cancelled", trace.WithTimestamp(since), trace.WithAttributes(causeKey.String(ending(cause))))
}

func (t *Tracer) releasedLocked(
	ctx context.Context, l *life, about lockguard.Subject, e lockguard.Released, at trace.SpanEventOption,
) {
	recorded := l.hold.IsRecording()
	l.cancelledLocked(e.Cause, e.Since)
	if recorded {
		l.hold.SetAttributes(endKey.String(ending(e.Cause)))
	}
	if l.overran {
		l.hold.SetAttributes(errorType.String("cleanup_timeout"))
		l.hold.SetStatus(codes.Error, "the lock was held longer than the grace")
	}
	l.hold.End(at)
	if recorded {
		_, release := t.tracer.Start(ctx, SpanRelease, trace.WithTimestamp(about.At.Add(-e.Took)), trace.WithAttributes(
			scopeKey.String(about.Scope), ownerKey.String(about.Owner), tokenKey.String(about.Token.String())))
		if e.Err != nil {
			release.SetAttributes(errorType.String("release_unconfirmed"))
			release.SetStatus(codes.Error, "ZooKeeper has not confirmed it")
		}
		release.End(at)
	}
	t.forgetLocked(about.ID, l)
}

func (t *Tracer) lostLocked(l *life, about lockguard.Subject, e lockguard.Lost) {
	at := trace.WithTimestamp(about.At)
	if e.Err.Reason == lock.LossSession {
		l.hold.AddEvent("session.lost", at)
	}
	if l.asked.IsZero() { // else it had ended before
		l.cancelledLocked(e.Err, about.At)
	}
	l.hold.SetAttributes(endKey.String(string(e.End())), lossKey.String(string(e.Err.Reason)),
		errorType.String("lock_lost"))
	l.hold.SetStatus(codes.Error, e.Err.Error())
	l.hold.End(at)
	l.lost = true
	t.progress.drop(l)
	if l.cleanup == nil { // else its end is still to come
		t.forgetLocked(about.ID, l)
	}
}

// afterwards shows the hooks that run after a loss, in a life that is over.
func (t *Tracer) afterwards(ctx context.Context, event lockguard.Event, l *life) {
	if e, ok := event.Notice.(lockguard.CleanupStarted); ok {
		span := t.startCleanup(ctx, event.Subject, e)
		l.wait, l.hold, l.cleanup, l.lost, l.overran, l.over = span, span, span, true, false, false
		t.keep(event.ID, l)
	}
}

func (t *Tracer) startCleanup(ctx context.Context, about lockguard.Subject, e lockguard.CleanupStarted) trace.Span {
	_, span := t.tracer.Start(ctx, SpanCleanup, trace.WithTimestamp(about.At), trace.WithAttributes(
		scopeKey.String(about.Scope), hooksKey.Int(e.Hooks), endKey.String(ending(e.Cause)),
		tokenKey.String(about.Token.String())))
	return span
}

// endCleanup ends the span of the hooks. What they say went wrong may have arguments
// of a job in it, and is not told.
func endCleanup(span trace.Span, at time.Time, e lockguard.CleanupDone, overran bool) {
	if span == nil {
		return
	}
	switch {
	case overran:
		span.SetAttributes(errorType.String("cleanup_timeout"))
		span.SetStatus(codes.Error, "the cleanup took longer than its grace")
	case e.Err != nil:
		span.SetAttributes(errorType.String("cleanup_failed"))
		span.SetStatus(codes.Error, "a hook failed")
	}
	span.End(trace.WithTimestamp(at))
}

// ending says why work was interrupted, in the words of the metrics.
func ending(cause error) string { return string(lockguard.Released{Cause: cause}.End()) }
