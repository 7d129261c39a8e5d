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
	"github.com/lockkeeper/lockkeeper/observability/internal/backlog"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
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
//
// Each link has an attribute lockkeeper.link.role. They point to the wait of the
// other side, and there is one on both sides, for most viewers show a link only
// where it starts. A span has at most MaxLinks of a role.
//
//	wait  blocked_by    who holds the lock while the request waits
//	wait  preempts      a holder that the request preempts
//	wait  takes_over    a holder whose lock the request took
//	hold  acquired_by   its own wait
//	hold  preempted_by  who preempts this holder
//	hold  follows       who held the lock before, as far as the wait has seen it
//
// What comes through ZooKeeper is not trusted: it becomes a link, never a parent,
// and only if it is a valid traceparent of a span that is kept.
//
// A hold that was preempted is no error: that is policy. Its attribute
// lockkeeper.end says how it ended, a lockguard.End; lockkeeper.outcome of a wait is a
// lockguard.Outcome. An error is a lock that was not acquired for another reason than
// the caller's own end, one that was lost, and a cleanup that failed or overran its
// grace.
//
// Spans contain scopes, owners and messages. They do not contain arguments of jobs,
// nor the errors of work and hooks, which may contain such arguments.
type Tracer struct {
	tracer     trace.Tracer
	propagator propagation.TraceContext
	baggage    bool
	progress   *progress // nil: none
	delay      time.Duration
	late       *backlog.Backlog[*life] // with events that are still to be heard of

	mu    sync.Mutex
	lives map[string]*life // by the ID of the request
}

// An Option changes a Tracer. See New.
type Option func(*Tracer)

// WithBaggage adds the token of the lock to the baggage of the work's context, as
// lockkeeper.token, for services that check tokens behind a call that carries
// baggage. Of several locks it is that of the last one granted. Nothing else is
// added: baggage goes with every call that the work makes, to any service.
func WithBaggage() Option { return func(t *Tracer) { t.baggage = true } }

// WithDelay has spans made up to that much later than what they report, with the times
// at which it happened: many at a time, and while no caller waits for it. An
// uncontended lock is then taken and released faster, see docs/performance.md. With a
// delay, call Flush before the provider is shut down, or the last spans are missing.
// The span that the work finds in its context starts when it is first asked for; it is
// no type of the SDK. Defaults to 0: at once.
func WithDelay(d time.Duration) Option { return func(t *Tracer) { t.delay = d } }

// New returns a Tracer whose spans go to provider. nil: nowhere.
func New(provider trace.TracerProvider, options ...Option) *Tracer {
	if provider == nil {
		provider = noop.NewTracerProvider()
	}
	t := &Tracer{tracer: provider.Tracer(Scope), lives: make(map[string]*life)}
	for _, option := range options {
		option(t)
	}
	t.late = backlog.New(t.delay, t.settle)
	return t
}

// Flush makes the spans of all that has happened before, see WithDelay.
func (t *Tracer) Flush() { t.late.Flush() }

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
	if t.baggage {
		ctx = withToken(ctx, about.Token)
	}
	hold := &holding{tracer: t, life: l, ctx: ctx, about: about}
	if t.delay <= 0 {
		return t.below(ctx, hold.real())
	}
	return t.below(ctx, hold)
}

// below returns a context for what happens below a span, in this process and in
// commands.
func (t *Tracer) below(ctx context.Context, span trace.Span) context.Context {
	return lockguard.WithTraceparent(trace.ContextWithSpan(ctx, span), func() string {
		if sc := span.SpanContext(); sc.IsValid() {
			return write(sc)
		}
		return ""
	})
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
	if e, ok := event.Notice.(lockguard.Waiting); ok { // its context is about to be sent to ZooKeeper
		t.begin(ctx, event.Subject, e)
		return
	}
	l := t.life(event.ID)
	if l == nil { // hooks after a loss; or it was there before the Tracer
		t.afterwards(ctx, event, &life{})
		return
	}
	l.mu.Lock()
	l.untold = append(l.untold, told{ctx, event})
	first := len(l.untold) == 1
	l.mu.Unlock()
	if first {
		t.late.Add(l)
	}
}

// settle hears of what has happened to a request.
func (t *Tracer) settle(l *life) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.settleLocked(l)
}

func (t *Tracer) settleLocked(l *life) {
	for len(l.untold) > 0 {
		next := l.untold[0]
		l.untold[0] = told{}
		l.untold = l.untold[1:] // first: should it panic, it is over all the same
		if l.over {
			t.afterwards(next.ctx, next.event, l)
			continue
		}
		at := trace.WithTimestamp(next.event.At)
		t.waitsLocked(next.ctx, l, next.event, at)
		t.holdsLocked(next.ctx, l, next.event, at)
	}
}

// Run is what scheduler.Config.Begin takes: the span of a run of a job, from its
// claim until its end is known. Its locks, and all attempts, are below it.
func (t *Tracer) Run(ctx context.Context, job string, run ticks.Run) (context.Context, func(ticks.End)) {
	attributes := append(make([]attribute, 0, 8), jobKey.String(job), runKey.String(run.ID), manualKey.Bool(run.Manual))
	if !run.Manual {
		attributes = append(attributes, tickKey.String(run.Instant.UTC().Format(time.RFC3339Nano)))
	}
	ctx, span := t.tracer.Start(ctx, SpanRun, trace.WithAttributes(attributes...))
	return t.below(ctx, span), func(end ticks.End) {
		span.SetAttributes(outcomeKey.String(string(end.Outcome)), attemptsKey.Int(end.Attempts),
			preemptionsKey.Int(end.Preemptions))
		switch end.Outcome {
		case ticks.Failed, ticks.Lost: // what the error says may have arguments of the job in it
			span.SetAttributes(errorType.String("job_" + string(end.Outcome)))
			span.SetStatus(codes.Error, "the job "+string(end.Outcome))
		case ticks.Skipped:
			span.SetAttributes(skipKey.String(end.Reason))
		case ticks.Ran, ticks.Preempted, ticks.Interrupted: // policy
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
	l.over = true
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.lives, id)
}
