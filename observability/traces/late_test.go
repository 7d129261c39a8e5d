package traces_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/traces"
	"github.com/lockkeeper/lockkeeper/observability/traces/sampling"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// late returns a tracer that makes its spans when the test flushes it.
func late(sampler sdk.Sampler) (tracer *traces.Tracer, recorder *tracetest.SpanRecorder) {
	recorder = tracetest.NewSpanRecorder()
	return traces.New(sdk.NewTracerProvider(sdk.WithSampler(sampler), sdk.WithSpanProcessor(recorder)), traces.WithDelay(time.Hour)), recorder
}

// told are stories of requests, each event a second after the other.
func told() map[string][]lockguard.Event {
	began := time.Unix(1_800_000_000, 0)
	at := func(second int) lockguard.Subject {
		return lockguard.Subject{ID: "1", Scope: scope, Identity: priority.Identity{Owner: "compact"}, Token: 7, At: began.Add(time.Duration(second) * time.Second)}
	}
	waiting := lockguard.Event{Subject: at(0), Notice: lockguard.Waiting{Since: began}}
	other := lock.Contender{ID: "h", Identity: priority.Identity{Owner: "billing", Trace: parentOfAll}, Terms: priority.Terms{Priority: 3}}
	lost := &lockguard.LostError{Scope: scope, Reason: lock.LossSession}
	return map[string][]lockguard.Event{
		"uncontended": {waiting, lockguard.Event{Subject: at(1), Notice: lockguard.Acquired{}}, lockguard.Event{Subject: at(2), Notice: lockguard.Released{Took: time.Second}}},
		"contended": {
			waiting,
			lockguard.Event{Subject: at(1), Notice: lock.Queued{Position: 2, Holders: []lock.Contender{other}}},
			lockguard.Event{Subject: at(2), Notice: lock.PreemptSent{Holder: other, Reason: priority.Outranked}},
			lockguard.Event{Subject: at(3), Notice: lockguard.Acquired{}},
			lockguard.Event{Subject: at(4), Notice: lockguard.Released{}},
		},
		"preempted": {
			waiting,
			lockguard.Event{Subject: at(1), Notice: lockguard.Acquired{}},
			lockguard.Event{Subject: at(2), Notice: lock.PreemptRequested{By: other, Trace: parentOfAll}},
			lockguard.Event{Subject: at(3), Notice: lockguard.CleanupStarted{Cause: &lockguard.PreemptedError{}, Since: at(2).At, Hooks: 1}},
			lockguard.Event{Subject: at(4), Notice: lockguard.CleanupOverrun{}},
			lockguard.Event{Subject: at(5), Notice: lockguard.CleanupDone{}},
			lockguard.Event{Subject: at(6), Notice: lockguard.Released{Cause: &lockguard.PreemptedError{}, Since: at(2).At}},
		},
		"refused":       {waiting, lockguard.Event{Subject: at(1), Notice: lock.Queued{}}, lockguard.Event{Subject: at(2), Notice: lockguard.NotAcquired{Err: errors.New("no")}}},
		"given to none": {waiting, lockguard.Event{Subject: at(1), Notice: lockguard.Acquired{}}, lockguard.Event{Subject: at(2), Notice: lockguard.NotAcquired{Err: errors.New("no")}}},
		"hooks after a loss": {
			waiting,
			lockguard.Event{Subject: at(1), Notice: lockguard.Acquired{}},
			lockguard.Event{Subject: at(2), Notice: lockguard.Lost{Err: lost}},
			lockguard.Event{Subject: at(3), Notice: lockguard.CleanupStarted{Cause: lost, Hooks: 1}},
			lockguard.Event{Subject: at(4), Notice: lockguard.CleanupOverrun{}},
			lockguard.Event{Subject: at(5), Notice: lockguard.CleanupDone{Err: errors.New("disk full")}},
		},
		"hooks during a loss": {
			waiting,
			lockguard.Event{Subject: at(1), Notice: lockguard.Acquired{}},
			lockguard.Event{Subject: at(2), Notice: lockguard.CleanupStarted{Hooks: 1}},
			lockguard.Event{Subject: at(3), Notice: lockguard.Lost{Err: lost}},
			lockguard.Event{Subject: at(4), Notice: lockguard.CleanupDone{}},
		},
	}
}

// dump is all that spans say, but for what is by chance.
func dump(spans []sdk.ReadOnlySpan) (all []string) {
	names := map[trace.SpanID]string{}
	for _, s := range spans {
		names[s.SpanContext().SpanID()] = s.Name()
	}
	for _, s := range spans {
		text := fmt.Sprint(s.Name(), " in ", names[s.Parent().SpanID()], " ", s.StartTime().UnixNano(), "-", s.EndTime().UnixNano(), " ", s.Status(), " ", s.Attributes())
		for _, e := range s.Events() {
			text += fmt.Sprint("\n event ", e.Name, " ", e.Time.UnixNano(), " ", e.Attributes)
		}
		for _, l := range s.Links() {
			text += fmt.Sprint("\n link ", names[l.SpanContext.SpanID()], " ", l.Attributes)
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

func TestWhatIsReportedLaterIsTheSame(t *testing.T) {
	for name, events := range told() {
		for _, flushEach := range []bool{false, true} {
			for sampled, sampler := range map[string]sdk.Sampler{"": sdk.AlwaysSample(), ", unsampled": sampling.ContentionSampler(sdk.NeverSample())} {
				t.Run(fmt.Sprint(name, sampled, ", flushed each time: ", flushEach), func(t *testing.T) {
					atOnce := tracetest.NewSpanRecorder()
					prompt := traces.New(sdk.NewTracerProvider(sdk.WithSampler(sampler), sdk.WithSpanProcessor(atOnce)))
					tracer, recorder := late(sampler)
					for _, event := range events {
						prompt.Observe(t.Context(), event)
						tracer.Observe(t.Context(), event)
						if flushEach {
							tracer.Flush()
						}
					}
					tracer.Flush()
					require.Equal(t, dump(atOnce.Ended()), dump(recorder.Ended()))
					about := events[0].Subject
					require.Equal(t, t.Context(), tracer.Context(t.Context(), about), "something is remembered of it")
				})
			}
		}
	}
}

func TestSpanOfAHoldIsMadeOnRequest(t *testing.T) {
	events := told()["uncontended"]
	tracer, recorder := late(sdk.AlwaysSample())
	ctx, parent := sdk.NewTracerProvider().Tracer("test").Start(t.Context(), "job.run")
	for _, event := range events[:2] {
		tracer.Observe(ctx, event)
	}
	work := tracer.Context(ctx, events[1].Subject)
	require.Len(t, recorder.Started(), 1, "not asked for yet")

	hold := trace.SpanFromContext(work)
	require.True(t, hold.IsRecording())
	hold.AddEvent("of the work")
	require.Len(t, recorder.Started(), 2)
	require.Contains(t, lockguard.Traceparent(work), hold.SpanContext().SpanID().String())
	tracer.Observe(ctx, events[2])
	tracer.Flush()
	hold.AddEvent("too late")
	var ended sdk.ReadOnlySpan
	for _, s := range recorder.Ended() {
		if s.Name() == traces.SpanHold {
			require.Nil(t, ended, "two spans of one hold")
			ended = s
		}
	}
	require.Equal(t, hold.SpanContext(), ended.SpanContext())
	require.Equal(t, parent.SpanContext().SpanID(), ended.Parent().SpanID())
	require.Equal(t, events[1].At.UnixNano(), ended.StartTime().UnixNano())
	require.Equal(t, []string{"fence.issued", "of the work"}, eventNames(ended))
}

func eventNames(s sdk.ReadOnlySpan) []string { return slices.Sorted(slices.Values(events(s))) }

func TestHoldThatWasNeverGrantedHasNoSpan(t *testing.T) {
	about := lockguard.Subject{ID: "1", Scope: scope, At: time.Now()}
	tracer, recorder := late(sdk.AlwaysSample())
	tracer.Observe(t.Context(), lockguard.Event{Subject: about, Notice: lockguard.Waiting{Since: about.At}})
	work := tracer.Context(t.Context(), about)
	tracer.Observe(t.Context(), lockguard.Event{Subject: about, Notice: lockguard.NotAcquired{Err: errors.New("no")}})
	require.False(t, trace.SpanFromContext(work).SpanContext().IsValid())
	require.Empty(t, lockguard.Traceparent(work))
	require.Len(t, recorder.Started(), len(recorder.Ended()))
}

func TestSpansAreMadeAMomentLaterByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := tracetest.NewSpanRecorder()
		tracer := traces.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)), traces.WithDelay(100*time.Millisecond))
		for _, event := range told()["uncontended"] {
			tracer.Observe(context.Background(), event)
		}
		require.Empty(t, recorder.Ended(), "while somebody waits for it")
		time.Sleep(101 * time.Millisecond)
		synctest.Wait()
		require.Len(t, recorder.Ended(), 3)
	})
}
