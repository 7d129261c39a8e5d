package metrics

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

// blanks are series of histograms in which there is nothing yet.
type blanks struct {
	mu    sync.Mutex
	locks []*Locks
}

var _ sdk.Producer = (*blanks)(nil)

func (b *blanks) add(l *Locks) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.locks = append(b.locks, l)
}

// flush counts what the locks have put off.
func (b *blanks) flush() {
	b.mu.Lock()
	locks := slices.Clone(b.locks)
	b.mu.Unlock()
	for _, l := range locks {
		l.Flush()
	}
}

// Produce is called after the instruments have been read: what is recorded meanwhile
// is not there twice, but not at all this once.
func (b *blanks) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []metricdata.Metrics
	for _, l := range b.locks {
		all = append(all, l.blank()...)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return []metricdata.ScopeMetrics{{Scope: instrumentation.Scope{Name: Scope}, Metrics: all}}, nil
}

// blank returns what every declared class will have once a request was granted and
// released: the series that everybody looks at, in exclusive mode.
func (l *Locks) blank() []metricdata.Metrics {
	l.mu.Lock()
	sources := slices.Clone(l.sources)
	l.mu.Unlock()
	waits := metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality}
	holds := waits
	mode := priority.Exclusive.String()
	for _, class := range l.classes.promised() {
		for _, from := range sources {
			waits.DataPoints = l.waits.blank(waits.DataPoints, waitBuckets, values{class, mode, string(lockguard.OutcomeAcquired), string(from)})
			holds.DataPoints = l.holds.blank(holds.DataPoints, holdBuckets, values{class, mode, string(lockguard.EndReleased), string(from)})
		}
	}
	var all []metricdata.Metrics
	for _, i := range Instruments() {
		for _, h := range []struct {
			name string
			data metricdata.Histogram[float64]
		}{{waitDuration, waits}, {holdDuration, holds}} {
			if i.Name == h.name && len(h.data.DataPoints) > 0 {
				all = append(all, metricdata.Metrics{Name: i.Name, Description: i.Description, Unit: i.Unit, Data: h.data})
			}
		}
	}
	return all
}

// blank adds a series without anything in it, unless there is something.
func (f *family) blank(to []metricdata.HistogramDataPoint[float64], bounds []float64, v values) []metricdata.HistogramDataPoint[float64] {
	if f.has(v) {
		return to
	}
	now := time.Now()
	return append(to, metricdata.HistogramDataPoint[float64]{
		Attributes: f.set(v), StartTime: now, Time: now, Bounds: bounds, BucketCounts: make([]uint64, len(bounds)+1),
	})
}
