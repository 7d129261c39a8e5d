package traces

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

func TestTraceparentIsWrittenAsThePropagatorWritesIt(t *testing.T) {
	for _, flags := range []trace.TraceFlags{0, trace.FlagsSampled} {
		sc := trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{1, 0xab, 15: 0xff}, SpanID: trace.SpanID{2, 0xcd, 7: 0xee}, TraceFlags: flags,
		})
		carrier := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), sc), carrier)
		require.Equal(t, carrier["traceparent"], write(sc))
	}
}
