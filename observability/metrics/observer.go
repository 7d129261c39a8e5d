package metrics

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Observer returns what counts the events of a guard, see lockguard.WithObserver.
//
// It counts what one process did: how long it waited, held and cleaned up. These values
// may be added up over processes. There is no counter that goes up and down with the holds
// of a process: it would stay up when that process dies.
func (l *Locks) Observer(from Source) lockguard.Observer {
	l.mu.Lock()
	if !slices.Contains(l.sources, from) {
		l.sources = append(l.sources, from)
	}
	l.mu.Unlock()
	o := l.observer(from)
	return func(ctx context.Context, event lockguard.Event) { l.late.Add(told{o, ctx, event}) }
}

// told is an event that an observer was told.
type told struct {
	by    *observer
	ctx   context.Context
	event lockguard.Event
}

func (t told) count() { t.by.observe(t.ctx, t.event) }

func (l *Locks) observer(from Source) *observer {
	return &observer{Locks: l, source: string(from), open: make(map[string]*request)}
}

// An observer counts what one guard does.
type observer struct {
	*Locks
	source string

	mu   sync.Mutex
	open map[string]*request // by ID; those alone of which something has to be remembered
}

// A request is what has to be remembered of one.
type request struct {
	sent    time.Time     // when it first preempted a holder; zero: it has not
	grace   time.Duration // the longest that it gave
	forced  bool          // it has taken the lock
	overran bool          // it was preempted, and has not released in time
	lost    bool          // the hold is lost; its hooks may still run
	cleans  bool          // its hooks run

	bypassed bool // it works without the lock
}

// Results of preemptions and of cleanups.
const (
	resultGraceful = "graceful" // the holder has gone within its grace
	resultTimeout  = "cleanup_timeout"
	resultForced   = "forced"   // the lock was taken
	resultGivenUp  = "given_up" // the request did not get the lock

	resultDone    = "done"
	resultFailed  = "failed"
	resultOverrun = "overrun"
	resultLost    = "lost" // of the lock: before the hooks had begun, or while they ran
)

func preemptionResults() []string {
	return []string{resultGraceful, resultTimeout, resultForced, resultGivenUp}
}

func cleanupResults() []string {
	return []string{resultDone, resultFailed, resultOverrun, resultLost}
}

func (o *observer) observe(ctx context.Context, event lockguard.Event) {
	about := event.Subject
	switch e := event.Notice.(type) {
	case lockguard.Acquired:
		o.waited(ctx, about, lockguard.OutcomeAcquired, e.Waited)
	case lockguard.Bypassed:
		o.waited(ctx, about, lockguard.OutcomeBypassed, 0)
		o.note(about, func(r *request) { r.bypassed = true })
	case lockguard.NotAcquired:
		o.waited(ctx, about, e.Outcome(), e.Waited)
	case lock.PreemptSent:
		o.asks(ctx, about, e)
	case lock.TakenOver:
		o.note(about, func(r *request) { r.forced = true })
	case lockguard.CleanupStarted:
		o.note(about, func(r *request) {
			r.cleans = true
			r.lost = r.lost || e.Deadline.IsZero()
		})
	case lockguard.CleanupOverrun:
		o.note(about, func(r *request) { r.overran = true })
	case lockguard.CleanupDone:
		o.cleaned(ctx, about, e)
	case lockguard.Released:
		if r := o.forget(about); !r.bypassed { // else nothing was held
			o.held(ctx, about, e.End(), e.Held)
		}
	case lockguard.Lost:
		o.held(ctx, about, e.End(), e.Held)
		o.lose(about)
	case lockguard.Waiting:
		if about.Mode == priority.Shared {
			o.classes.share(about.Class)
		}
	default:
		// other outcomes of a request are counted at the end of its wait or hold; Skipped and Stuck belong to a job,
		// see Jobs
	}
}

// waited counts the end of a wait, and of the preemption that it was for.
func (o *observer) waited(ctx context.Context, about lockguard.Subject, how lockguard.Outcome, took time.Duration) {
	ctx = within(ctx, about.Trace)
	class := o.classes.of(about.Class)
	o.wait.Record(ctx, took.Seconds(), o.waits.of(values{class, about.Mode.String(), string(how), o.source}))

	sent := o.forget(about) // what comes now is of the hold
	if sent.sent.IsZero() {
		return
	}
	elapsed := about.At.Sub(sent.sent)
	became := resultGraceful
	switch {
	case how != lockguard.OutcomeAcquired:
		became = resultGivenUp
	case sent.forced:
		became = resultForced
	case sent.grace > 0 && elapsed > sent.grace:
		became = resultTimeout
	}
	o.preemption.Record(ctx, elapsed.Seconds(), o.preemptions.of(values{class, became}))
}

// asks counts a preempted holder.
func (o *observer) asks(ctx context.Context, about lockguard.Subject, e lock.PreemptSent) {
	victim, preemptor := o.classes.pair(e.Holder.Class, about.Class)
	o.preempted.Add(within(ctx, about.Trace), 1, o.preempteds.of(values{victim, preemptor, string(e.Reason)}))
	o.note(about, func(r *request) {
		if r.sent.IsZero() {
			r.sent = about.At
		}
		r.grace = max(r.grace, e.Grace)
	})
}

func (o *observer) held(ctx context.Context, about lockguard.Subject, how lockguard.End, took time.Duration) {
	o.hold.Record(working(ctx, about), took.Seconds(),
		o.holds.of(values{o.classes.of(about.Class), about.Mode.String(), string(how), o.source}))
}

// cleaned counts a cleanup that has ended.
func (o *observer) cleaned(ctx context.Context, about lockguard.Subject, e lockguard.CleanupDone) {
	o.mu.Lock()
	var r request
	if known := o.open[about.ID]; known != nil {
		known.cleans = false
		r = *known
		if known.lost {
			delete(o.open, about.ID) // nothing follows
		}
	}
	o.mu.Unlock()
	became := resultDone
	switch {
	case r.lost:
		became = resultLost
	case e.Err != nil:
		became = resultFailed
	case r.overran:
		became = resultOverrun
	}
	o.cleanup.Record(working(ctx, about), e.Took.Seconds(), o.cleanups.of(values{o.classes.of(about.Class), became}))
}

// lose forgets a hold, unless the end of its cleanup is still to come.
func (o *observer) lose(about lockguard.Subject) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r := o.open[about.ID]; r != nil && r.cleans {
		r.lost = true
		return
	}
	delete(o.open, about.ID)
}

func (o *observer) note(about lockguard.Subject, change func(*request)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.open[about.ID]
	if r == nil {
		r = &request{}
		o.open[about.ID] = r
	}
	change(r)
}

// forget returns what was remembered.
func (o *observer) forget(about lockguard.Subject) request {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.open[about.ID]
	delete(o.open, about.ID)
	if r == nil {
		return request{}
	}
	return *r
}

// working returns a context of the span of the hold, that of the wait when it has none.
func working(ctx context.Context, about lockguard.Subject) context.Context {
	return within(within(ctx, about.Trace), lockguard.Traceparent(ctx))
}

// within returns a context of the span that a traceparent names, for exemplars. An
// invalid traceparent, or one of a span that is not sampled, changes nothing.
func within(ctx context.Context, traceparent string) context.Context {
	const length = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	if len(traceparent) != length || traceparent[:3] != "00-" || traceparent[length-3:] != "-01" {
		return ctx
	}
	id, errID := trace.TraceIDFromHex(traceparent[3:35])
	span, errSpan := trace.SpanIDFromHex(traceparent[36:52])
	if errID != nil || errSpan != nil {
		return ctx
	}
	return trace.ContextWithSpanContext(ctx,
		trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: trace.FlagsSampled}))
}
