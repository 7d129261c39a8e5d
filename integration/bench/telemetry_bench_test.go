package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/metrics"
	"github.com/lockkeeper/lockkeeper/observability/traces"
	"github.com/lockkeeper/lockkeeper/observability/traces/sampling"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A watched guard is one whose telemetry is to be paid for.
type watched struct {
	name  string
	guard *lockguard.Guard
	flush []func() // what is put off is a part of the turn
	spent []spent  // for each round
}

// What a number of cycles has cost: time, and what of the processor this process used
// meanwhile, in all its goroutines. The server is another process.
type spent struct{ wall, cpu time.Duration }

const (
	telemetryRounds = 20
	telemetryCycles = 300 // in a row, for longer than delay; each guard has two such rows in a round
)

// BenchmarkTelemetry measures what traces and metrics cost for each cycle of
// acquire and release of an uncontended lock.
//
// In each round every guard has its turn, in an order that is drawn anew, and then
// again in the opposite order (A B C C B A): what else the machine does, and what
// changes slowly, hits all of them alike. A ratio is that of a guard to the one without
// telemetry in the same round, and the figure is the median of the rounds.
func BenchmarkTelemetry(b *testing.B) {
	onServers(b, func(b *testing.B, server string) {
		for b.Loop() {
			guards := watchedGuards(b, server)
			for _, g := range guards { // warm
				for range 3 {
					g.turn(b)
				}
			}
			for _, g := range guards {
				g.spent = nil
			}
			for range telemetryRounds {
				order := rand.Perm(len(guards))
				for _, i := range order {
					guards[i].spent = append(guards[i].spent, guards[i].turn(b))
				}
				for _, i := range slices.Backward(order) {
					g, more := guards[i], guards[i].turn(b)
					last := &g.spent[len(g.spent)-1]
					last.wall, last.cpu = last.wall+more.wall, last.cpu+more.cpu
				}
			}
			b.Log(telemetryTable(b, guards))
		}
	})
}

// telemetryTable compares all guards with the first one.
func telemetryTable(b *testing.B, guards []*watched) string {
	b.Helper()
	wall := func(s spent) time.Duration { return s.wall }
	cpu := func(s spent) time.Duration { return s.cpu }
	var table strings.Builder
	fmt.Fprintf(&table, "\n%-18s %12s %8s %8s %12s %8s\n", "telemetry", "time", "ratio", "quarters", "processor", "ratio")
	for _, g := range guards {
		times, processor := g.against(guards[0], wall), g.against(guards[0], cpu)
		fmt.Fprintf(&table, "%-18s %12s %8.3f ±%7.3f %12s %8.3f\n", g.name, g.each(wall), quantile(times, .5), (quantile(times, .75)-quantile(times, .25))/2, g.each(cpu), quantile(processor, .5))
		unit := "t_" + strings.ReplaceAll(dashed(g.name), "-", "_")
		if g == guards[0] {
			continue
		}
		b.ReportMetric(quantile(times, .5), unit)
		b.ReportMetric(quantile(processor, .5), unit+"_cpu")
	}
	b.ReportMetric(0, "ns/op")
	return table.String()
}

// turn is a row of cycles.
func (g *watched) turn(b *testing.B) spent {
	b.Helper()
	lock := lockguard.Requirement{Scope: "telemetry/" + dashed(g.name)}
	began, used := time.Now(), processorTime(b)
	for range telemetryCycles {
		if err := g.guard.Do(b.Context(), lock, func(context.Context) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
	for _, flush := range g.flush {
		flush()
	}
	return spent{time.Since(began), processorTime(b) - used}
}

func dashed(name string) string { return strings.ReplaceAll(name, " ", "-") }

// each is the median of what a cycle costs.
func (g *watched) each(of func(spent) time.Duration) time.Duration {
	var all []float64
	for _, s := range g.spent {
		all = append(all, float64(of(s))/(2*telemetryCycles))
	}
	return time.Duration(quantile(all, .5)).Round(100 * time.Nanosecond)
}

// against returns the ratios to another guard, of each round.
func (g *watched) against(other *watched, of func(spent) time.Duration) (ratios []float64) {
	for i, s := range g.spent {
		ratios = append(ratios, float64(of(s))/float64(of(other.spent[i])))
	}
	return ratios
}

// processorTime is what this process has used of the processors.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// quantile returns the value below which this part is.
func quantile(of []float64, part float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[int(part*float64(len(sorted)-1))]
}

// delay is that of the program.
const delay = 100 * time.Millisecond

// discard drops what is exported: what an exporter costs in the background is not
// in the figures, as it depends on where it exports to.
type discard struct{}

func (discard) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { return nil }
func (discard) Shutdown(context.Context) error                        { return nil }

func watchedGuards(b *testing.B, server string) (guards []*watched) {
	b.Helper()
	type observed struct {
		options []lockguard.Option
		flush   []func()
	}
	traced := func(sampler sdk.Sampler) observed {
		provider := sdk.NewTracerProvider(sdk.WithBatcher(discard{}), sdk.WithSampler(sampling.ContentionSampler(sdk.ParentBased(sampler))))
		b.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
		tracer := traces.New(provider, traces.WithDelay(delay))
		return observed{tracer.Options(), []func(){tracer.Flush}}
	}
	measured := func() observed {
		endpoint, err := metrics.New(nil)
		require.NoError(b, err)
		b.Cleanup(func() { _ = endpoint.Close(context.Background()) })
		locks, err := metrics.NewLocks(endpoint.Meter(), metrics.WithDelay(delay))
		require.NoError(b, err)
		return observed{[]lockguard.Option{lockguard.WithObserver(locks.Observer(metrics.API))}, []func(){locks.Flush}}
	}
	both := func(a, b observed) observed {
		return observed{slices.Concat(a.options, b.options), slices.Concat(a.flush, b.flush)}
	}
	for _, variant := range []struct {
		name   string
		by     observed
		client bool // its operations are measured as well
	}{
		{"off", observed{}, false},
		{"traces unsampled", traced(sdk.NeverSample()), false},
		{"traces sampled", traced(sdk.AlwaysSample()), false},
		{"metrics", measured(), false},
		{"metrics client", measured(), true},
		{"all", both(traced(sdk.AlwaysSample()), measured()), true},
		{"off again", observed{}, false}, // how far two that are the same may be apart
	} {
		client, err := lock.NewClient(lock.Config{Servers: []string{server}, Root: "/telemetry-" + dashed(variant.name)})
		require.NoError(b, err)
		b.Cleanup(func() { _ = client.Close(context.Background()) })
		if variant.client {
			endpoint, err := metrics.New(nil)
			require.NoError(b, err)
			b.Cleanup(func() { _ = endpoint.Close(context.Background()) })
			require.NoError(b, metrics.Client(endpoint.Meter(), client, metrics.WithDelay(delay)))
		}
		guard, err := lockguard.New(client, variant.by.options...)
		require.NoError(b, err)
		guards = append(guards, &watched{name: variant.name, guard: guard, flush: variant.by.flush})
	}
	return guards
}
