package metrics

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestWhatIsPutOffIsThereForEachScrape(t *testing.T) {
	endpoint, err := New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, endpoint.Close(context.Background())) })
	locks, err := NewLocks(endpoint.Meter(), WithDelay(time.Hour))
	require.NoError(t, err)
	endpoint.Show(locks)
	tell := locks.Observer(API)
	for n := range 3 {
		tell(t.Context(), lockguard.Event{Subject: lockguard.Subject{ID: "1", Identity: priority.Identity{Class: template}}, Notice: lockguard.Acquired{}})
		_, text, _ := scrape(t, endpoint, "text/plain")
		want := `lockkeeper_lock_wait_duration_seconds_count{lock_class="` + template + `",lock_mode="exclusive",outcome="acquired",source="api"} ` + string('1'+rune(n))
		require.Contains(t, strings.Split(text, "\n"), want)
	}
}

// kept is an exporter that keeps what it was given last.
type kept struct {
	sdk.Exporter
	last metricdata.ResourceMetrics
}

func (k *kept) Temporality(sdk.InstrumentKind) metricdata.Temporality {
	return metricdata.CumulativeTemporality
}

func (k *kept) Aggregation(kind sdk.InstrumentKind) sdk.Aggregation {
	return sdk.DefaultAggregationSelector(kind)
}

func (k *kept) Export(_ context.Context, all *metricdata.ResourceMetrics) error {
	k.last = *all
	return nil
}

func (k *kept) ForceFlush(context.Context) error { return nil }
func (k *kept) Shutdown(context.Context) error   { return nil }

func TestWhatIsPutOffIsExportedAtTheEnd(t *testing.T) {
	exporter := &kept{}
	endpoint, err := New(nil, sdk.WithReader(sdk.NewPeriodicReader(exporter, sdk.WithInterval(time.Hour))))
	require.NoError(t, err)
	locks, err := NewLocks(endpoint.Meter(), WithDelay(time.Hour))
	require.NoError(t, err)
	endpoint.Show(locks)
	client, err := lock.NewClient(lock.Config{Servers: []string{zktest.RunT(t).Addr()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close(context.Background())) })
	require.NoError(t, Client(endpoint.Meter(), client, WithDelay(time.Hour)))
	locks.Observer(Exec)(t.Context(), lockguard.Event{Subject: lockguard.Subject{ID: "1", Identity: priority.Identity{Class: template}}, Notice: lockguard.Acquired{}})
	_, err = client.Lock(t.Context(), "never locked")
	require.NoError(t, err)
	require.NoError(t, endpoint.Close(t.Context()))
	var names []string
	for _, scope := range exporter.last.ScopeMetrics {
		for _, m := range scope.Metrics {
			names = append(names, m.Name)
		}
	}
	require.Contains(t, names, "lockkeeper.lock.wait.duration")
	require.Contains(t, names, "lockkeeper.zk.operation.duration")
}

func TestDelaysAreNotNegative(t *testing.T) {
	b := newBoard(t)
	_, err := NewLocks(b.provider.Meter(Scope), WithDelay(-time.Second))
	require.EqualError(t, err, "metrics: WithDelay: -1s is before the event; write 0 or more")
}
