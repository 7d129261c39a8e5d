package otlp

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	logs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	spans "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
)

// A Receiver is a collector of traces, metrics and logs. It is safe for concurrent use.
type Receiver struct {
	addr   string
	server *grpc.Server

	mu      sync.Mutex
	spans   []Span
	logs    []Record
	metrics map[string][]Point // of histograms, as they arrived last
	text    strings.Builder
}

// A Span is one that has arrived.
type Span struct {
	Trace, ID, Parent string // in hex; Parent is "" for a root
	Name              string
	Instance          string // service.instance.id of its process
	Service           string // service.name
	Begin, End        time.Time
	Attributes        map[string]string
	Events            []Event
	Links             []Link
	Failed            bool
}

// A Link leads to another span.
type Link struct{ Trace, ID, Role string }

// An Event is something that happened in a span.
type Event struct {
	Name       string
	Attributes map[string]string
}

// A Record is a line of a log.
type Record struct {
	Body, Trace, Span, Instance string
	Attributes                  map[string]string
}

// A Point is a series of a histogram.
type Point struct {
	Attributes map[string]string
	Count      uint64
}

// Start starts a receiver on a free port, for the duration of the test.
func Start(t testing.TB) *Receiver {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Receiver{addr: listener.Addr().String(), server: grpc.NewServer(), metrics: make(map[string][]Point)}
	spans.RegisterTraceServiceServer(r.server, traceService{receiver: r})
	logs.RegisterLogsServiceServer(r.server, logService{receiver: r})
	metrics.RegisterMetricsServiceServer(r.server, metricService{receiver: r})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = r.server.Serve(listener)
	}()
	t.Cleanup(func() {
		r.server.Stop()
		<-served
	})
	return r
}

// Env makes a program export to the receiver, soon.
func (r *Receiver) Env() []string {
	return []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + r.addr, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
		"OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_BLRP_SCHEDULE_DELAY=50", "OTEL_METRIC_EXPORT_INTERVAL=200",
	}
}

// Spans returns all that have arrived, in that order.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Span(nil), r.spans...)
}

// Records returns all lines of logs that have arrived.
func (r *Receiver) Records() []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Record(nil), r.logs...)
}

// HasMetric reports whether an instrument has arrived.
func (r *Receiver) HasMetric(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, arrived := r.metrics[name]
	return arrived
}

// Recorded returns how many values a histogram had that has arrived, in all of its
// series, when it arrived last.
func (r *Receiver) Recorded(name string) (n uint64) {
	for _, p := range r.Points(name) {
		n += p.Count
	}
	return n
}

// Points returns the series of a histogram, as they arrived last.
func (r *Receiver) Points(name string) []Point {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Point(nil), r.metrics[name]...)
}

// Text returns all that has arrived, whatever it is, as JSON.
func (r *Receiver) Text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// Await waits for a span that is like this, and returns it.
func (r *Receiver) Await(t testing.TB, what string, like func(Span) bool) (found Span) {
	t.Helper()
	t.Cleanup(func() {
		for _, s := range r.Spans() {
			if t.Failed() {
				t.Logf("span %s of %s", s.Name, s.Attributes["lockkeeper.owner"])
			}
		}
	})
	harness.Eventually(t, func() bool {
		all := r.Spans()
		i := slices.IndexFunc(all, like)
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	}, "the span %s has arrived", what)
	return found
}

func (r *Receiver) note(message proto.Message) {
	r.text.WriteString(protojson.Format(message))
	r.text.WriteByte('\n')
}

type traceService struct {
	spans.UnimplementedTraceServiceServer

	receiver *Receiver
}

// Export takes spans.
func (s traceService) Export(
	_ context.Context, in *spans.ExportTraceServiceRequest,
) (*spans.ExportTraceServiceResponse, error) {
	r := s.receiver
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(in)
	for _, resource := range in.GetResourceSpans() {
		from := read(resource.GetResource().GetAttributes())
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				r.spans = append(r.spans, readSpan(span, from))
			}
		}
	}
	return &spans.ExportTraceServiceResponse{}, nil
}

func readSpan(in *trace.Span, from map[string]string) Span {
	s := Span{
		Trace: hex.EncodeToString(in.GetTraceId()), ID: hex.EncodeToString(in.GetSpanId()),
		Parent: hex.EncodeToString(in.GetParentSpanId()),
		Name:   in.GetName(), Instance: from["service.instance.id"], Service: from["service.name"],
		Begin: time.Unix(0, int64(in.GetStartTimeUnixNano())), End: time.Unix(0, int64(in.GetEndTimeUnixNano())),
		Attributes: read(in.GetAttributes()), Failed: in.GetStatus().GetCode() == trace.Status_STATUS_CODE_ERROR,
	}
	for _, e := range in.GetEvents() {
		s.Events = append(s.Events, Event{Name: e.GetName(), Attributes: read(e.GetAttributes())})
	}
	for _, l := range in.GetLinks() {
		s.Links = append(s.Links, Link{
			Trace: hex.EncodeToString(l.GetTraceId()), ID: hex.EncodeToString(l.GetSpanId()),
			Role: read(l.GetAttributes())["lockkeeper.link.role"],
		})
	}
	return s
}

type logService struct {
	logs.UnimplementedLogsServiceServer

	receiver *Receiver
}

// Export takes lines of logs.
func (s logService) Export(
	_ context.Context, in *logs.ExportLogsServiceRequest,
) (*logs.ExportLogsServiceResponse, error) {
	r := s.receiver
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(in)
	for _, resource := range in.GetResourceLogs() {
		from := read(resource.GetResource().GetAttributes())
		for _, scope := range resource.GetScopeLogs() {
			for _, line := range scope.GetLogRecords() {
				r.logs = append(r.logs, Record{
					Body: line.GetBody().GetStringValue(), Instance: from["service.instance.id"],
					Attributes: read(line.GetAttributes()),
					Trace:      hex.EncodeToString(line.GetTraceId()), Span: hex.EncodeToString(line.GetSpanId()),
				})
			}
		}
	}
	return &logs.ExportLogsServiceResponse{}, nil
}

type metricService struct {
	metrics.UnimplementedMetricsServiceServer

	receiver *Receiver
}

// Export takes metrics.
func (s metricService) Export(
	_ context.Context, in *metrics.ExportMetricsServiceRequest,
) (*metrics.ExportMetricsServiceResponse, error) {
	r := s.receiver
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(in)
	for _, resource := range in.GetResourceMetrics() {
		arrived := make(map[string][]Point)
		for _, scope := range resource.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				all := arrived[m.GetName()]
				for _, point := range m.GetHistogram().GetDataPoints() {
					all = append(all, Point{read(point.GetAttributes()), point.GetCount()})
				}
				arrived[m.GetName()] = all
			}
		}
		maps.Copy(r.metrics, arrived)
	}
	return &metrics.ExportMetricsServiceResponse{}, nil
}

func read(attributes []*common.KeyValue) map[string]string {
	all := make(map[string]string, len(attributes))
	for _, a := range attributes {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			all[a.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			all[a.GetKey()] = fmt.Sprint(v.IntValue)
		case *common.AnyValue_BoolValue:
			all[a.GetKey()] = fmt.Sprint(v.BoolValue)
		case *common.AnyValue_DoubleValue:
			all[a.GetKey()] = fmt.Sprint(v.DoubleValue)
		default:
			all[a.GetKey()] = a.GetValue().String()
		}
	}
	return all
}
