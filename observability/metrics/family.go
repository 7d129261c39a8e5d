package metrics

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// A family is the series of an instrument, by the values of their attributes. Those
// are bounded, so that each set is made once.
type family struct {
	keys []attribute.Key

	mu   sync.RWMutex
	sets map[values]metric.MeasurementOption
}

// values are those of the keys of a family, in their order.
type values [4]string

func newFamily(keys ...attribute.Key) *family {
	return &family{keys: keys, sets: make(map[values]metric.MeasurementOption)}
}

// of returns the attributes of a series.
func (f *family) of(v values) metric.MeasurementOption {
	f.mu.RLock()
	set, ok := f.sets[v]
	f.mu.RUnlock()
	if ok {
		return set
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if set, ok := f.sets[v]; ok {
		return set
	}
	set = metric.WithAttributeSet(f.set(v))
	f.sets[v] = set
	return set
}

// has reports whether a series was ever asked for.
func (f *family) has(v values) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.sets[v] != nil
}

func (f *family) set(v values) attribute.Set {
	all := make([]attribute.KeyValue, len(f.keys))
	for i, key := range f.keys {
		all[i] = key.String(v[i])
	}
	return attribute.NewSet(all...)
}
