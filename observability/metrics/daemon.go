package metrics

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// A Reload is what became of the last change of the configuration.
type Reload struct {
	At         time.Time // when it was read
	Generation int       // counts the configurations that were in force; the first is 1
	OK         bool      // what the file says is in force
}

// Reloads makes the instruments of the configuration. snapshot is called for
// each collection, from any goroutine. An error says which instrument the meter
// refuses.
func Reloads(meter metric.Meter, snapshot func() Reload) error {
	ok, errOK := meter.Int64ObservableGauge("lockkeeper.config.last_reload_ok",
		metric.WithDescription("1 when what the configuration file says is in force, 0 when the file was refused."))
	generation, errGeneration := meter.Int64ObservableGauge("lockkeeper.config.generation",
		metric.WithDescription("How many configurations were in force since the start, the present one included."))
	at, errAt := meter.Float64ObservableGauge("lockkeeper.config.last_reload_time", metric.WithUnit("s"),
		metric.WithDescription("When the configuration file was read last, whether it was refused or not, in seconds since 1970."))
	if err := errors.Join(errOK, errGeneration, errAt); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		last := snapshot()
		o.ObserveInt64(ok, oneIf(last.OK))
		o.ObserveInt64(generation, int64(last.Generation))
		o.ObserveFloat64(at, float64(last.At.UnixMilli())/1000)
		return nil
	}, ok, generation, at)
	return err
}

// Clock makes the instrument of the clock. steps is called for each collection,
// from any goroutine.
func Clock(meter metric.Meter, steps func() uint64) error {
	_, err := meter.Int64ObservableCounter("lockkeeper.clock.steps", metric.WithUnit("{step}"),
		metric.WithDescription("How often the clock has jumped, or the machine was suspended."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(steps()))
			return nil
		}))
	return err
}

// A Version is what is known of a build. What is empty is not shown.
type Version struct{ Commit, Go, Version string }

// Build makes an instrument that is always 1 and has the version in its
// attributes.
func Build(meter metric.Meter, v Version) error {
	var attributes []attribute.KeyValue
	for key, value := range map[attribute.Key]string{"commit": v.Commit, "go.version": v.Go, "version": v.Version} {
		if value != "" {
			attributes = append(attributes, key.String(value))
		}
	}
	set := attribute.NewSet(attributes...)
	_, err := meter.Int64ObservableGauge("lockkeeper.build.info",
		metric.WithDescription("Always 1; the labels say which version this is."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(1, metric.WithAttributeSet(set))
			return nil
		}))
	return err
}
