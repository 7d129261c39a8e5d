package traces_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/traces"
	"github.com/lockkeeper/lockkeeper/observability/traces/sampling"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const parentOfAll = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestWaitSaysWhoIsInTheWayWhenThatChanges(t *testing.T) {
	zk := zktest.RunT(t)
	first, second, third := start(t, zk), start(t, zk), start(t, zk)
	need := func(owner string) lockguard.Requirement { return lockguard.Requirement{Scope: scope, Owner: owner} }
	a, err := first.guard.Acquire(t.Context(), need("a"))
	require.NoError(t, err)
	waits := func(p process, owner string) <-chan *lockguard.Hold {
		got := make(chan *lockguard.Hold, 1)
		go func() {
			hold, err := p.guard.Acquire(t.Context(), need(owner))
			if err != nil {
				t.Errorf("%s: %v", owner, err)
			}
			got <- hold
		}()
		require.Eventually(t, func() bool {
			return slices.ContainsFunc(p.recorder.Started(), func(s sdk.ReadWriteSpan) bool { return s.Name() == "lock.wait" && len(s.Events()) > 0 })
		}, time.Minute, time.Millisecond, "%s does not stand in the queue", owner)
		return got
	}
	b := waits(second, "b")
	c := waits(third, "c")
	require.NoError(t, a.Release(t.Context()))
	holdsB := <-b
	require.Eventually(t, tells(third.recorder, "blocker.changed"), time.Minute, time.Millisecond) // c is first now, behind another one
	require.NoError(t, holdsB.Release(t.Context()))
	require.NoError(t, (<-c).Release(t.Context()))

	id := func(p process, owner string) trace.SpanID {
		return p.span(t, "lock.wait", owner).SpanContext().SpanID()
	}
	wait, hold := third.span(t, "lock.wait", "c"), third.span(t, "lock.hold", "c")
	require.Equal(t, []trace.SpanID{id(first, "a"), id(second, "b")}, linked(wait, "blocked_by"))
	require.Equal(t, []string{"queue.position", "blocker.changed"}, events(wait))
	require.Equal(t, "2", value(wait.Attributes(), "lockkeeper.blockers.total"))
	require.Equal(t, []trace.SpanID{id(second, "b")}, linked(hold, "follows"), "the last one alone")
	require.Equal(t, hold.Parent(), third.span(t, "lock.release", "c").Parent())
}

// tells reports whether a span has such an event.
func tells(recorder *tracetest.SpanRecorder, event string) func() bool {
	return func() bool {
		return slices.ContainsFunc(recorder.Started(), func(s sdk.ReadWriteSpan) bool { return slices.Contains(events(s), event) })
	}
}

func TestHoldTellsOfASilenceAndItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zk := zktest.RunT(t, zktest.Pipe())
		client, err := lock.NewClient(lock.Config{Dialer: zk.Dialer("holder"), SessionTimeout: 12 * time.Second})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, client.Close(context.Background())) })
		recorder := tracetest.NewSpanRecorder()
		provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))
		guard, err := lockguard.New(client, traces.New(provider).Options()...)
		require.NoError(t, err)
		hold, err := guard.Acquire(t.Context(), lockguard.Requirement{Scope: scope})
		require.NoError(t, err)
		zk.Partition()
		time.Sleep(4 * time.Second)
		require.True(t, tells(recorder, "session.suspended")())
		require.False(t, tells(recorder, "session.reconnected")())
		zk.Heal()
		time.Sleep(4 * time.Second)
		require.True(t, tells(recorder, "session.reconnected")())
		require.NoError(t, hold.Release(t.Context()))
	})
}

func TestEventsOfAPreemptedHold(t *testing.T) {
	_, recorder, tell := drive(t)
	at := time.Now()
	about := lockguard.Subject{ID: "1", Scope: scope, At: at, Token: 7}
	later := func(d time.Duration) lockguard.Subject { s := about; s.At = at.Add(d); return s }
	cause := &lockguard.PreemptedError{Scope: scope, By: "hotfix"}
	tell(lockguard.Event{Subject: about, Notice: lockguard.Waiting{Since: at}}, lockguard.Event{Subject: about, Notice: lockguard.Acquired{}},
		lockguard.Event{Subject: later(1), Notice: lock.PreemptRequested{Trace: parentOfAll}},
		lockguard.Event{Subject: later(2), Notice: lockguard.CleanupStarted{Cause: cause, Hooks: 1, Since: at.Add(1)}},
		lockguard.Event{Subject: later(3), Notice: lockguard.CleanupDone{Err: errors.New("--password=planted")}},
		lockguard.Event{Subject: later(9), Notice: lockguard.Released{Cause: cause, Since: at.Add(1), Took: 4}})
	byName := map[string]sdk.ReadOnlySpan{}
	for _, s := range recorder.Ended() {
		byName[s.Name()] = s
	}
	hold, release := byName["lock.hold"], byName["lock.release"]
	require.Equal(t, []string{"fence.issued", "preempt.received", "ctx.cancelled", "cleanup.start", "cleanup.end"}, events(hold))
	cancelled := hold.Events()[2]
	require.Equal(t, "preempted", value(cancelled.Attributes, "lockkeeper.cause"))
	require.Equal(t, at.Add(1).UnixNano(), cancelled.Time.UnixNano())
	require.Equal(t, codes.Unset, hold.Status().Code)
	require.Equal(t, at.Add(5).UnixNano(), release.StartTime().UnixNano())
	require.Equal(t, at.Add(9).UnixNano(), release.EndTime().UnixNano())
	require.Equal(t, codes.Error, byName["lock.cleanup"].Status().Code)
	require.NotContains(t, byName["lock.cleanup"].Status().Description, "planted")
}

func TestLossSaysThatTheSessionEnded(t *testing.T) {
	_, recorder, tell := drive(t)
	about := lockguard.Subject{ID: "1", Scope: scope, At: time.Now(), Token: 7}
	tell(lockguard.Event{Subject: about, Notice: lockguard.Waiting{Since: about.At}}, lockguard.Event{Subject: about, Notice: lock.Requeued{}}, lockguard.Event{Subject: about, Notice: lockguard.Acquired{}},
		lockguard.Event{Subject: about, Notice: lockguard.Lost{Err: &lockguard.LostError{Scope: scope, Reason: lock.LossSession}}})
	wait, hold := recorder.Ended()[0], recorder.Ended()[1]
	require.Equal(t, []string{"session.lost", "requeued"}, events(wait))
	require.Equal(t, []string{"fence.issued", "session.lost", "ctx.cancelled"}, events(hold))
}

func TestHoldThatOverranItsGraceIsAnError(t *testing.T) {
	_, recorder, tell := drive(t)
	about := lockguard.Subject{ID: "1", Scope: scope, At: time.Now()}
	tell(lockguard.Event{Subject: about, Notice: lockguard.Waiting{Since: about.At}}, lockguard.Event{Subject: about, Notice: lockguard.Acquired{}},
		lockguard.Event{Subject: about, Notice: lockguard.CleanupOverrun{WorkRunning: true}}, lockguard.Event{Subject: about, Notice: lockguard.Released{}})
	hold := recorder.Ended()[1]
	require.Equal(t, codes.Error, hold.Status().Code)
	require.Equal(t, "cleanup_timeout", value(hold.Attributes(), "error.type"))
}

func TestContentionIsKeptWhereTheRestIsNot(t *testing.T) {
	for _, c := range []struct {
		name   string
		holder string // its traceparent
		links  int
	}{
		{"a holder with a span", parentOfAll, 1},
		{"a holder without", "", 0},
		{"a holder whose span is not kept", strings.TrimSuffix(parentOfAll, "1") + "0", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			recorder := tracetest.NewSpanRecorder()
			var exported []sdk.ReadOnlySpan
			provider := sdk.NewTracerProvider(sdk.WithSampler(sampling.ContentionSampler(sdk.NeverSample())), sdk.WithSpanProcessor(recorder))
			tracer := traces.New(provider)
			ctx, parent := provider.Tracer("test").Start(t.Context(), "RunActivity:Compact")
			since := time.Now().Add(-time.Minute)
			about := lockguard.Subject{ID: "1", Scope: scope, Identity: priority.Identity{Owner: "compact"}, At: time.Now()}
			tracer.Observe(ctx, lockguard.Event{Subject: about, Notice: lockguard.Waiting{Since: since}})
			tracer.Observe(ctx, lockguard.Event{Subject: about, Notice: lock.Queued{Position: 1, Holders: []lock.Contender{{ID: "h", Identity: priority.Identity{Owner: "a", Trace: c.holder}}}}})
			tracer.Observe(ctx, lockguard.Event{Subject: about, Notice: lockguard.Acquired{}})
			tracer.Observe(ctx, lockguard.Event{Subject: about, Notice: lockguard.Released{}})
			parent.End()
			for _, s := range recorder.Ended() {
				if s.SpanContext().IsSampled() {
					exported = append(exported, s)
				}
			}
			require.Len(t, exported, 1)
			wait := exported[0]
			require.Equal(t, "lock.wait", wait.Name())
			require.Equal(t, since.UnixNano(), wait.StartTime().UnixNano())
			require.Equal(t, parent.SpanContext().TraceID(), wait.SpanContext().TraceID())
			require.Len(t, wait.Links(), c.links)
			require.Equal(t, "acquired", value(wait.Attributes(), "lockkeeper.outcome"))
			require.Equal(t, []string{"queue.position"}, events(wait))
		})
	}
}

func TestWaitsWithoutContentionAreTheBasesAffair(t *testing.T) {
	for kept, base := range map[bool]sdk.Sampler{false: sdk.NeverSample(), true: nil} {
		recorder := tracetest.NewSpanRecorder()
		tracer := traces.New(sdk.NewTracerProvider(sdk.WithSampler(sampling.ContentionSampler(base)), sdk.WithSpanProcessor(recorder)))
		about := lockguard.Subject{ID: "1", Scope: scope, At: time.Now()}
		tracer.Observe(t.Context(), lockguard.Event{Subject: about, Notice: lockguard.Waiting{}})
		tracer.Observe(t.Context(), lockguard.Event{Subject: about, Notice: lock.Queued{Position: 1}}) // delayed: no holder
		tracer.Observe(t.Context(), lockguard.Event{Subject: about, Notice: lockguard.NotAcquired{Err: errors.New("no")}})
		require.Equal(t, kept, len(recorder.Ended()) > 0)
	}
	require.Equal(t, "Contention{AlwaysOffSampler}", sampling.ContentionSampler(sdk.NeverSample()).Description())
}

func TestBaggageHasTheTokenIfThatIsAskedFor(t *testing.T) {
	zk := zktest.RunT(t)
	for _, c := range []struct {
		options []traces.Option
		want    bool
	}{{nil, false}, {[]traces.Option{traces.WithBaggage()}, true}} {
		client, err := lock.NewClient(lock.Config{Servers: []string{zk.Addr()}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, client.Close(context.Background())) })
		guard, err := lockguard.New(client, traces.New(sdk.NewTracerProvider(), c.options...).Options()...)
		require.NoError(t, err)
		require.NoError(t, guard.Do(t.Context(), lockguard.Requirement{Scope: scope, Owner: "planted"}, func(ctx context.Context) error {
			hold, _ := lockguard.FromContext(ctx)
			if want := "lockkeeper.token=" + hold.Token().String(); c.want {
				require.Equal(t, want, baggage.FromContext(ctx).String())
			} else {
				require.Empty(t, baggage.FromContext(ctx).String())
			}
			return nil
		}))
	}
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) of(owner string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), `"owner":"`+owner+`"`)
}

func TestLongHoldsTellOfTheirProgressByOneTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &lines{}
		tracer := traces.New(sdk.NewTracerProvider(), traces.WithProgress(slog.New(slog.NewJSONHandler(out, nil)), 10*time.Minute))
		about := func(owner string) lockguard.Subject {
			return lockguard.Subject{ID: owner, Scope: scope, Identity: priority.Identity{Owner: owner}, Token: 4711, At: time.Now()}
		}
		begin := func(owner string) {
			tracer.Observe(t.Context(), lockguard.Event{Subject: about(owner), Notice: lockguard.Waiting{}})
			tracer.Observe(t.Context(), lockguard.Event{Subject: about(owner), Notice: lockguard.Acquired{}})
		}
		begin("long")
		time.Sleep(4 * time.Minute)
		begin("later")
		begin("short")
		time.Sleep(5 * time.Minute)
		tracer.Observe(t.Context(), lockguard.Event{Subject: about("short"), Notice: lockguard.Released{}})
		require.Zero(t, out.of("long")+out.of("later"))
		time.Sleep(12 * time.Minute) // 21
		require.Equal(t, []int{2, 1, 0}, []int{out.of("long"), out.of("later"), out.of("short")})
		require.Contains(t, out.text.String(), `"held":600000000000`)
		require.Contains(t, out.text.String(), `"token":4711,`, "a number, like in each line about a lock")
		tracer.Observe(t.Context(), lockguard.Event{Subject: about("long"), Notice: lockguard.Released{}})
		time.Sleep(10 * time.Minute) // 31
		require.Equal(t, []int{2, 2}, []int{out.of("long"), out.of("later")})
		tracer.Observe(t.Context(), lockguard.Event{Subject: about("later"), Notice: lockguard.Lost{Err: &lockguard.LostError{}}})
		time.Sleep(time.Hour)
		require.Equal(t, []int{2, 2}, []int{out.of("long"), out.of("later")})
		begin("long")
		time.Sleep(11 * time.Minute)
		require.Equal(t, 3, out.of("long"))
		tracer.Observe(t.Context(), lockguard.Event{Subject: about("long"), Notice: lockguard.Released{}})
	})
}

func TestRunIsTheSpanAboveItsLocks(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracer := traces.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)))
	instant := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	ctx, ended := tracer.Run(t.Context(), "compact", ticks.Run{ID: "17", Instant: instant})
	about := lockguard.Subject{ID: "1", Scope: scope}
	tracer.Observe(ctx, lockguard.Event{Subject: about, Notice: lockguard.Waiting{}})
	tracer.Observe(ctx, lockguard.Event{Subject: about, Notice: lockguard.Acquired{}})
	work := tracer.Context(ctx, about)
	tracer.Observe(ctx, lockguard.Event{Subject: about, Notice: lockguard.Released{}})
	ended(ticks.End{Outcome: ticks.Failed, Reason: "--password=planted", Attempts: 2})

	byName := map[string]sdk.ReadOnlySpan{}
	for _, s := range recorder.Ended() {
		byName[s.Name()] = s
	}
	run := byName["job.run"]
	require.Equal(t, run.SpanContext().SpanID(), byName["lock.wait"].Parent().SpanID())
	require.Equal(t, run.SpanContext().SpanID(), byName["lock.hold"].Parent().SpanID())
	for key, want := range map[string]string{"job": "compact", "run.id": "17", "tick": "2026-01-02T03:00:00Z", "outcome": "failed", "run.attempts": "2", "run.manual": "false"} {
		require.Equal(t, want, value(run.Attributes(), attribute.Key("lockkeeper."+key)), key)
	}
	require.Equal(t, codes.Error, run.Status().Code)
	require.NotContains(t, run.Status().Description, "planted")
	require.Contains(t, lockguard.Traceparent(ctx), run.SpanContext().SpanID().String())
	require.Contains(t, lockguard.Traceparent(work), byName["lock.hold"].SpanContext().SpanID().String())
}

func TestRunThatWasSkippedOrPreemptedIsNoError(t *testing.T) {
	for _, outcome := range []ticks.Outcome{ticks.Skipped, ticks.Preempted, ticks.Interrupted, ticks.Ran} {
		recorder := tracetest.NewSpanRecorder()
		tracer := traces.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)))
		_, ended := tracer.Run(t.Context(), "compact", ticks.Run{ID: "17", Manual: true})
		ended(ticks.End{Outcome: outcome, Reason: "overlap"})
		run := recorder.Ended()[0]
		require.Equal(t, codes.Unset, run.Status().Code)
		require.Empty(t, value(run.Attributes(), "lockkeeper.tick"))
	}
}
