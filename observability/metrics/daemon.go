package metrics

import (
	"context"
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
	m := newMaker(meter)
	ok, generation, at := m.gauge(lastReloadOK), m.gauge(configGeneration), m.seconds(lastReloadTime)
	_, err := m.observe(func(_ context.Context, o metric.Observer) error {
		last := snapshot()
		o.ObserveInt64(ok, oneIf(last.OK))
		o.ObserveInt64(generation, int64(last.Generation))
		o.ObserveFloat64(at, float64(last.At.UnixMilli())/1000)
		return nil
	})
	return err
}

// Clock makes the instruments of the clock. Both functions are called for each
// collection, from any goroutine. ahead is how far the machine's clock is ahead of
// ZooKeeper's, unless that is not known.
func Clock(meter metric.Meter, steps func() uint64, ahead func() (by time.Duration, ok bool)) error {
	m := newMaker(meter)
	counter, gauge := m.observedCounter(clockSteps), m.seconds(clockOffset)
	_, err := m.observe(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(counter, int64(steps()))
		if by, ok := ahead(); ok {
			o.ObserveFloat64(gauge, by.Seconds())
		}
		return nil
	})
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
	m := newMaker(meter)
	info := m.gauge(buildInfo)
	_, err := m.observe(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(info, 1, metric.WithAttributeSet(set))
		return nil
	})
	return err
}
