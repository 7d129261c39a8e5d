package traces

import (
	"context"
	"encoding/hex"
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

// write writes a traceparent of version 00. The propagator of OpenTelemetry does the
// same, with a map.
func write(sc trace.SpanContext) string {
	var b [len("00-") + 32 + len("-") + 16 + len("-00")]byte
	id, span := sc.TraceID(), sc.SpanID()
	copy(b[:], "00-")
	hex.Encode(b[3:], id[:])
	b[35] = '-'
	hex.Encode(b[36:], span[:])
	copy(b[52:], "-00")
	if sc.IsSampled() {
		b[54] = '1'
	}
	return string(b[:])
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
