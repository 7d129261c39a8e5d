package traces_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/traces"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const scope = "cluster/orders"

// a process with a guard and its spans.
type process struct {
	guard    *lockguard.Guard
	recorder *tracetest.SpanRecorder
	provider *sdk.TracerProvider
}

func start(t *testing.T, zk *zktest.Server, options ...sdk.TracerProviderOption) process {
	t.Helper()
	client, err := lock.NewClient(lock.Config{Servers: []string{zk.Addr()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close(context.Background())) })
	recorder := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(append(options, sdk.WithSpanProcessor(recorder))...)
	guard, err := lockguard.New(client, traces.New(provider).Options()...)
	require.NoError(t, err)
	return process{guard, recorder, provider}
}

// span waits for the end of the one span with this name and owner.
func (p process) span(t *testing.T, name, owner string) sdk.ReadOnlySpan {
	t.Helper()
	var found sdk.ReadOnlySpan
	require.Eventually(t, func() bool {
		for _, s := range p.recorder.Ended() {
			if s.Name() == name && (owner == "" || value(s.Attributes(), "lockkeeper.owner") == owner) {
				found = s
				return true
			}
		}
		return false
	}, time.Minute, time.Millisecond, "no span %s of %q has ended", name, owner)
	return found
}

func value(all []attribute.KeyValue, key attribute.Key) string {
	for _, a := range all {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

// linked returns the spans that s links to in a role.
func linked(s sdk.ReadOnlySpan, role string) []trace.SpanID {
	var to []trace.SpanID
	for _, l := range s.Links() {
		if value(l.Attributes, "lockkeeper.link.role") == role {
			to = append(to, l.SpanContext.SpanID())
		}
	}
	return to
}

func events(s sdk.ReadOnlySpan) []string {
	var names []string
	for _, e := range s.Events() {
		names = append(names, e.Name)
	}
	return names
}

func TestPreemptionIsSeenFromBothSides(t *testing.T) {
	// given a holder and a preemptor in two processes
	zk := zktest.RunT(t)
	victim, preemptor := start(t, zk), start(t, zk)
	holding := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ctx, activity := victim.provider.Tracer("test").Start(t.Context(), "RunActivity:Compact")
		defer activity.End()
		ended <- victim.guard.Do(ctx, lockguard.Requirement{Scope: scope, Owner: "compact", Terms: priority.Terms{CleanupTimeout: 20 * time.Second}},
			func(ctx context.Context) error {
				_, own := victim.provider.Tracer("test").Start(ctx, "copy")
				own.End()
				close(holding)
				<-ctx.Done()
				return context.Cause(ctx)
			},
			func(ctx context.Context) error {
				_, own := victim.provider.Tracer("test").Start(ctx, "undo")
				own.End()
				return nil
			})
	}()
	<-holding

	// when the one takes the lock from the other
	require.NoError(t, preemptor.guard.Do(t.Context(), lockguard.Requirement{Scope: scope, Owner: "migrate", Terms: priority.Terms{Priority: 9}},
		func(context.Context) error { return nil }))
	require.ErrorAs(t, <-ended, new(*lockguard.PreemptedError))

	// then each side links to the wait of the other
	activity := victim.span(t, "RunActivity:Compact", "")
	waited, held := victim.span(t, "lock.wait", "compact"), victim.span(t, "lock.hold", "compact")
	asking, took := preemptor.span(t, "lock.wait", "migrate"), preemptor.span(t, "lock.hold", "migrate")
	id := func(s sdk.ReadOnlySpan) []trace.SpanID { return []trace.SpanID{s.SpanContext().SpanID()} }
	require.Equal(t, id(waited), linked(asking, "blocked_by"))
	require.Equal(t, id(waited), linked(asking, "preempts"))
	require.Equal(t, id(asking), linked(held, "preempted_by"))
	require.Equal(t, id(waited), linked(held, "acquired_by"))
	require.Equal(t, id(asking), linked(took, "acquired_by"))
	require.Equal(t, id(waited), linked(took, "follows"))

	// and wait and hold are beside each other, with what the work does below the hold
	require.Equal(t, activity.SpanContext().SpanID(), waited.Parent().SpanID())
	require.Equal(t, activity.SpanContext().SpanID(), held.Parent().SpanID())
	require.Equal(t, held.SpanContext().SpanID(), victim.span(t, "copy", "").Parent().SpanID())
	require.Equal(t, held.SpanContext().SpanID(), victim.span(t, "lock.cleanup", "").Parent().SpanID())
	require.Equal(t, held.SpanContext().SpanID(), victim.span(t, "undo", "").Parent().SpanID())
	require.False(t, waited.EndTime().After(held.StartTime()))

	// and policy is no error
	require.Equal(t, codes.Unset, held.Status().Code)
	require.Equal(t, "preempted", value(held.Attributes(), "lockkeeper.end"))
	require.Equal(t, "acquired", value(asking.Attributes(), "lockkeeper.outcome"))
	require.Contains(t, events(held), "preempt.received")
	require.Contains(t, events(asking), "preempt.sent")
	require.NotEmpty(t, value(held.Attributes(), "lockkeeper.token"))
}

func TestLockThatIsNotAcquiredInTimeIsAnError(t *testing.T) {
	p := start(t, zktest.RunT(t))
	hold, err := p.guard.Acquire(t.Context(), lockguard.Requirement{Scope: scope, Owner: "first"})
	require.NoError(t, err)
	err = p.guard.Do(t.Context(), lockguard.Requirement{Scope: scope, Owner: "second", Terms: priority.Terms{AcquireTimeout: new(time.Duration(0))}},
		func(context.Context) error { return nil })
	require.ErrorAs(t, err, new(*lock.NotAcquiredError))
	require.NoError(t, hold.Release(t.Context()))

	failed := p.span(t, "lock.wait", "second")
	require.Equal(t, codes.Error, failed.Status().Code)
	require.Equal(t, "timeout", value(failed.Attributes(), "lockkeeper.outcome"))
	require.Equal(t, "lock_timeout", value(failed.Attributes(), "error.type"))
	require.Equal(t, "released", value(p.span(t, "lock.hold", "first").Attributes(), "lockkeeper.end"))
}

func TestCallerThatGivesUpIsNoError(t *testing.T) {
	p := start(t, zktest.RunT(t))
	hold, err := p.guard.Acquire(t.Context(), lockguard.Requirement{Scope: scope, Owner: "first"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := p.guard.Acquire(ctx, lockguard.Requirement{Scope: scope, Owner: "second"})
		failed <- err
	}()
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(p.recorder.Started(), func(s sdk.ReadWriteSpan) bool { return value(s.Attributes(), "lockkeeper.owner") == "second" })
	}, time.Minute, time.Millisecond)
	cancel()
	require.Error(t, <-failed)
	require.NoError(t, hold.Release(t.Context()))

	gaveUp := p.span(t, "lock.wait", "second")
	require.Equal(t, codes.Unset, gaveUp.Status().Code)
	require.Equal(t, "cancelled", value(gaveUp.Attributes(), "lockkeeper.outcome"))
}

func TestWaitBeginsWhenTheWorkBeganToWait(t *testing.T) {
	p := start(t, zktest.RunT(t))
	then := time.Now().Add(-time.Hour)
	ctx := lockguard.WaitingSince(t.Context(), then)
	require.NoError(t, p.guard.Do(ctx, lockguard.Requirement{Scope: scope, Owner: "retried"}, func(context.Context) error { return nil }))
	require.WithinDuration(t, then, p.span(t, "lock.wait", "retried").StartTime(), 0)
	require.True(t, p.span(t, "lock.hold", "retried").StartTime().After(then.Add(30*time.Minute)))
}

func TestSpansOfOneHoldHaveItsName(t *testing.T) {
	zk := zktest.RunT(t)
	first, second := start(t, zk), start(t, zk)
	hold, err := first.guard.Acquire(t.Context(), lockguard.Requirement{Scope: scope, Owner: "agent", Hold: "orders/1"})
	require.NoError(t, err)
	joined, err := second.guard.Join(t.Context(), lockguard.Requirement{Scope: scope, Owner: "activity", Hold: "orders/1"}, hold.Reference())
	require.NoError(t, err)
	span := trace.SpanFromContext(joined.Context())
	require.NoError(t, joined.Release(t.Context()))
	require.NoError(t, hold.Release(t.Context()))

	ours, theirs := first.span(t, "lock.hold", "agent"), second.span(t, "lock.hold", "activity")
	require.Equal(t, theirs.SpanContext(), span.SpanContext(), "the work of a companion belongs to its span")
	require.Equal(t, "orders/1", value(ours.Attributes(), "lockkeeper.hold.id"))
	require.Equal(t, "orders/1", value(theirs.Attributes(), "lockkeeper.hold.id"))
	require.Equal(t, value(ours.Attributes(), "lockkeeper.token"), value(theirs.Attributes(), "lockkeeper.token"))
}

func TestNestedHoldStaysBelowItsCaller(t *testing.T) {
	p := start(t, zktest.RunT(t))
	require.NoError(t, p.guard.Do(t.Context(), lockguard.Requirement{Scope: scope, Owner: "outer"}, func(ctx context.Context) error {
		ctx, own := p.provider.Tracer("test").Start(ctx, "step")
		defer own.End()
		return p.guard.Do(ctx, lockguard.Requirement{Scope: scope}, func(ctx context.Context) error {
			require.Equal(t, own.SpanContext(), trace.SpanContextFromContext(ctx))
			return nil
		})
	}))
}

func TestEveryLockOfSeveralHasItsSpans(t *testing.T) {
	p := start(t, zktest.RunT(t))
	two := []lockguard.Requirement{{Scope: "b", Owner: "b"}, {Scope: "a", Owner: "a"}}
	require.NoError(t, p.guard.DoAll(t.Context(), two, func(ctx context.Context) error {
		require.True(t, trace.SpanContextFromContext(ctx).IsValid())
		return nil
	}))
	for _, owner := range []string{"a", "b"} {
		require.Equal(t, "acquired", value(p.span(t, "lock.wait", owner).Attributes(), "lockkeeper.outcome"))
		require.Equal(t, "released", value(p.span(t, "lock.hold", owner).Attributes(), "lockkeeper.end"))
	}
}

// drive tells a Tracer of events by hand.
func drive(t *testing.T) (tracer *traces.Tracer, recorder *tracetest.SpanRecorder, tell func(...lockguard.Event)) {
	t.Helper()
	recorder = tracetest.NewSpanRecorder()
	tracer = traces.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)))
	return tracer, recorder, func(all ...lockguard.Event) {
		for _, e := range all {
			tracer.Observe(t.Context(), e)
		}
	}
}

func TestHooksAfterALossAreShown(t *testing.T) {
	tracer, recorder, tell := drive(t)
	about := lockguard.Subject{ID: "1", Scope: scope, At: time.Now()}
	lost := &lockguard.LostError{Scope: scope, Reason: lock.LossSession}
	tell(lockguard.Event{Subject: about, Notice: lockguard.Waiting{Since: about.At}}, lockguard.Event{Subject: about, Notice: lockguard.Acquired{}},
		lockguard.Event{Subject: about, Notice: lockguard.Lost{Err: lost}},
		lockguard.Event{Subject: about, Notice: lockguard.CleanupStarted{Cause: lost, Hooks: 1}}, lockguard.Event{Subject: about, Notice: lockguard.CleanupDone{Err: errors.New("disk full")}})
	var names []string
	for _, s := range recorder.Ended() {
		names = append(names, s.Name()+" "+s.Status().Code.String())
	}
	require.Equal(t, []string{"lock.wait Unset", "lock.hold Error", "lock.cleanup Error"}, names)
	require.Equal(t, context.Background(), tracer.Context(context.Background(), about), "nothing is remembered of it")
}

func TestLossDuringTheHooksForgetsNothing(t *testing.T) {
	tracer, recorder, tell := drive(t)
	about := lockguard.Subject{ID: "1", Scope: scope, At: time.Now()}
	tell(lockguard.Event{Subject: about, Notice: lockguard.Waiting{Since: about.At}}, lockguard.Event{Subject: about, Notice: lockguard.Acquired{}},
		lockguard.Event{Subject: about, Notice: lockguard.CleanupStarted{Hooks: 1}}, lockguard.Event{Subject: about, Notice: lockguard.CleanupOverrun{}},
		lockguard.Event{Subject: about, Notice: lockguard.Lost{Err: &lockguard.LostError{Scope: scope, Reason: lock.LossTaken}}},
		lockguard.Event{Subject: about, Notice: lockguard.CleanupDone{}})
	ended := recorder.Ended()
	require.Len(t, ended, 3)
	require.Equal(t, "cleanup_timeout", value(ended[2].Attributes(), "error.type"))
	require.Equal(t, context.Background(), tracer.Context(context.Background(), about))
}

func TestWhatComesThroughZooKeeperIsNotTrusted(t *testing.T) {
	_, recorder, tell := drive(t)
	about := lockguard.Subject{ID: "1", Scope: scope, At: time.Now()}
	holders := []lock.Contender{{Identity: priority.Identity{Trace: "00-xyz"}}, {Identity: priority.Identity{Trace: strings.Repeat("0", 1000)}}, {Identity: priority.Identity{Trace: ""}}}
	for range 2 * traces.MaxLinks {
		holders = append(holders, lock.Contender{Identity: priority.Identity{Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}})
	}
	tell(lockguard.Event{Subject: about, Notice: lockguard.Waiting{Since: about.At}}, lockguard.Event{Subject: about, Notice: lock.Queued{Holders: holders}},
		lockguard.Event{Subject: about, Notice: lock.PreemptSent{Holder: lock.Contender{Identity: priority.Identity{Trace: "nonsense"}}, Reason: priority.Outranked}},
		lockguard.Event{Subject: about, Notice: lockguard.NotAcquired{Err: errors.New("no")}})
	span := recorder.Ended()[0]
	require.Len(t, span.Links(), traces.MaxLinks)
	require.False(t, span.Parent().IsValid())
	require.Equal(t, "19", value(span.Attributes(), "lockkeeper.blockers.total"))
}

func TestUnsampledWaitIsNotLinked(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracer := traces.New(sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample()), sdk.WithSpanProcessor(recorder)))
	about := lockguard.Subject{ID: "1"}
	tracer.Observe(t.Context(), lockguard.Event{Subject: about, Notice: lockguard.Waiting{}})
	require.Empty(t, tracer.Traceparent(t.Context(), about))
}
