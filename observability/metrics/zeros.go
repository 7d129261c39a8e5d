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

// Zeros are series of histograms in which there is nothing yet, for a reader of a meter
// provider (sdk/metric.WithProducer): with them a rate is right from the first request
// on, and not only from the second. They are for readers with cumulative temporality;
// others need none. An Endpoint has its own, see Endpoint.Show. Zeros are safe for
// concurrent use, and the zero value has none.
type Zeros struct {
	mu    sync.Mutex
	locks []*Locks
}

var _ sdk.Producer = (*Zeros)(nil)

// Show has the series of the declared classes of some locks there.
func (z *Zeros) Show(l *Locks) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.locks = append(z.locks, l)
}

// Produce returns them. It is called after the instruments have been read: a series to
// which something is recorded meanwhile is not there twice, but not at all this once.
func (z *Zeros) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	var all []metricdata.Metrics
	for _, l := range z.locks {
		all = append(all, l.blank()...)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return []metricdata.ScopeMetrics{{Scope: instrumentation.Scope{Name: Scope}, Metrics: all}}, nil
}

// flush counts what the locks have put off.
func (z *Zeros) flush() {
	z.mu.Lock()
	locks := slices.Clone(z.locks)
	z.mu.Unlock()
	for _, l := range locks {
		l.Flush()
	}
}

// mostWhole is of how many classes all series are there from the start: those of one
// have some hundred lines in a scrape. Of further classes those are there that every
// request ends in.
const mostWhole = 50

// blank returns the series of declared classes in which there is nothing: of every way
// in which a request, a hold, a preemption and a cleanup can end, in the modes in which
// the class is used.
func (l *Locks) blank() []metricdata.Metrics {
	l.mu.Lock()
	sources := slices.Clone(l.sources)
	l.mu.Unlock()
	b := &blanks{since: l.since, now: time.Now(), points: make(map[string][]metricdata.HistogramDataPoint[float64])}
	for n, class := range l.classes.promised() {
		outcomes, ends := lockguard.Outcomes(), lockguard.Ends()
		if n >= mostWhole {
			outcomes, ends = []lockguard.Outcome{lockguard.OutcomeAcquired}, []lockguard.End{lockguard.EndReleased}
		}
		for _, mode := range l.classes.modes(class) {
			for _, from := range sources {
				for _, how := range outcomes {
					b.add(waitDuration, l.waits, values{class, mode.String(), string(how), string(from)})
				}
				for _, how := range ends {
					b.add(holdDuration, l.holds, values{class, mode.String(), string(how), string(from)})
				}
			}
		}
		if n >= mostWhole || len(sources) == 0 {
			continue
		}
		for _, how := range preemptionResults() {
			b.add(preemptionDuration, l.preemptions, values{class, how})
		}
		for _, how := range cleanupResults() {
			b.add(cleanupDuration, l.cleanups, values{class, how})
		}
	}
	return b.metrics()
}

// blanks are points without anything in them, by the names of their instruments.
type blanks struct {
	since, now time.Time
	points     map[string][]metricdata.HistogramDataPoint[float64]
}

// add adds a series, unless there is something in it.
func (b *blanks) add(name string, f *family, v values) {
	if f.has(v) {
		return
	}
	b.points[name] = append(b.points[name],
		metricdata.HistogramDataPoint[float64]{Attributes: f.set(v), StartTime: b.since, Time: b.now})
}

func (b *blanks) metrics() (all []metricdata.Metrics) {
	for _, i := range Instruments() {
		points := b.points[i.Name]
		if len(points) == 0 {
			continue
		}
		for n := range points {
			points[n].Bounds, points[n].BucketCounts = i.Buckets, make([]uint64, len(i.Buckets)+1)
		}
		all = append(all, metricdata.Metrics{
			Name: i.Name, Description: i.Description, Unit: i.Unit,
			Data: metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality, DataPoints: points},
		})
	}
	return all
}

// modes returns those in which a declared class is used, as far as is known.
func (c *classes) modes(class string) []priority.Mode {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.shared[class] {
		return []priority.Mode{priority.Exclusive, priority.Shared}
	}
	return []priority.Mode{priority.Exclusive}
}

// share notes that a class is used in shared mode as well.
func (c *classes) share(class string) {
	c.mu.RLock()
	known := c.shared[class]
	c.mu.RUnlock()
	if known || c.of(class) != class {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shared[class] = true
}
