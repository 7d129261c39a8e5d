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
	"github.com/lockkeeper/lockkeeper/recipes"
)

// late returns a tracer that makes its spans when it is told to.
func late(sampler sdk.Sampler) (tracer *traces.Tracer, recorder *tracetest.SpanRecorder) {
	recorder = tracetest.NewSpanRecorder()
	return traces.New(sdk.NewTracerProvider(sdk.WithSampler(sampler), sdk.WithSpanProcessor(recorder)), traces.WithDelay(time.Hour)), recorder
}

// told are stories of requests, each event a second after the other.
func told() map[string][]lockguard.Event {
	began := time.Unix(1_800_000_000, 0)
	at := func(second int) lockguard.Subject {
		return lockguard.Subject{ID: "1", Scope: scope, Owner: "compact", Token: 7, At: began.Add(time.Duration(second) * time.Second)}
	}
	waiting := lockguard.Waiting{Subject: at(0), Since: began}
	other := recipes.Contender{ID: "h", Owner: "billing", Terms: priority.Terms{Priority: 3}, Trace: parentOfAll}
	lost := &lockguard.LostError{Scope: scope, Reason: recipes.LossSession}
	return map[string][]lockguard.Event{
		"nobody else": {waiting, lockguard.Acquired{Subject: at(1)}, lockguard.Released{Subject: at(2), Took: time.Second}},
		"contended": {
			waiting,
			lockguard.Queued{Subject: at(1), Position: 2, Holders: []recipes.Contender{other}},
			lockguard.PreemptSent{Subject: at(2), Holder: other, Reason: priority.Outranked},
			lockguard.Acquired{Subject: at(3)},
			lockguard.Released{Subject: at(4)},
		},
		"preempted": {
			waiting,
			lockguard.Acquired{Subject: at(1)},
			lockguard.PreemptRequested{Subject: at(2), By: other, PreemptorTrace: parentOfAll},
			lockguard.CleanupStarted{Subject: at(3), Cause: &lockguard.PreemptedError{}, Since: at(2).At, Hooks: 1},
			lockguard.CleanupOverrun{Subject: at(4)},
			lockguard.CleanupDone{Subject: at(5)},
			lockguard.Released{Subject: at(6), Cause: &lockguard.PreemptedError{}, Since: at(2).At},
		},
		"refused":       {waiting, lockguard.Queued{Subject: at(1)}, lockguard.NotAcquired{Subject: at(2), Err: errors.New("no")}},
		"given to none": {waiting, lockguard.Acquired{Subject: at(1)}, lockguard.NotAcquired{Subject: at(2), Err: errors.New("no")}},
		"hooks after a loss": {
			waiting,
			lockguard.Acquired{Subject: at(1)},
			lockguard.Lost{Subject: at(2), Err: lost},
			lockguard.CleanupStarted{Subject: at(3), Cause: lost, Hooks: 1},
			lockguard.CleanupOverrun{Subject: at(4)},
			lockguard.CleanupDone{Subject: at(5), Err: errors.New("disk full")},
		},
		"hooks during a loss": {
			waiting,
			lockguard.Acquired{Subject: at(1)},
			lockguard.CleanupStarted{Subject: at(2), Hooks: 1},
			lockguard.Lost{Subject: at(3), Err: lost},
			lockguard.CleanupDone{Subject: at(4)},
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

func TestWhatIsToldLaterIsTheSame(t *testing.T) {
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
					about := events[0].About()
					require.Equal(t, t.Context(), tracer.Context(t.Context(), about), "something is remembered of it")
				})
			}
		}
	}
}

func TestSpanOfAHoldIsThereForWhoeverAsks(t *testing.T) {
	events := told()["nobody else"]
	tracer, recorder := late(sdk.AlwaysSample())
	ctx, parent := sdk.NewTracerProvider().Tracer("test").Start(t.Context(), "job.run")
	for _, event := range events[:2] {
		tracer.Observe(ctx, event)
	}
	work := tracer.Context(ctx, events[1].About())
	require.Len(t, recorder.Started(), 1, "nobody has asked yet")

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
	require.Equal(t, events[1].About().At.UnixNano(), ended.StartTime().UnixNano())
	require.Equal(t, []string{"fence.issued", "of the work"}, eventNames(ended))
}

func eventNames(s sdk.ReadOnlySpan) []string { return slices.Sorted(slices.Values(events(s))) }

func TestNothingIsAskedOfAHoldThatWasGivenToNobody(t *testing.T) {
	about := lockguard.Subject{ID: "1", Scope: scope, At: time.Now()}
	tracer, recorder := late(sdk.AlwaysSample())
	tracer.Observe(t.Context(), lockguard.Waiting{Subject: about, Since: about.At})
	work := tracer.Context(t.Context(), about)
	tracer.Observe(t.Context(), lockguard.NotAcquired{Subject: about, Err: errors.New("no")})
	require.False(t, trace.SpanFromContext(work).SpanContext().IsValid())
	require.Empty(t, lockguard.Traceparent(work))
	require.Len(t, recorder.Started(), len(recorder.Ended()))
}

func TestSpansAreMadeAMomentLaterByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := tracetest.NewSpanRecorder()
		tracer := traces.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)), traces.WithDelay(100*time.Millisecond))
		for _, event := range told()["nobody else"] {
			tracer.Observe(context.Background(), event)
		}
		require.Empty(t, recorder.Ended(), "while somebody waits for it")
		time.Sleep(101 * time.Millisecond)
		synctest.Wait()
		require.Len(t, recorder.Ended(), 3)
	})
}
