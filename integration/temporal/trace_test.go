package temporal_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	apihistory "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/traces"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// A studio is a worker whose spans are recorded: those of Temporal's SDK, and ours.
type studio struct {
	farm
	recorder *tracetest.SpanRecorder
	options  worker.Options
	guard    *lockguard.Guard
}

func newStudio(t *testing.T, f farm, options ...temporal.PluginOption) studio {
	t.Helper()
	s := studio{farm: f, recorder: tracetest.NewSpanRecorder()}
	s.queue = devserver.Name(t)
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(s.recorder))
	locks, err := recipes.NewClient(recipes.Config{Servers: []string{zookeeper.Server(t).Addr()}, Chroot: f.root})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, locks.Close(context.Background())) })
	s.guard, err = lockguard.New(locks, traces.New(provider).Options()...)
	require.NoError(t, err)
	plugin, err := temporal.NewPlugin(s.guard, options...)
	require.NoError(t, err)
	s.options = worker.Options{
		Interceptors: []interceptor.WorkerInterceptor{interceptor.NewTracingInterceptor(otelTracer{tracer: provider.Tracer("temporal")})},
		Plugins:      []worker.Plugin{plugin},
	}
	return s
}

func (s studio) open(t *testing.T, activities map[string]any) {
	t.Helper()
	w := worker.New(s.client, s.queue, s.options)
	w.RegisterWorkflow(single)
	w.RegisterWorkflow(errand)
	for name, a := range activities {
		register(w, name, a)
	}
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
}

// spans waits for the end of that many spans of a name, in the order of their
// starts.
func (s studio) spans(t *testing.T, name string, n int) []sdktrace.ReadOnlySpan {
	t.Helper()
	var found []sdktrace.ReadOnlySpan
	eventually(t, func() bool {
		found = nil
		for _, span := range s.recorder.Started() {
			if span.Name() == name && !span.EndTime().IsZero() {
				found = append(found, span)
			}
		}
		return len(found) >= n
	}, "spans "+name)
	return found
}

// that waits for the end of the span of a name that fits.
func (s studio) that(t *testing.T, name string, fits func(sdktrace.ReadOnlySpan) bool) sdktrace.ReadOnlySpan {
	t.Helper()
	var found sdktrace.ReadOnlySpan
	eventually(t, func() bool {
		all := s.spans(t, name, 1)
		if i := slices.IndexFunc(all, fits); i >= 0 {
			found = all[i]
		}
		return found != nil
	}, "the span "+name)
	return found
}

// linked returns what a span links to in a role.
func linked(s sdktrace.ReadOnlySpan, role string) (to []trace.SpanID) {
	for _, l := range s.Links() {
		for _, a := range l.Attributes {
			if a == attribute.String("lockkeeper.link.role", role) {
				to = append(to, l.SpanContext.SpanID())
			}
		}
	}
	return to
}

func idsOf(spans []sdktrace.ReadOnlySpan) (ids []trace.SpanID) {
	for _, s := range spans {
		ids = append(ids, s.SpanContext().SpanID())
	}
	return ids
}

func TestSpansOfLockedActivities(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	began := make(chan struct{}, 10)
	lock := temporal.Lock{Requirement: requirement(), OnBusy: temporal.BusyRetry}
	lock.CleanupTimeout = 10 * time.Second
	victim := newStudio(t, f, temporal.Declare("work", lock))
	victim.open(t, map[string]any{"work": func(ctx context.Context) error {
		select {
		case began <- struct{}{}:
		default:
		}
		hold, _ := lockguard.FromContext(ctx)
		if hold.Info().Requirement.Priority > 0 {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}})
	urgent := lock
	urgent.Priority = 7
	preemptor := newStudio(t, f, temporal.Declare("urgent", urgent))
	preemptor.open(t, map[string]any{"urgent": func() error { return nil }})

	// given an activity that has waited over several attempts
	release := f.hold(t)
	run := victim.start(t, "work", retrying())
	f.attempts(t, run, 3)
	release()
	receive(t, began, "the work")

	// when it is preempted by one of another worker, and its workflow terminated
	_, err := result[any](t, preemptor.start(t, "urgent", retrying()))
	require.NoError(t, err)
	require.NoError(t, f.client.TerminateWorkflow(t.Context(), run.GetID(), run.GetRunID(), "enough"))

	// then there is a hold that links to who preempted it, and that one to its wait
	other := preemptor.spans(t, "lock.wait", 1)[0]
	hold := victim.that(t, "lock.hold", func(s sdktrace.ReadOnlySpan) bool {
		return slices.Contains(linked(s, "preempted_by"), other.SpanContext().SpanID())
	})
	wait := victim.that(t, "lock.wait", func(s sdktrace.ReadOnlySpan) bool {
		return slices.Contains(linked(other, "preempts"), s.SpanContext().SpanID())
	})
	require.Equal(t, []trace.SpanID{wait.SpanContext().SpanID()}, linked(hold, "acquired_by"))
	require.Equal(t, preemptor.spans(t, "RunActivity:urgent", 1)[0].SpanContext().SpanID(), other.Parent().SpanID())

	// and both are children of the attempt that ran, which was not the first
	attempts := victim.spans(t, "RunActivity:work", 3)
	at := slices.Index(idsOf(attempts), hold.Parent().SpanID())
	require.GreaterOrEqual(t, at, 2, "the hold is no child of a later attempt")
	require.Equal(t, hold.Parent().SpanID(), wait.Parent().SpanID())

	// and it has waited since the first attempt
	require.True(t, wait.StartTime().Before(attempts[0].EndTime()), "it waits since %s; the first attempt ended at %s", wait.StartTime(), attempts[0].EndTime())
	require.False(t, wait.StartTime().Before(scheduled(t, f, run)), "it waits since before it was scheduled")
}

// scheduled is when the first event of a workflow was, less a moment: two clocks of one
// machine differ by less than their resolution.
func scheduled(t *testing.T, f farm, run client.WorkflowRun) time.Time {
	t.Helper()
	return devserver.History(t, f.client, run.GetID(), run.GetRunID())[0].GetEventTime().AsTime().Add(-time.Millisecond)
}

func TestWorkflowCodeOpensNoSpans(t *testing.T) {
	t.Parallel()
	s := newStudio(t, newFarm(t))
	s.open(t, map[string]any{"labour": func() error { return nil }})
	run, err := s.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: devserver.Name(t), TaskQueue: s.queue}, errand, requirement())
	require.NoError(t, err)
	_, err = result[any](t, run)
	require.NoError(t, err)

	// then the spans of its lock are those of its activities: of the one that keeps
	// it, and of the one that runs under it
	holds := s.spans(t, "lock.hold", 2)
	attempts := idsOf(append(s.spans(t, "RunActivity:labour", 1), s.spans(t, "RunActivity:lockkeeper.Hold", 1)...))
	for _, span := range holds {
		require.Contains(t, attempts, span.Parent().SpanID(), "%v", span.Attributes())
	}

	// and a replay makes none
	before := s.lockSpans()
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{Interceptors: s.options.Interceptors, Plugins: s.options.Plugins})
	require.NoError(t, err)
	replayer.RegisterWorkflow(errand)
	history := &apihistory.History{Events: devserver.History(t, s.client, run.GetID(), run.GetRunID())}
	require.NoError(t, replayer.ReplayWorkflowHistory(nil, history))
	require.Equal(t, before, s.lockSpans())
}

// lockSpans is how many spans of locks have begun.
func (s studio) lockSpans() (n int) {
	for _, span := range s.recorder.Started() {
		if strings.HasPrefix(span.Name(), "lock.") {
			n++
		}
	}
	return n
}

// otelTracer is what Temporal's contrib/opentelemetry is, in few lines.
type otelTracer struct {
	interceptor.BaseTracer
	tracer trace.Tracer
}

type otelSpan struct {
	context trace.SpanContext
	span    trace.Span // nil: of another process
}

type otelKey struct{}

func (otelTracer) Options() interceptor.TracerOptions {
	return interceptor.TracerOptions{SpanContextKey: otelKey{}, HeaderKey: "_tracer-data"}
}

func (otelTracer) UnmarshalSpan(m map[string]string) (interceptor.TracerSpanRef, error) {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(m))
	return &otelSpan{context: trace.SpanContextFromContext(ctx)}, nil
}

func (otelTracer) MarshalSpan(span interceptor.TracerSpan) (map[string]string, error) {
	m := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), span.(*otelSpan).context), m)
	return m, nil
}

func (otelTracer) SpanFromContext(ctx context.Context) interceptor.TracerSpan {
	span := trace.SpanFromContext(ctx)
	if !span.SpanContext().IsValid() {
		return nil
	}
	return &otelSpan{span.SpanContext(), span}
}

func (otelTracer) ContextWithSpan(ctx context.Context, span interceptor.TracerSpan) context.Context {
	return trace.ContextWithSpan(ctx, span.(*otelSpan).span)
}

func (o otelTracer) StartSpan(options *interceptor.TracerStartSpanOptions) (interceptor.TracerSpan, error) {
	ctx := context.Background()
	if parent, ok := options.Parent.(*otelSpan); ok {
		ctx = trace.ContextWithSpanContext(ctx, parent.context)
	}
	_, span := o.tracer.Start(ctx, o.SpanName(options), trace.WithTimestamp(options.Time))
	return &otelSpan{span.SpanContext(), span}, nil
}

// Finish ends the span.
func (s *otelSpan) Finish(options *interceptor.TracerFinishSpanOptions) {
	if options.Error != nil {
		s.span.RecordError(options.Error)
	}
	s.span.End()
}
