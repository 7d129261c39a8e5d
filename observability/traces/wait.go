package traces

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A life is what is open of one request.
type life struct {
	mu     sync.Mutex
	untold []told // what has happened since, oldest first
	over   bool   // nothing of it is open any more

	wait     trace.Span
	waited   trace.SpanContext
	since    time.Time
	about    []attribute         // that wait and hold have in common
	rank     priority.Level      // with which the wait began
	blockers []trace.SpanContext // who was last seen to hold the lock, at most MaxLinks
	seen     []string            // IDs of all who were
	links    map[string]int      // by role

	hold      trace.Span // nil before the grant
	held      *entry     // in the list of reported holds; nil: not reported
	asked     time.Time  // when it was first preempted; zero: it was not
	cancelled bool       // that its context has ended was told
	cleanup   trace.Span // nil unless hooks run
	overran   bool
	lost      bool // the hold has ended, hooks still run
}

// told is an event that was told.
type told struct {
	ctx   context.Context
	event lockguard.Event
}

func (t *Tracer) begin(ctx context.Context, subject lockguard.Subject, e lockguard.Waiting) {
	about := describe(subject)
	_, span := t.tracer.Start(ctx, SpanWait, trace.WithTimestamp(e.Since), trace.WithAttributes(about...))
	t.keep(subject.ID,
		&life{wait: span, waited: span.SpanContext(), since: e.Since, about: about, rank: subject.Priority})
}

// waitsLocked takes note of what happens to a request.
func (t *Tracer) waitsLocked(ctx context.Context, l *life, event lockguard.Event, at trace.SpanEventOption) {
	about := event.Subject
	switch e := event.Notice.(type) {
	case lock.Queued:
		t.blockedLocked(ctx, l, about, e.Holders)
		l.wait.AddEvent("queue.position", at, trace.WithAttributes(queuePosition.Int(e.Position)))
	case lock.Blocked:
		t.blockedLocked(ctx, l, about, e.Holders)
		l.wait.AddEvent("blocker.changed", at, trace.WithAttributes(blockersKey.Int(len(e.Holders))))
	case lock.Displaced:
		l.wait.AddEvent("displaced", at, trace.WithAttributes(contender(e.By)...))
	case lock.Delayed:
		l.wait.AddEvent("delayed", at)
	case lock.Requeued:
		l.wait.AddEvent("session.lost", at)
		l.wait.AddEvent("requeued", at)
	case lock.PreemptSent:
		l.wait.AddEvent("preempt.sent", at, trace.WithAttributes(append(contender(e.Holder),
			preemptReason.String(string(e.Reason)), graceKey.Float64(e.Grace.Seconds()))...))
		t.link(l, l.wait, e.Holder.Trace, "preempts", contender(e.Holder)...)
	case lock.TakenOver:
		l.wait.AddEvent("taken_over", at)
		for _, from := range e.From {
			t.link(l, l.wait, from.Trace, "takes_over", contender(from)...)
		}
	case lockguard.Frozen:
		l.wait.AddEvent("frozen", at, trace.WithAttributes(overrideID.String(e.Override.ID)))
	case lockguard.Thawed:
		l.wait.AddEvent("thawed", at)
	case lockguard.Overridden:
		l.wait.AddEvent("overridden", at, trace.WithAttributes(priorityKey.Int(int(about.Priority))))
	case lockguard.ApprovalPending:
		l.wait.AddEvent("approval.pending", at)
	case lockguard.ApprovalDecided:
		l.wait.AddEvent("approval.decided", at,
			trace.WithAttributes(approvalKey.String(e.Decision.ID), approvedKey.Bool(e.Err == nil)))
	case lockguard.NotAcquired:
		t.refusedLocked(l, about, e)
	case lockguard.Acquired:
		if l.wait.IsRecording() {
			l.wait.SetAttributes(outcomeKey.String(string(lockguard.OutcomeAcquired)), tokenKey.String(about.Token.String()))
		}
		if about.Priority != l.rank {
			l.wait.SetAttributes(priorityKey.Int(int(about.Priority)))
		}
		l.wait.End(at)
	case lockguard.Bypassed:
		l.wait.SetAttributes(outcomeKey.String(string(lockguard.OutcomeBypassed)), overrideID.String(e.Override.ID))
		l.wait.End(at)
	}
}

func (t *Tracer) refusedLocked(l *life, about lockguard.Subject, e lockguard.NotAcquired) {
	outcome := e.Outcome()
	l.wait.SetAttributes(outcomeKey.String(string(outcome)))
	if isError(outcome) {
		l.wait.SetAttributes(errorType.String("lock_" + string(outcome)))
		l.wait.SetStatus(codes.Error, e.Err.Error())
	}
	l.wait.End(trace.WithTimestamp(about.At))
	if l.hold != nil { // it was never granted
		l.hold.End(trace.WithTimestamp(about.At))
	}
	t.forgetLocked(about.ID, l)
}

// blockedLocked takes note of who has the lock that the request waits for.
//
// Samplers see the links that a span starts with, and no others. A wait starts before
// it is known whether it will be one at all, because its context is in the request
// from the beginning. So an unsampled wait is begun again here, with its links, and
// its sampler is asked once more.
func (t *Tracer) blockedLocked(ctx context.Context, l *life, about lockguard.Subject, holders []lock.Contender) {
	l.blockers = l.blockers[:0]
	var links []trace.Link
	for _, h := range holders {
		if sc, ok := t.parse(h.Trace); ok && len(l.blockers) < MaxLinks {
			l.blockers = append(l.blockers, sc)
		}
		if slices.Contains(l.seen, h.ID) && h.ID != "" {
			continue
		}
		l.seen = append(l.seen, h.ID)
		if link, ok := t.linkLocked(l, h.Trace, RoleBlockedBy, contender(h)...); ok {
			links = append(links, link)
		}
	}
	total := BlockersTotal.Int(len(l.seen))
	if len(holders) > 0 && !l.wait.IsRecording() {
		l.wait.End()
		_, l.wait = t.tracer.Start(ctx, SpanWait, trace.WithTimestamp(l.since),
			trace.WithAttributes(append(describe(about), total)...), trace.WithLinks(links...))
		l.waited = l.wait.SpanContext()
		return
	}
	l.wait.SetAttributes(total)
	for _, link := range links {
		l.wait.AddLink(link)
	}
}

// isError reports whether a lock that was not acquired is an error of the wait: not
// if its caller gave up, or was preempted by others before it began, which is policy.
func isError(outcome lockguard.Outcome) bool {
	return outcome != lockguard.OutcomeCancelled && outcome != lockguard.OutcomePreempted
}
