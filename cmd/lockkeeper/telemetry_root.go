package main

import (
	"context"
	"os"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"

	"github.com/lockkeeper/lockkeeper/observability/traces"
)

// root starts the span of a command of this program, below that of its caller if
// the environment has one: TRACEPARENT. It has the name of the command alone, not
// its arguments. ended is called with the exit code.
func (t *telemetry) root(ctx context.Context, command, runs string) (_ context.Context, ended func(code int)) {
	if !t.on {
		return ctx, func(int) {}
	}
	carrier := propagation.MapCarrier{"traceparent": os.Getenv("TRACEPARENT"), "tracestate": os.Getenv("TRACESTATE")}
	ctx = propagation.TraceContext{}.Extract(ctx, carrier)
	ctx, span := t.provider.Tracer(traces.Scope).Start(ctx, "lockkeeper."+command)
	if runs != "" {
		span.SetAttributes(attribute.String("process.executable.name", runs))
	}
	return ctx, func(code int) {
		span.SetAttributes(attribute.Int("process.exit.code", code))
		if code != 0 && code != exitPreempted {
			span.SetStatus(codes.Error, "exit code not 0")
		}
		span.End()
	}
}
