package traces

import (
	"context"
	"slices"

	otel "go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// maxTraceparent bounds what is read of another process: a traceparent of a later
// version may be longer than today's 55 bytes, none is as long as this.
const maxTraceparent = 256

// parse reads what came through ZooKeeper. What is not sampled leads nowhere.
func (t *Tracer) parse(traceparent string) (trace.SpanContext, bool) {
	if traceparent == "" || len(traceparent) > maxTraceparent {
		return trace.SpanContext{}, false
	}
	ctx := t.propagator.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent})
	sc := trace.SpanContextFromContext(ctx)
	return sc, sc.IsValid() && sc.IsSampled()
}

func (t *Tracer) write(sc trace.SpanContext) string {
	carrier := propagation.MapCarrier{}
	t.propagator.Inject(trace.ContextWithSpanContext(context.Background(), sc), carrier)
	return carrier["traceparent"]
}

// linkLocked makes a link, unless there are enough in this role.
func (t *Tracer) linkLocked(l *life, traceparent, role string, attributes ...attribute) (trace.Link, bool) {
	sc, ok := t.parse(traceparent)
	if !ok || l.links[role] >= MaxLinks {
		return trace.Link{}, false
	}
	if l.links == nil {
		l.links = make(map[string]int)
	}
	l.links[role]++
	return linkTo(sc, role, attributes...), true
}

func (t *Tracer) link(l *life, from trace.Span, traceparent, role string, attributes ...attribute) {
	if link, ok := t.linkLocked(l, traceparent, role, attributes...); ok {
		from.AddLink(link)
	}
}

func linkTo(sc trace.SpanContext, role string, attributes ...otel.KeyValue) trace.Link {
	return trace.Link{SpanContext: sc, Attributes: append(slices.Clip(attributes), LinkRole.String(role))}
}
