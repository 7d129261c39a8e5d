package traces

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Scope is the name of the tracer whose spans are Lockkeeper's.
const Scope = "github.com/lockkeeper/lockkeeper/observability/traces"

// The names of the spans.
const (
	SpanRun     = "job.run"
	SpanWait    = "lock.wait"
	SpanHold    = "lock.hold"
	SpanCleanup = "lock.cleanup"
	SpanRelease = "lock.release"
)

// MaxLinks bounds the links of each role that a span has. The attribute
// lockkeeper.blockers.total says how many holders there were.
const MaxLinks = 8

// A Tracer makes spans of the events of guards, and of the runs of schedulers. It is
// safe for concurrent use.
type Tracer struct {
	tracer     trace.Tracer
	propagator propagation.TraceContext
	baggage    bool
	progress   *progress // nil: none

	mu    sync.Mutex
	lives map[string]*life // by the ID of the request
}

// An Option changes a Tracer. See New.
type Option func(*Tracer)

// WithBaggage adds the token of the lock to the baggage of the work's context, as
// lockkeeper.token, for what checks tokens behind a call that carries baggage. Of
// several locks it is that of the last one given. Nothing else is put there: baggage
// goes with every call that the work makes, to whomever.
func WithBaggage() Option { return func(t *Tracer) { t.baggage = true } }

// New returns a Tracer whose spans go to provider. nil: nowhere.
func New(provider trace.TracerProvider, options ...Option) *Tracer {
	if provider == nil {
		provider = noop.NewTracerProvider()
	}
	t := &Tracer{tracer: provider.Tracer(Scope), lives: make(map[string]*life)}
	for _, option := range options {
		option(t)
	}
	return t
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
	l := t.life(about.ID)
	if l == nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.waited.IsSampled() {
		return ""
	}
	return write(l.waited)
}

// Context is what lockguard.WithContext takes: the span of the hold, for what
// the work does.
func (t *Tracer) Context(ctx context.Context, about lockguard.Subject) context.Context {
	l := t.life(about.ID)
	if l == nil {
		return ctx
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hold == nil {
		t.holdLocked(ctx, l, about, trace.WithTimestamp(about.At))
	}
	if t.baggage {
		ctx = withToken(ctx, about.Token)
	}
	return t.below(ctx, l.hold)
}

// below returns a context for what happens below a span, in this process and in
// commands.
func (t *Tracer) below(ctx context.Context, span trace.Span) context.Context {
	ctx = trace.ContextWithSpan(ctx, span)
	if !span.SpanContext().IsValid() {
		return ctx
	}
	return lockguard.WithTraceparent(ctx, func() string { return write(span.SpanContext()) })
}

func withToken(ctx context.Context, token lockguard.Token) context.Context {
	member, err := baggage.NewMember(string(tokenKey), token.String())
	if err != nil {
		return ctx
	}
	bag, err := baggage.FromContext(ctx).SetMember(member)
	if err != nil { // it is full
		return ctx
	}
	return baggage.ContextWithBaggage(ctx, bag)
}

// Observe is a lockguard.Observer.
func (t *Tracer) Observe(ctx context.Context, event lockguard.Event) {
	about := event.About()
	if e, ok := event.(lockguard.Waiting); ok {
		t.begin(ctx, e)
		return
	}
	l := t.life(about.ID)
	if l == nil { // hooks after a loss; or it was there before the Tracer
		t.afterwards(ctx, event)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := trace.WithTimestamp(about.At)
	t.waitsLocked(ctx, l, event, at)
	t.holdsLocked(ctx, l, event, at)
}

// Run is what scheduler.Config.Begin takes: the span of a run of a job, from its
// claim until its end is known. Its locks, and all attempts, are below it.
func (t *Tracer) Run(ctx context.Context, job string, run recipes.TickRun) (context.Context, func(recipes.TickEnd)) {
	attributes := append(make([]attribute, 0, 8), jobKey.String(job), runKey.String(run.ID), manualKey.Bool(run.Manual))
	if !run.Manual {
		attributes = append(attributes, tickKey.String(run.Instant.UTC().Format(time.RFC3339Nano)))
	}
	ctx, span := t.tracer.Start(ctx, SpanRun, trace.WithAttributes(attributes...))
	return t.below(ctx, span), func(end recipes.TickEnd) {
		span.SetAttributes(outcomeKey.String(string(end.Outcome)), attemptsKey.Int(end.Attempts), preemptionsKey.Int(end.Preemptions))
		switch end.Outcome {
		case recipes.TickFailed, recipes.TickLost: // what the error says may have arguments of the job in it
			span.SetAttributes(errorType.String("job_" + string(end.Outcome)))
			span.SetStatus(codes.Error, "the job "+string(end.Outcome))
		case recipes.TickSkipped:
			span.SetAttributes(skipKey.String(end.Reason))
		case recipes.TickRan, recipes.TickPreempted, recipes.TickInterrupted: // policy
		}
		span.End()
	}
}

func (t *Tracer) life(id string) *life {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lives[id]
}

func (t *Tracer) keep(id string, l *life) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lives[id] = l
}

// forgetLocked is called when nothing of a life is open any more.
func (t *Tracer) forgetLocked(id string, l *life) {
	t.progress.drop(l)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.lives, id)
}
