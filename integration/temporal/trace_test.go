package temporal_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/traces"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// A tracedWorker is one whose spans are recorded: those of Temporal's SDK, and ours.
type tracedWorker struct {
	*fixture
	recorder *tracetest.SpanRecorder
}

// traced runs such a worker, on a queue of its own.
func (f *fixture) traced(s setup) tracedWorker {
	f.Helper()
	own := *f
	own.queue = devserver.Name(f)
	w := tracedWorker{fixture: &own, recorder: tracetest.NewSpanRecorder()}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w.recorder))
	var err error
	s.guard, err = lockguard.New(f.Client(), traces.New(provider).Options()...)
	require.NoError(f, err)
	s.options.Interceptors = []interceptor.WorkerInterceptor{&spansOfAttempts{tracer: provider.Tracer("temporal")}}
	w.work(s)
	return w
}

// spans waits for the end of that many spans of a name, in the order of their
// starts.
func (s tracedWorker) spans(name string, n int) []sdktrace.ReadOnlySpan {
	s.Helper()
	var found []sdktrace.ReadOnlySpan
	eventually(s, func() bool {
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
func (s tracedWorker) that(name string, fits func(sdktrace.ReadOnlySpan) bool) sdktrace.ReadOnlySpan {
	s.Helper()
	var found sdktrace.ReadOnlySpan
	eventually(s, func() bool {
		all := s.spans(name, 1)
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
	f := newFixture(t)
	victim := f.traced(setup{
		lock:       temporal.Lock{Requirement: lockguard.Requirement{Terms: priority.Terms{CleanupTimeout: time.Minute}}, OnBusy: temporal.BusyRetry},
		activities: map[string]any{"block locked": f.reporter("victim").block},
	})
	preemptor := f.traced(setup{lock: temporal.Lock{Requirement: urgent}})

	// given an activity that has waited over several attempts
	release := f.holds()
	run := victim.start("block locked", retrying(steady))
	f.attempts(run, 3)
	release()
	f.awaits("block")

	// when it is preempted by one of another worker, and its workflow terminated
	completed[any](f, preemptor.start("labour", retrying(steady)))
	f.terminate(run)

	// then there is a hold that links to who preempted it, and that one to its wait
	other := preemptor.spans("lock.wait", 1)[0]
	hold := victim.that("lock.hold", func(s sdktrace.ReadOnlySpan) bool {
		return slices.Contains(linked(s, "preempted_by"), other.SpanContext().SpanID())
	})
	wait := victim.that("lock.wait", func(s sdktrace.ReadOnlySpan) bool {
		return slices.Contains(linked(other, "preempts"), s.SpanContext().SpanID())
	})
	require.Equal(t, []trace.SpanID{wait.SpanContext().SpanID()}, linked(hold, "acquired_by"))
	require.Equal(t, preemptor.spans("RunActivity:labour", 1)[0].SpanContext().SpanID(), other.Parent().SpanID())

	// and both are children of the attempt that ran, which was not the first
	attempts := victim.spans("RunActivity:block locked", 3)
	at := slices.Index(idsOf(attempts), hold.Parent().SpanID())
	require.GreaterOrEqual(t, at, 2, "the hold is no child of a later attempt")
	require.Equal(t, hold.Parent().SpanID(), wait.Parent().SpanID())

	// and it has waited since the first attempt: through all pauses between attempts, each twice as long as the last. When
	// the attempt itself began is known but for the time in which the server's task reached the worker.
	pauses := 100 * time.Millisecond * (1<<at - 1)
	require.GreaterOrEqual(t, attempts[at].StartTime().Sub(wait.StartTime()), pauses-time.Millisecond)
	// two clocks of one machine differ by less than their resolution
	scheduled := f.history(run).Events[0].GetEventTime().AsTime().Add(-time.Millisecond)
	require.False(t, wait.StartTime().Before(scheduled), "it waits since before it was scheduled")
}

func TestWorkflowCodeOpensNoSpans(t *testing.T) {
	t.Parallel()
	s := newFixture(t).traced(setup{})
	run := s.migrate(migration{Steps: []string{"step"}})
	completed[any](s.fixture, run)

	// then the spans of its lock are those of its activities: of the one that keeps
	// it, and of the one that runs under it
	holds := s.spans("lock.hold", 2)
	attempts := idsOf(append(s.spans("RunActivity:step", 1), s.spans("RunActivity:lockkeeper.Hold", 1)...))
	for _, span := range holds {
		require.Contains(t, attempts, span.Parent().SpanID(), "%v", span.Attributes())
	}

	// and a replay makes none
	before := s.lockSpans()
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
		Interceptors: s.options.Interceptors, Plugins: s.options.Plugins, DisableDeadlockDetection: true,
	})
	require.NoError(t, err)
	replayer.RegisterWorkflow(Migrate)
	require.NoError(t, replayer.ReplayWorkflowHistory(nil, s.history(run)))
	require.Equal(t, before, s.lockSpans())
}

// lockSpans is how many spans of locks have begun.
func (s tracedWorker) lockSpans() (n int) {
	for _, span := range s.recorder.Started() {
		if strings.HasPrefix(span.Name(), "lock.") {
			n++
		}
	}
	return n
}

// spansOfAttempts opens a span around each attempt of an activity, as the tracing interceptors of Temporal's SDK do.
type spansOfAttempts struct {
	interceptor.WorkerInterceptorBase
	tracer trace.Tracer
}

func (s *spansOfAttempts) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	i := &tracedAttempt{tracer: s.tracer}
	i.Next = next
	return i
}

type tracedAttempt struct {
	interceptor.ActivityInboundInterceptorBase
	tracer trace.Tracer
}

func (a *tracedAttempt) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	ctx, span := a.tracer.Start(ctx, "RunActivity:"+activity.GetInfo(ctx).ActivityType.Name)
	defer span.End()
	return a.Next.ExecuteActivity(ctx, in)
}
