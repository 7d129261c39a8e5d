package traces

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// A holding is the span of a hold that starts, at the time of the grant, when somebody
// asks for it: most work never does.
type holding struct {
	embedded.Span
	tracer *Tracer
	life   *life
	ctx    context.Context
	about  lockguard.Subject
}

var _ trace.Span = (*holding)(nil)

func (h *holding) real() trace.Span {
	h.life.mu.Lock()
	defer h.life.mu.Unlock()
	h.tracer.settleLocked(h.life)
	if h.life.hold == nil && h.life.over { // it was never granted
		return trace.SpanFromContext(context.Background())
	}
	h.tracer.holdLocked(h.ctx, h.life, h.about, trace.WithTimestamp(h.about.At))
	return h.life.hold
}

func (h *holding) AddEvent(name string, o ...trace.EventOption)  { h.real().AddEvent(name, o...) }
func (h *holding) AddLink(link trace.Link)                       { h.real().AddLink(link) }
func (h *holding) End(o ...trace.SpanEndOption)                  { h.real().End(o...) }
func (h *holding) IsRecording() bool                             { return h.real().IsRecording() }
func (h *holding) RecordError(err error, o ...trace.EventOption) { h.real().RecordError(err, o...) }
func (h *holding) SetAttributes(all ...attribute)                { h.real().SetAttributes(all...) }
func (h *holding) SetName(name string)                           { h.real().SetName(name) }
func (h *holding) SetStatus(code codes.Code, description string) {
	h.real().SetStatus(code, description)
}
func (h *holding) SpanContext() trace.SpanContext       { return h.real().SpanContext() }
func (h *holding) TracerProvider() trace.TracerProvider { return h.real().TracerProvider() }
