package metrics

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
)

// Scope is the name of the meter whose instruments are Lockkeeper's.
const Scope = "github.com/lockkeeper/lockkeeper/observability/metrics"

// An Endpoint is where Prometheus reads instruments, beside what is known of the
// process and of the Go runtime. It is safe for concurrent use.
type Endpoint struct {
	log      *slog.Logger
	registry *prometheus.Registry
	provider *sdk.MeterProvider
	zeros    *Zeros
}

// New returns an endpoint without instruments. A scrape that fails is logged;
// logger defaults to silence. more are for the meter provider: a reader that exports the
// same elsewhere, and the resource that it tells. Close ends such readers as well.
func New(logger *slog.Logger, more ...sdk.Option) (*Endpoint, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	registry, zeros := prometheus.NewRegistry(), &Zeros{}
	exporter, err := otelprometheus.New(
		otelprometheus.WithRegisterer(registry),
		otelprometheus.WithProducer(zeros),
		// the default depends on a variable of another package
		otelprometheus.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes),
		otelprometheus.WithoutScopeInfo(),
		otelprometheus.WithoutTargetInfo(),
	)
	if err != nil {
		return nil, err
	}
	process := collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})
	if err := errors.Join(registry.Register(collectors.NewGoCollector()), registry.Register(process)); err != nil {
		return nil, err
	}
	provider := sdk.NewMeterProvider(append([]sdk.Option{
		sdk.WithReader(exporter),
		sdk.WithResource(resource.Empty()), // Prometheus knows its targets
		sdk.WithCardinalityLimit(0),        // we have limits of our own, which keep counters whole
	}, more...)...)
	return &Endpoint{log: logger, registry: registry, provider: provider, zeros: zeros}, nil
}

// Meter returns the meter for Jobs, Clock, Reloads and Build.
func (e *Endpoint) Meter() metric.Meter { return e.provider.Meter(Scope) }

// MeterProvider returns what makes meters for instruments of other packages.
func (e *Endpoint) MeterProvider() metric.MeterProvider { return e.provider }

// Show has the histograms of declared classes there before anything has happened,
// with a count of 0: their rate is right from the first request on. Readers that New was
// given need [Zeros] of their own for that. Locks with a delay (see WithDelay) are
// flushed for each scrape, and by Close.
func (e *Endpoint) Show(l *Locks) { e.zeros.Show(l) }

// maxScrapes bounds the scrapes that go on at the same time; a further one is
// answered with status 503.
const maxScrapes = 8

// Handler returns what answers a scrape: in the text format of Prometheus, or in
// OpenMetrics for those who ask for it.
func (e *Endpoint) Handler() http.Handler {
	scrape := promhttp.HandlerFor(e.registry, promhttp.HandlerOpts{
		EnableOpenMetrics:   true, // the other format has no exemplars
		ErrorLog:            slog.NewLogLogger(e.log.Handler(), slog.LevelError),
		MaxRequestsInFlight: maxScrapes,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.zeros.flush()
		scrape.ServeHTTP(w, r)
	})
}

// Close ends the instruments: no snapshot is taken any more.
func (e *Endpoint) Close(ctx context.Context) error {
	e.zeros.flush()
	return e.provider.Shutdown(ctx)
}
