package main

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/traces"
	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// groupSpans are the spans group.hold of a participant: one for each lock that it
// holds, from the grant until the lock is to be released or is lost. They are below the
// span of the program, and what its commands do is below them.
type groupSpans struct {
	root        trace.SpanContext
	tracer      trace.Tracer
	group, name string

	mu   sync.Mutex
	open map[string]trace.Span // by lock
}

func newGroupSpans(ctx context.Context, exports *telemetry, group, name string) *groupSpans {
	return &groupSpans{
		root: trace.SpanContextFromContext(ctx), tracer: exports.provider.Tracer(traces.Scope),
		group: group, name: name, open: make(map[string]trace.Span),
	}
}

// begin returns the context of a hold with its span.
func (s *groupSpans) begin(ctx context.Context, grant group.LockGrant) context.Context {
	ctx, span := s.tracer.Start(trace.ContextWithSpanContext(ctx, s.root), "group.hold", trace.WithAttributes(
		attribute.String("lockkeeper.group", s.group), attribute.String("lockkeeper.group.lock", grant.Lock),
		attribute.String("lockkeeper.owner", s.name), attribute.String("lockkeeper.token", grant.Token.String())))
	s.mu.Lock()
	s.open[grant.Lock] = span
	s.mu.Unlock()
	if !span.SpanContext().IsValid() {
		return ctx
	}
	return lockguard.WithTraceparent(ctx, func() string {
		carrier := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, carrier)
		return carrier["traceparent"]
	})
}

// end ends the span of a lock that is held no longer, for a reason. To give a lock
// to others is what a group is for, and no error.
func (s *groupSpans) end(name string, cause error) {
	s.mu.Lock()
	span := s.open[name]
	delete(s.open, name)
	s.mu.Unlock()
	if span == nil {
		return
	}
	how := lockguard.EndReleased
	if lost, ok := errors.AsType[*lock.LostError](cause); ok {
		how = lockguard.Lost{Err: lost}.End()
		span.SetAttributes(attribute.String("error.type", "lock_lost"))
		span.SetStatus(codes.Error, "the lock is lost")
	}
	span.SetAttributes(attribute.String("lockkeeper.end", string(how)))
	span.End()
}
