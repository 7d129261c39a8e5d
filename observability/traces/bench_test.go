package traces_test

import (
	"context"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/traces"
	"github.com/lockkeeper/lockkeeper/priority"
)

// discard drops what is exported.
type discard struct{}

func (discard) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { return nil }
func (discard) Shutdown(context.Context) error                        { return nil }

// BenchmarkCycle measures the cost of the events of an uncontended lock.
func BenchmarkCycle(b *testing.B) {
	for name, sampler := range map[string]sdk.Sampler{"unsampled": sdk.NeverSample(), "sampled": sdk.AlwaysSample()} {
		b.Run(name, func(b *testing.B) {
			provider := sdk.NewTracerProvider(sdk.WithBatcher(discard{}), sdk.WithSampler(sampler))
			b.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
			tracer := traces.New(provider)
			ctx, about := b.Context(), lockguard.Subject{ID: "1", Scope: scope, Identity: priority.Identity{Class: scope, Owner: "compact", Message: "nightly"}, Token: 7, At: time.Now()}
			b.ReportAllocs()
			for b.Loop() {
				tracer.Observe(ctx, lockguard.Event{Subject: about, Notice: lockguard.Waiting{Since: about.At}})
				tracer.Traceparent(ctx, about)
				tracer.Observe(ctx, lockguard.Event{Subject: about, Notice: lockguard.Acquired{}})
				_ = trace.SpanFromContext(tracer.Context(ctx, about))
				tracer.Observe(ctx, lockguard.Event{Subject: about, Notice: lockguard.Released{}})
			}
		})
	}
}
