package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/metrics"
	"github.com/lockkeeper/lockkeeper/observability/traces"
	"github.com/lockkeeper/lockkeeper/observability/traces/sampling"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A watched guard is one whose telemetry is to be paid for.
type watched struct {
	name  string
	guard *lockguard.Guard
	all   []time.Duration
}

// BenchmarkTelemetry: what traces and metrics cost for each cycle of acquire and
// release of a lock that nobody else wants. The clients take turns, a cycle each, so
// that what else the machine does hits all of them alike, and the ratio is that of the
// quarter of the cycles that were hit least: whatever telemetry does, it does in each.
func BenchmarkTelemetry(b *testing.B) {
	onServers(b, func(b *testing.B, server string) {
		const turns = 4000
		for b.Loop() {
			guards := watchedGuards(b, server)
			for _, g := range guards { // warm
				for range turns / 10 {
					g.turn(b)
				}
			}
			for range turns {
				for _, i := range rand.Perm(len(guards)) {
					g := guards[i]
					g.all = append(g.all, g.turn(b))
				}
			}
			off := quantile(guards[0].all, 4)
			var table strings.Builder
			fmt.Fprintf(&table, "\n%-18s %12s %12s %8s\n", "telemetry", "median", "quarter", "ratio")
			for _, g := range guards {
				cycle := quantile(g.all, 4)
				ratio := float64(cycle) / float64(off)
				fmt.Fprintf(&table, "%-18s %12s %12s %8.3f\n", g.name, quantile(g.all, 2), cycle, ratio)
				b.ReportMetric(ratio, "x_"+strings.ReplaceAll(g.name, " ", "_"))
			}
			b.Log(table.String())
		}
	})
}

func (g *watched) turn(b *testing.B) time.Duration {
	b.Helper()
	began := time.Now()
	if err := g.guard.Do(b.Context(), lockguard.Requirement{Scope: "telemetry/" + g.name}, func(context.Context) error { return nil }); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

// quantile returns the value below which one in n is.
func quantile(of []time.Duration, n int) time.Duration {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/n]
}

// discard exports to nobody.
type discard struct{}

func (discard) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { return nil }
func (discard) Shutdown(context.Context) error                        { return nil }

func watchedGuards(b *testing.B, server string) (guards []*watched) {
	b.Helper()
	traced := func(sampler sdk.Sampler) []lockguard.Option {
		provider := sdk.NewTracerProvider(sdk.WithBatcher(discard{}), sdk.WithSampler(sampling.ContentionSampler(sdk.ParentBased(sampler))))
		b.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
		return traces.New(provider).Options()
	}
	measured := func() []lockguard.Option {
		endpoint, err := metrics.New(nil)
		require.NoError(b, err)
		b.Cleanup(func() { _ = endpoint.Close(context.Background()) })
		locks, err := metrics.NewLocks(endpoint.Meter())
		require.NoError(b, err)
		return []lockguard.Option{lockguard.WithObserver(locks.Observer(metrics.API))}
	}
	for _, variant := range []struct {
		name    string
		options []lockguard.Option
		client  bool // its operations are measured as well
	}{
		{"off", nil, false},
		{"traces unsampled", traced(sdk.NeverSample()), false},
		{"traces sampled", traced(sdk.AlwaysSample()), false},
		{"metrics", measured(), false},
		{"metrics client", measured(), true},
		{"all", append(traced(sdk.AlwaysSample()), measured()...), true},
		{"off again", nil, false}, // how far two that are the same may be apart
	} {
		client, err := recipes.NewClient(recipes.Config{Servers: []string{server}, Root: "/telemetry-" + strings.ReplaceAll(variant.name, " ", "-")})
		require.NoError(b, err)
		b.Cleanup(func() { _ = client.Close(context.Background()) })
		if variant.client {
			endpoint, err := metrics.New(nil)
			require.NoError(b, err)
			b.Cleanup(func() { _ = endpoint.Close(context.Background()) })
			require.NoError(b, metrics.Client(endpoint.Meter(), client))
		}
		guard, err := lockguard.New(client, variant.options...)
		require.NoError(b, err)
		guards = append(guards, &watched{name: variant.name, guard: guard})
	}
	return guards
}
