package metrics

import (
	"context"

	"go.opentelemetry.io/otel/metric"
)

// An Override is one that is in force.
type Override struct{ Kind, Source string }

// OverridesNow is what is known of operators' overrides at one moment.
type OverridesNow struct {
	Active      []Override
	FileOK      bool // what the overrides file says is in force
	ZooKeeperOK bool // what ZooKeeper has could be read and trusted
}

// Overrides makes the instruments of operators' overrides. kinds and sources are
// all that there can be, so that each has a series from the start. snapshot is
// called for each collection, from any goroutine.
func Overrides(meter metric.Meter, kinds, sources []string, snapshot func() OverridesNow) error {
	m := newMaker(meter)
	active, file, zookeeper := m.sum(overridesActive), m.gauge(overridesFileOK), m.gauge(overridesServerOK)
	_, err := m.observe(func(_ context.Context, o metric.Observer) error {
		now := snapshot()
		counts := make(map[Override]int64)
		for _, kind := range kinds {
			for _, source := range sources {
				counts[Override{kind, source}] = 0
			}
		}
		for _, a := range now.Active {
			counts[a]++
		}
		for a, n := range counts {
			o.ObserveInt64(active, n, metric.WithAttributes(overrideKind.String(a.Kind), overrideSource.String(a.Source)))
		}
		o.ObserveInt64(file, oneIf(now.FileOK))
		o.ObserveInt64(zookeeper, oneIf(now.ZooKeeperOK))
		return nil
	})
	return err
}

func oneIf(ok bool) int64 {
	if ok {
		return 1
	}
	return 0
}
