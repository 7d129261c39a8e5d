package metrics

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

// counts returns how much is in each series of a histogram that is shown.
func counts(t *testing.T, endpoint *Endpoint, name string) map[string]string {
	t.Helper()
	_, text, _ := scrape(t, endpoint, "text/plain")
	all := make(map[string]string)
	for line := range strings.Lines(text) {
		if labels, found := strings.CutPrefix(line, name+"_count"); found {
			labels, n, _ := strings.Cut(strings.TrimSpace(labels), "} ")
			require.NotContains(t, all, labels, "it is there twice")
			all[labels+"}"] = n
		}
	}
	return all
}

func TestHistogramsOfDeclaredClassesAreThereFromTheStartOnce(t *testing.T) {
	const waits, holds = "lockkeeper_lock_wait_duration_seconds", "lockkeeper_lock_hold_duration_seconds"
	endpoint, err := New(nil)
	require.NoError(t, err)
	locks, err := NewLocks(endpoint.Meter(), WithClasses(template), WithShared("report"))
	require.NoError(t, err)
	endpoint.Show(locks)
	require.Empty(t, counts(t, endpoint, waits), "no request for a lock")
	observe := locks.Observer(Cron)

	// Each way in which something can end is there, with nothing in it.
	wanted := map[string]map[string]string{waits: {}, holds: {}, "lockkeeper_preemption_duration_seconds": {}, "lockkeeper_cleanup_duration_seconds": {}}
	for _, class := range []string{template, "report"} {
		for _, mode := range []string{"exclusive", "shared"} {
			if mode == "shared" && class == template {
				continue
			}
			for _, how := range lockguard.Outcomes() {
				wanted[waits][fmt.Sprintf(`{lock_class=%q,lock_mode=%q,outcome=%q,source="cron"}`, class, mode, how)] = "0"
			}
			for _, how := range lockguard.Ends() {
				wanted[holds][fmt.Sprintf(`{end=%q,lock_class=%q,lock_mode=%q,source="cron"}`, how, class, mode)] = "0"
			}
		}
		for _, how := range preemptionResults() {
			wanted["lockkeeper_preemption_duration_seconds"][fmt.Sprintf(`{lock_class=%q,result=%q}`, class, how)] = "0"
		}
		for _, how := range cleanupResults() {
			wanted["lockkeeper_cleanup_duration_seconds"][fmt.Sprintf(`{lock_class=%q,result=%q}`, class, how)] = "0"
		}
	}
	for name, want := range wanted {
		require.Equal(t, want, counts(t, endpoint, name))
	}
	_, text, _ := scrape(t, endpoint, "text/plain")
	require.Contains(t, text, `source="cron",le="0.005"} 0`)

	// What is counted takes the place of that.
	observe(t.Context(), lockguard.Event{Subject: at(0), Notice: lockguard.Acquired{Waited: time.Millisecond}})
	wanted[waits][`{lock_class="tenant/{id}/billing",lock_mode="exclusive",outcome="acquired",source="cron"}`] = "1"
	for name, want := range wanted {
		require.Equal(t, want, counts(t, endpoint, name))
	}

	// A mode that was not announced for a class appears with its first request.
	shares := at(0)
	shares.Mode = priority.Shared
	observe(t.Context(), lockguard.Event{Subject: shares, Notice: lockguard.Waiting{}})
	for _, how := range lockguard.Outcomes() {
		wanted[waits][fmt.Sprintf(`{lock_class=%q,lock_mode="shared",outcome=%q,source="cron"}`, template, how)] = "0"
	}
	require.Equal(t, wanted[waits], counts(t, endpoint, waits))
}

func TestOfVeryManyClassesTheOrdinarySeriesAreThereFromTheStart(t *testing.T) {
	endpoint, err := New(nil)
	require.NoError(t, err)
	var classes []string
	for n := range mostWhole + 5 {
		classes = append(classes, fmt.Sprintf("class/%03d", n))
	}
	locks, err := NewLocks(endpoint.Meter(), WithClasses(classes...))
	require.NoError(t, err)
	endpoint.Show(locks)
	locks.Observer(Cron)
	require.Len(t, counts(t, endpoint, "lockkeeper_lock_wait_duration_seconds"), mostWhole*len(lockguard.Outcomes())+5)
	require.Len(t, counts(t, endpoint, "lockkeeper_lock_hold_duration_seconds"), mostWhole*len(lockguard.Ends())+5)
	require.Len(t, counts(t, endpoint, "lockkeeper_preemption_duration_seconds"), mostWhole*len(preemptionResults()))
}

// For a reader that exports: a series does not begin anew with every export, and goes on
// with what is counted, whose beginning is not before its own.
func TestZerosBeginOnceAndAreContinued(t *testing.T) {
	zeros := &Zeros{}
	reader := sdk.NewManualReader(sdk.WithProducer(zeros))
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.Background())) })
	locks, err := NewLocks(provider.Meter(Scope), WithClasses(template))
	require.NoError(t, err)
	zeros.Show(locks)
	observe := locks.Observer(API)

	point := func() metricdata.HistogramDataPoint[float64] {
		var all metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &all))
		var found []metricdata.HistogramDataPoint[float64]
		for _, scope := range all.ScopeMetrics {
			require.Equal(t, Scope, scope.Scope.Name)
			for _, m := range scope.Metrics {
				if h, ok := m.Data.(metricdata.Histogram[float64]); ok && m.Name == waitDuration {
					require.Equal(t, metricdata.CumulativeTemporality, h.Temporality)
					found = append(found, h.DataPoints...)
				}
			}
		}
		found = slices.DeleteFunc(found, func(p metricdata.HistogramDataPoint[float64]) bool {
			how, _ := p.Attributes.Value(outcome)
			return how.AsString() != string(lockguard.OutcomeAcquired)
		})
		require.Len(t, found, 1)
		return found[0]
	}
	first, second := point(), point()
	require.Zero(t, first.Count)
	require.Equal(t, waitBuckets, first.Bounds)
	require.Equal(t, first.StartTime, second.StartTime)
	require.False(t, second.Time.Before(first.Time))
	observe(t.Context(), lockguard.Event{Subject: at(0), Notice: lockguard.Acquired{Waited: time.Millisecond}})
	third := point()
	require.EqualValues(t, 1, third.Count)
	require.Equal(t, first.Bounds, third.Bounds)
	require.False(t, third.StartTime.Before(first.StartTime))
	require.True(t, first.Attributes.Equals(&third.Attributes))
}
