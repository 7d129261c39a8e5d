package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/lockkeeper/lockkeeper/observability/metrics"
	"github.com/lockkeeper/lockkeeper/observability/traces"
)

const (
	// flushTimeout is how long the end of the program waits for a collector.
	flushTimeout = time.Second

	// exportEvery is how soon what has ended is exported, unless the environment
	// says otherwise: others link to a wait from the moment of the grant on, and a
	// process that is killed has exported it by then or never will.
	exportEvery = time.Second

	// telemetryDelay is how much later spans are made and events counted than they
	// happen: not while a request waits for a lock.
	telemetryDelay = 100 * time.Millisecond

	// progressEvery is how often a hold that lasts is logged.
	progressEvery = 5 * time.Minute
)

// A telemetry is what the program exports. The environment of OpenTelemetry says
// what, and where to; without it nothing is.
type telemetry struct {
	provider trace.TracerProvider // a no-op, unless traces are asked for
	on       bool                 // traces are asked for
	tracers  []*traces.Tracer     // that make them
	readers  []sdkmetric.Reader   // that export metrics, of resource
	zeros    metrics.Zeros        // that are exported with them
	resource *resource.Resource
	logs     bool // logs are asked for
	ends     []func(context.Context) error
}

// telemetry reads the environment. What is wrong with it is said, and is no reason
// not to work. From here on loggers export as well.
func (p *program) telemetry(ctx context.Context) *telemetry {
	t := &telemetry{provider: noop.NewTracerProvider(), resource: thisResource(ctx)}
	otel.SetErrorHandler(p.exportErrors())
	p.problem(t.addTraces(ctx))
	p.problem(t.addMetrics(ctx))
	p.problem(p.addLogs(ctx, t))
	return t
}

func (p *program) problem(err error) {
	if err != nil {
		p.say("telemetry: %v", err)
	}
}

// exportErrors gets the errors of exports. The log has it once a minute,
// and is not exported itself.
func (p *program) exportErrors() otel.ErrorHandler {
	own := p.logging // as it is before logs are exported: an exporter may call while that is set up
	own.export = nil
	var mu sync.Mutex
	var last time.Time
	return otel.ErrorHandlerFunc(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if !own.on() || time.Since(last) < time.Minute {
			return
		}
		last = time.Now()
		own.logger(p.stderr, slog.LevelInfo, "text").Warn("telemetry is not exported", "error", err)
	})
}

// tracer returns what makes spans, and tells of holds that last. It works without an
// exporter as well.
func (t *telemetry) tracer(logger *slog.Logger) *traces.Tracer {
	tracer := traces.New(t.provider, traces.WithProgress(logger, progressEvery), traces.WithDelay(telemetryDelay))
	t.tracers = append(t.tracers, tracer)
	return tracer
}

// end exports what is left, within its time, whatever the collector does.
func (t *telemetry) end() {
	if len(t.ends) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	var ending sync.WaitGroup
	for _, end := range t.ends {
		ending.Go(func() { _ = end(ctx) })
	}
	done := make(chan struct{})
	go func() {
		ending.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done(): // also if somebody does not look at it
	}
}

// thisResource says which program this is: lockkeeper, with the name by which its
// requests are known in ZooKeeper, unless the environment says otherwise.
func thisResource(ctx context.Context) *resource.Resource {
	own := []attribute.KeyValue{
		attribute.String("service.name", "lockkeeper"),
		attribute.String("service.version", buildVersion().Version),
		attribute.String("service.instance.id", thisProcess()),
	}
	r, err := resource.New(ctx, resource.WithAttributes(own...), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil { // of OTEL_RESOURCE_ATTRIBUTES; the rest is there
		otel.Handle(err)
	}
	return r
}

// thisProcess is host:pid, as the nodes of requests have it.
func thisProcess() string {
	host, err := os.Hostname()
	return fmt.Sprintf("%s:%d", cmp.Or(host, "unknown", fmt.Sprint(err)), os.Getpid())
}

// isAsked reports whether the environment asks for the export of a signal.
func isAsked(signal string) bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	switch exporter := os.Getenv("OTEL_" + signal + "_EXPORTER"); exporter {
	case "none":
		return false
	case "":
		return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")+os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
	}
	return true
}

func (t *telemetry) addTraces(ctx context.Context) error {
	if !isAsked("TRACES") {
		return nil
	}
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return fmt.Errorf("traces are not exported: %w", err)
	}
	var options []sdktrace.BatchSpanProcessorOption
	if os.Getenv("OTEL_BSP_SCHEDULE_DELAY") == "" {
		options = append(options, sdktrace.WithBatchTimeout(exportEvery))
	}
	sampler, err := samplerOf(os.Getenv("OTEL_TRACES_SAMPLER"), os.Getenv("OTEL_TRACES_SAMPLER_ARG"))
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(t.resource), sdktrace.WithBatcher(exporter, options...),
		sdktrace.WithSampler(sampler))
	t.provider, t.on = provider, true
	t.ends = append(t.ends, func(ctx context.Context) error {
		for _, tracer := range t.tracers {
			tracer.Flush()
		}
		return provider.Shutdown(ctx)
	})
	return err
}

// addMetrics makes what exports the metrics of an endpoint, which ends it.
func (t *telemetry) addMetrics(ctx context.Context) error {
	switch {
	case !isAsked("METRICS"):
		return nil
	case os.Getenv("OTEL_METRICS_EXPORTER") == "prometheus":
		return errors.New(
			`OTEL_METRICS_EXPORTER=prometheus: Prometheus finds metrics where metrics: {listen: "127.0.0.1:9464"} says, in the file of the daemon`)
	}
	zeros := &t.zeros
	if !isCumulative(os.Getenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE")) {
		zeros = new(metrics.Zeros) // none
	}
	autoexport.WithFallbackMetricProducer(func(context.Context) (sdkmetric.Producer, error) { return zeros, nil })
	reader, err := autoexport.NewMetricReader(ctx)
	if err != nil {
		return fmt.Errorf("metrics are not exported: %w", err)
	}
	t.readers = append(t.readers, reader)
	return nil
}

// isCumulative reports whether histograms are exported as what they have counted since
// the start. Who gets differences misses nothing that began without a zero.
func isCumulative(preference string) bool {
	switch strings.ToLower(preference) {
	case "delta", "lowmemory":
		return false
	}
	return true
}

// metering is what an endpoint needs to export its metrics, see metrics.New; nothing
// when the environment does not ask for that.
func (t *telemetry) metering() []sdkmetric.Option {
	if len(t.readers) == 0 {
		return nil
	}
	options := []sdkmetric.Option{sdkmetric.WithResource(t.resource)}
	for _, reader := range t.readers {
		options = append(options, sdkmetric.WithReader(reader))
	}
	return options
}

func (p *program) addLogs(ctx context.Context, t *telemetry) error {
	if !isAsked("LOGS") {
		return nil
	}
	exporter, err := autoexport.NewLogExporter(ctx)
	if err != nil {
		return fmt.Errorf("logs are not exported: %w", err)
	}
	var options []sdklog.BatchProcessorOption
	if os.Getenv("OTEL_BLRP_SCHEDULE_DELAY") == "" {
		options = append(options, sdklog.WithExportInterval(exportEvery))
	}
	provider := sdklog.NewLoggerProvider(sdklog.WithResource(t.resource),
		sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter, options...)))
	t.logs = true
	t.ends = append(t.ends, provider.Shutdown)
	p.logging.export = unitKeys{otelslog.NewHandler("github.com/lockkeeper/lockkeeper/cmd/lockkeeper",
		otelslog.WithLoggerProvider(provider))}
	return nil
}
