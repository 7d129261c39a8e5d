package traces

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// scopeName names the instrumentation.
const scopeName = "github.com/lockkeeper/lockkeeper/observability/traces"

// The names of the spans.
const (
	waitSpan    = "lock.wait"
	holdSpan    = "lock.hold"
	cleanupSpan = "lock.cleanup"
)

// MaxLinks bounds how many holders a wait links to as blocked_by, and a hold as
// follows. The attribute lockkeeper.blockers.total says how many there were.
const MaxLinks = 8

// A Tracer makes spans of the events of guards. It is safe for concurrent use.
type Tracer struct {
	tracer     trace.Tracer
	propagator propagation.TraceContext

	mu    sync.Mutex
	lives map[string]*life // by the ID of the request
}

// A life is what is open of one request.
type life struct {
	wait     trace.Span
	waited   trace.SpanContext
	hold     trace.Span // nil before the grant
	cleanup  trace.Span // nil unless hooks run
	overran  bool
	lost     bool                // the hold has ended, hooks still run
	blockers []trace.SpanContext // who was last seen to hold the lock
}

// New returns a Tracer whose spans go to provider. nil: nowhere.
func New(provider trace.TracerProvider) *Tracer {
	if provider == nil {
		provider = noop.NewTracerProvider()
	}
	return &Tracer{tracer: provider.Tracer(scopeName), lives: make(map[string]*life)}
}

// Options are all that a Guard needs to be traced: they make its spans, give
// them to the context of the work, and let their trace travel with requests.
func (t *Tracer) Options() []lockguard.Option {
	return []lockguard.Option{
		lockguard.WithObserver(t.Observe),
		lockguard.WithTrace(t.Traceparent),
		lockguard.WithContext(t.Context),
	}
}

// Traceparent is what lockguard.WithTrace takes: the W3C traceparent of the
// request's wait. "" when nothing is recorded of it: a link would lead nowhere.
func (t *Tracer) Traceparent(_ context.Context, about lockguard.Subject) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lives[about.ID]
	if l == nil || !l.waited.IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	t.propagator.Inject(trace.ContextWithSpanContext(context.Background(), l.waited), carrier)
	return carrier["traceparent"]
}

// Context is what lockguard.WithContext takes: the span of the hold, for what
// the work does.
func (t *Tracer) Context(ctx context.Context, about lockguard.Subject) context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lives[about.ID]
	if l == nil {
		return ctx
	}
	t.holdLocked(ctx, l, about)
	return trace.ContextWithSpan(ctx, l.hold)
}

// Observe is a lockguard.Observer.
func (t *Tracer) Observe(ctx context.Context, event lockguard.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	about := event.About()
	if e, ok := event.(lockguard.Waiting); ok {
		_, span := t.tracer.Start(ctx, waitSpan, trace.WithTimestamp(e.Since), trace.WithAttributes(describe(about)...))
		t.lives[about.ID] = &life{wait: span, waited: span.SpanContext()}
		return
	}
	l := t.lives[about.ID]
	if l == nil { // hooks after a loss; or it was there before the Tracer
		t.afterwardsLocked(ctx, event)
		return
	}
	t.waitsLocked(l, event)
	t.holdsLocked(ctx, l, event)
}

// waitsLocked takes note of what happens to a request.
func (t *Tracer) waitsLocked(l *life, event lockguard.Event) {
	about := event.About()
	at := trace.WithTimestamp(about.At)
	switch e := event.(type) {
	case lockguard.Queued:
		l.wait.AddEvent("queued", at, trace.WithAttributes(queuePosition.Int(e.Position)))
		l.wait.SetAttributes(blockersTotal.Int(len(e.Holders)))
		l.blockers = l.blockers[:0]
		for _, h := range e.Holders {
			if len(l.blockers) == MaxLinks {
				break
			}
			if sc, ok := t.parse(h.Trace); ok {
				l.blockers = append(l.blockers, sc)
				l.wait.AddLink(linkTo(sc, "blocked_by", contender(h)...))
			}
		}
	case lockguard.Displaced:
		l.wait.AddEvent("displaced", at, trace.WithAttributes(contender(e.By)...))
	case lockguard.Delayed:
		l.wait.AddEvent("delayed", at)
	case lockguard.Requeued:
		l.wait.AddEvent("requeued", at)
	case lockguard.PreemptSent:
		l.wait.AddEvent("preempt.sent", at, trace.WithAttributes(append(contender(e.Holder), preemptReason.String(string(e.Reason)), graceKey.Float64(e.Grace.Seconds()))...))
		t.link(l.wait, e.Holder.Trace, "preempts", contender(e.Holder)...)
	case lockguard.TakenOver:
		l.wait.AddEvent("taken_over", at)
		for _, from := range e.From[:min(len(e.From), MaxLinks)] {
			t.link(l.wait, from.Trace, "takes_over", contender(from)...)
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
		l.wait.AddEvent("approval.decided", at, trace.WithAttributes(approvalKey.String(e.Decision.ID), approvedKey.Bool(e.Err == nil)))
	case lockguard.NotAcquired:
		outcome, failed := refusal(e.Err)
		l.wait.SetAttributes(outcomeKey.String(outcome))
		if failed {
			l.wait.SetAttributes(errorType.String("lock_" + outcome))
			l.wait.SetStatus(codes.Error, e.Err.Error())
		}
		l.wait.End(trace.WithTimestamp(about.At))
		if l.hold != nil { // it was given to nobody
			l.hold.End(trace.WithTimestamp(about.At))
		}
		delete(t.lives, about.ID)
	case lockguard.Acquired:
		l.wait.SetAttributes(outcomeKey.String("acquired"), tokenKey.String(about.Token.String()), priorityKey.Int(int(about.Priority)))
		l.wait.End(trace.WithTimestamp(about.At))
	case lockguard.Bypassed:
		l.wait.SetAttributes(outcomeKey.String("bypassed"), overrideID.String(e.Override.ID))
		l.wait.End(trace.WithTimestamp(about.At))
	}
}

// holdsLocked takes note of what happens to a hold.
func (t *Tracer) holdsLocked(ctx context.Context, l *life, event lockguard.Event) {
	about := event.About()
	at := trace.WithTimestamp(about.At)
	switch e := event.(type) {
	case lockguard.Acquired:
		t.holdLocked(ctx, l, about)
	case lockguard.Bypassed:
		t.holdLocked(ctx, l, about)
		l.hold.SetAttributes(overrideID.String(e.Override.ID))
	}
	if l.hold == nil {
		return
	}
	switch e := event.(type) {
	case lockguard.PreemptRequested:
		attributes := append(contender(e.By), preemptReason.String(string(e.Reason)), graceKey.Float64(e.Grace.Seconds()), forcefulKey.Bool(e.Forceful))
		l.hold.AddEvent("preempt.received", at, trace.WithAttributes(attributes...))
		t.link(l.hold, e.PreemptorTrace, "preempted_by", contender(e.By)...)
	case lockguard.PreemptionWithdrawn:
		l.hold.AddEvent("preempt.withdrawn", at)
	case lockguard.AtRisk:
		l.hold.AddEvent("at_risk", at)
	case lockguard.Extended:
		l.hold.AddEvent("extended", at, trace.WithAttributes(leaseKey.Float64(e.Lease.Seconds())))
	case lockguard.Downgraded:
		l.hold.AddEvent("downgraded", at)
	case lockguard.CleanupStarted:
		_, l.cleanup = t.startCleanup(trace.ContextWithSpan(ctx, l.hold), e)
	case lockguard.CleanupDone:
		endCleanup(l.cleanup, e, l.overran)
		l.cleanup = nil
		if l.lost {
			delete(t.lives, about.ID)
		}
	case lockguard.CleanupOverrun:
		l.overran = true
		l.hold.AddEvent("cleanup.overrun", at, trace.WithAttributes(workRunning.Bool(e.WorkRunning)))
	case lockguard.Released:
		l.hold.SetAttributes(endKey.String(ending(e.Cause)))
		if e.Err != nil {
			l.hold.AddEvent("release.unconfirmed", at)
		}
		l.hold.End(at)
		delete(t.lives, about.ID)
	case lockguard.Lost:
		l.hold.SetAttributes(endKey.String("lost"), lossKey.String(string(e.Err.Reason)), errorType.String("lock_lost"))
		l.hold.SetStatus(codes.Error, e.Err.Error())
		l.hold.End(at)
		l.lost = true
		if l.cleanup == nil { // else its end is still to come
			delete(t.lives, about.ID)
		}
	}
}

// holdLocked starts the span of the hold, unless it has been.
func (t *Tracer) holdLocked(ctx context.Context, l *life, about lockguard.Subject) {
	if l.hold != nil {
		return
	}
	links := []trace.Link{linkTo(l.waited, "acquired_by")}
	for _, b := range l.blockers {
		links = append(links, linkTo(b, "follows"))
	}
	attributes := append(describe(about), tokenKey.String(about.Token.String()))
	_, l.hold = t.tracer.Start(ctx, holdSpan, trace.WithTimestamp(about.At), trace.WithAttributes(attributes...), trace.WithLinks(links...))
}

// afterwardsLocked shows the hooks that run after a loss.
func (t *Tracer) afterwardsLocked(ctx context.Context, event lockguard.Event) {
	if e, ok := event.(lockguard.CleanupStarted); ok {
		_, span := t.startCleanup(ctx, e)
		t.lives[e.ID] = &life{wait: span, hold: span, cleanup: span, lost: true}
	}
}

func (t *Tracer) startCleanup(ctx context.Context, e lockguard.CleanupStarted) (context.Context, trace.Span) {
	return t.tracer.Start(ctx, cleanupSpan, trace.WithTimestamp(e.At), trace.WithAttributes(
		scopeKey.String(e.Scope), hooksKey.Int(e.Hooks), endKey.String(ending(e.Cause)), tokenKey.String(e.Token.String())))
}

// parse reads what came through ZooKeeper.
func (t *Tracer) parse(traceparent string) (trace.SpanContext, bool) {
	if traceparent == "" {
		return trace.SpanContext{}, false
	}
	ctx := t.propagator.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent})
	sc := trace.SpanContextFromContext(ctx)
	return sc, sc.IsValid()
}

func (t *Tracer) link(from trace.Span, traceparent, role string, attributes ...attribute.KeyValue) {
	if sc, ok := t.parse(traceparent); ok {
		from.AddLink(linkTo(sc, role, attributes...))
	}
}

func linkTo(sc trace.SpanContext, role string, attributes ...attribute.KeyValue) trace.Link {
	return trace.Link{SpanContext: sc, Attributes: append(attributes, linkRole.String(role))}
}

// refusal says why a lock was not acquired, and whether that is an error.
func refusal(err error) (outcome string, failed bool) {
	switch {
	case errors.Is(err, context.Canceled) && !errors.As(err, new(*recipes.NotAcquiredError)):
		return "cancelled", false
	case errors.As(err, new(*lockguard.FrozenError)):
		return "frozen", true
	case errors.As(err, new(*recipes.CleanupPendingError)):
		return "cleanup_pending", true
	case errors.As(err, new(*recipes.QueueFullError)):
		return "queue_full", true
	case errors.As(err, new(*recipes.EvictedError)):
		return "evicted", true
	case errors.As(err, new(*recipes.UnavailableError)):
		return "unavailable", true
	case errors.As(err, new(*lockguard.LostError)):
		return "lost", true
	case errors.As(err, new(*recipes.NotAcquiredError)):
		return "timeout", true
	}
	return "failed", true
}

// ending says why work was interrupted.
func ending(cause error) string {
	switch {
	case cause == nil:
		return "released"
	case errors.As(cause, new(*lockguard.LostError)):
		return "lost"
	case errors.As(cause, new(*lockguard.OverriddenError)):
		return "overridden"
	case errors.As(cause, new(*lockguard.LeaseExpiredError)):
		return "lease_expired"
	case errors.As(cause, new(*lockguard.PreemptedError)):
		return "preempted"
	case errors.As(cause, new(*lockguard.ShutdownError)):
		return "shutdown"
	}
	return "interrupted"
}

func endCleanup(span trace.Span, e lockguard.CleanupDone, overran bool) {
	if span == nil {
		return
	}
	switch {
	case e.Err != nil:
		span.SetAttributes(errorType.String("cleanup_failed"))
		span.SetStatus(codes.Error, e.Err.Error())
	case overran:
		span.SetAttributes(errorType.String("cleanup_overrun"))
		span.SetStatus(codes.Error, "the cleanup took longer than its grace")
	}
	span.End(trace.WithTimestamp(e.At))
}
