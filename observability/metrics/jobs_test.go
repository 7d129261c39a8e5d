package metrics

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// A board is what a reader of OpenTelemetry sees: numbers by instrument and
// attributes.
type board struct {
	*sdk.ManualReader
	provider *sdk.MeterProvider
}

func newBoard(t *testing.T) board {
	t.Helper()
	reader := sdk.NewManualReader()
	provider := sdk.NewMeterProvider(sdk.WithReader(reader), sdk.WithCardinalityLimit(0))
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.Background())) })
	return board{reader, provider}
}

// read collects once.
func (b board) read(t *testing.T) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, b.Collect(t.Context(), &all))
	seen := map[string]float64{}
	put := func(name string, set attribute.Set, n float64) {
		key := name + "{" + set.Encoded(attribute.DefaultEncoder()) + "}"
		if _, twice := seen[key]; twice {
			t.Errorf("%s is there twice", key)
		}
		seen[key] = n
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					put(m.Name, p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					put(m.Name, p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					put(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					put(m.Name, p.Attributes, float64(p.Count))
					put("+"+m.Name, p.Attributes, p.Sum)
				}
			default:
				require.Failf(t, "unknown data", "%T of %s", data, m.Name)
			}
		}
	}
	return seen
}

func TestEachNumberOfAJobHasASeriesFromTheStart(t *testing.T) {
	// given
	b := newBoard(t)
	job := Job{Name: "backup", Skipped: map[string]uint64{"overlap": 0, "missed": 0}}
	require.NoError(t, Jobs(b.provider.Meter(Scope), func() []Job { return []Job{job} }))
	zero := map[string]float64{
		"lockkeeper.job.ticks{job.name=backup,outcome=ran}":                    0,
		"lockkeeper.job.ticks{job.name=backup,outcome=failed}":                 0,
		"lockkeeper.job.ticks{job.name=backup,outcome=preempted}":              0,
		"lockkeeper.job.ticks{job.name=backup,outcome=lost}":                   0,
		"lockkeeper.job.ticks{job.name=backup,outcome=interrupted}":            0,
		"lockkeeper.job.ticks{job.name=backup,outcome=taken}":                  0,
		"lockkeeper.job.ticks{job.name=backup,outcome=skipped,reason=overlap}": 0,
		"lockkeeper.job.ticks{job.name=backup,outcome=skipped,reason=missed}":  0,
		"lockkeeper.job.preemptions{job.name=backup}":                          0,
		"lockkeeper.job.retries{job.name=backup}":                              0,
		"lockkeeper.job.stuck_runs{job.name=backup}":                           0,
		"lockkeeper.job.running{job.name=backup}":                              0,
		"lockkeeper.job.stuck{job.name=backup}":                                0,
		"lockkeeper.job.definitions_differing{job.name=backup}":                0,
	}
	require.Equal(t, zero, b.read(t))

	// when
	job.Ran, job.Failed, job.Preempted, job.Lost, job.Interrupted, job.Taken = 1, 2, 3, 4, 5, 6
	job.Skipped = map[string]uint64{"overlap": 7, "missed": 8}
	job.Preemptions, job.Retries, job.StuckRuns, job.Running, job.StuckNow, job.Differing = 9, 10, 11, 12, 13, 14

	// then
	n := 0.0
	want := maps.Clone(zero)
	for _, key := range []string{
		"ticks{job.name=backup,outcome=ran}", "ticks{job.name=backup,outcome=failed}", "ticks{job.name=backup,outcome=preempted}",
		"ticks{job.name=backup,outcome=lost}", "ticks{job.name=backup,outcome=interrupted}", "ticks{job.name=backup,outcome=taken}",
		"ticks{job.name=backup,outcome=skipped,reason=overlap}", "ticks{job.name=backup,outcome=skipped,reason=missed}",
		"preemptions{job.name=backup}", "retries{job.name=backup}", "stuck_runs{job.name=backup}", "running{job.name=backup}", "stuck{job.name=backup}",
		"definitions_differing{job.name=backup}",
	} {
		n++
		want["lockkeeper.job."+key] = n
	}
	require.Equal(t, want, b.read(t))
}

func TestSeriesOfARemovedJobEnd(t *testing.T) {
	b := newBoard(t)
	all := []Job{{Name: "stays"}, {Name: "goes", Ran: 5}}
	require.NoError(t, Jobs(b.provider.Meter(Scope), func() []Job { return all }))
	require.Contains(t, b.read(t), "lockkeeper.job.running{job.name=goes}")

	all = all[:1]
	for key := range b.read(t) {
		require.NotContains(t, key, "goes")
	}
}

func TestJobsBeyondTheLimitAreAddedUpAndNoCounterGoesBack(t *testing.T) {
	const most = 2
	own := func(name string) string { return "lockkeeper.job.ticks{job.name=" + name + ",outcome=ran}" }
	const others = "lockkeeper.job.ticks{otel.metric.overflow=true,outcome=ran}"
	type look struct {
		jobs []Job
		want map[string]float64 // of what ran
	}
	for name, looks := range map[string][]look{
		"nothing is added up below the limit": {
			{jobs: []Job{{Name: "b", Ran: 1}, {Name: "a", Ran: 2}}, want: map[string]float64{own("a"): 2, own("b"): 1}},
		},
		"those that come later are added up, whatever their names": {
			{jobs: []Job{{Name: "m", Ran: 1}, {Name: "n", Ran: 1}}, want: map[string]float64{own("m"): 1, own("n"): 1}},
			{jobs: []Job{{Name: "a", Ran: 10}, {Name: "m", Ran: 1}, {Name: "n", Ran: 1}, {Name: "z", Ran: 20}}, want: map[string]float64{own("m"): 1, own("n"): 1, others: 30}},
		},
		"what was counted stays in the sum when its job goes": {
			{jobs: []Job{{Name: "a"}, {Name: "b"}, {Name: "c", Ran: 10}, {Name: "d", Ran: 5}}, want: map[string]float64{own("a"): 0, own("b"): 0, others: 15}},
			{jobs: []Job{{Name: "a"}, {Name: "b"}, {Name: "d", Ran: 6}}, want: map[string]float64{own("a"): 0, own("b"): 0, others: 16}},
			{jobs: []Job{{Name: "a"}, {Name: "b"}}, want: map[string]float64{own("a"): 0, own("b"): 0, others: 16}},
		},
		"a job among the others stays there when there is room": {
			{jobs: []Job{{Name: "a"}, {Name: "b"}, {Name: "c", Ran: 10}}, want: map[string]float64{own("a"): 0, own("b"): 0, others: 10}},
			{jobs: []Job{{Name: "a"}, {Name: "c", Ran: 11}}, want: map[string]float64{own("a"): 0, others: 11}},
			{jobs: []Job{{Name: "a"}, {Name: "c", Ran: 12}, {Name: "new", Ran: 1}}, want: map[string]float64{own("a"): 0, own("new"): 1, others: 12}},
		},
		"a job that was removed and comes back when there is room is shown by itself": {
			{jobs: []Job{{Name: "a"}, {Name: "b"}, {Name: "c", Ran: 10}}, want: map[string]float64{own("a"): 0, own("b"): 0, others: 10}},
			{jobs: []Job{{Name: "a"}}, want: map[string]float64{own("a"): 0, others: 10}},
			{jobs: []Job{{Name: "a"}, {Name: "c", Ran: 2}}, want: map[string]float64{own("a"): 0, own("c"): 2, others: 10}},
		},
		"a job that was removed and added between two looks begins at 0": {
			{jobs: []Job{{Name: "a"}, {Name: "b"}, {Name: "c", Ran: 10}}, want: map[string]float64{own("a"): 0, own("b"): 0, others: 10}},
			{jobs: []Job{{Name: "a"}, {Name: "b"}, {Name: "c", Ran: 3}}, want: map[string]float64{own("a"): 0, own("b"): 0, others: 13}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(t)
			var now []Job
			require.NoError(t, observeJobs(b.provider.Meter(Scope), most, func() []Job { return now }))
			for i, l := range looks {
				now = l.jobs
				ran := map[string]float64{}
				for key, n := range b.read(t) {
					if strings.HasSuffix(key, "outcome=ran}") {
						ran[key] = n
					}
				}
				require.Equal(t, l.want, ran, "look %d", i)
			}
		})
	}
}

func TestWhatGoesOnBeyondTheLimitIsAddedUpAsWell(t *testing.T) {
	b := newBoard(t)
	all := []Job{{Name: "a", Running: 1}, {Name: "b", Running: 2, StuckNow: 1}, {Name: "c", Running: 4, StuckNow: 3}}
	require.NoError(t, observeJobs(b.provider.Meter(Scope), 1, func() []Job { return all }))
	seen := b.read(t)
	require.InDelta(t, 6, seen["lockkeeper.job.running{otel.metric.overflow=true}"], 0)
	require.InDelta(t, 4, seen["lockkeeper.job.stuck{otel.metric.overflow=true}"], 0)

	all = all[:1]
	require.Zero(t, b.read(t)["lockkeeper.job.running{otel.metric.overflow=true}"])
}

func TestMoreThanTheLimitOfTheSDKHaveSeries(t *testing.T) {
	endpoint, err := New(nil)
	require.NoError(t, err)
	all := make([]Job, MaxJobs+1)
	for i := range all {
		all[i] = Job{Name: fmt.Sprint(i), Skipped: map[string]uint64{"overlap": 0}}
	}
	require.NoError(t, Jobs(endpoint.Meter(), func() []Job { return all }))
	families, err := endpoint.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "lockkeeper_job_ticks_total" {
			require.Len(t, f.GetMetric(), (MaxJobs+1)*7, "of each job, and of the one that is too many")
			return
		}
	}
	require.Fail(t, "no ticks")
}

func TestLastReloadIsShown(t *testing.T) {
	b := newBoard(t)
	last := Reload{OK: true, Generation: 1, At: time.Unix(1000, 0)}
	require.NoError(t, Reloads(b.provider.Meter(Scope), func() Reload { return last }))
	require.Equal(t, map[string]float64{
		"lockkeeper.config.last_reload_ok{}": 1, "lockkeeper.config.generation{}": 1, "lockkeeper.config.last_reload_time{}": 1000,
	}, b.read(t))

	last = Reload{Generation: 3, At: time.Unix(2000, 5e8)}
	require.Equal(t, map[string]float64{
		"lockkeeper.config.last_reload_ok{}": 0, "lockkeeper.config.generation{}": 3, "lockkeeper.config.last_reload_time{}": 2000.5,
	}, b.read(t))
}

func TestStepsOfTheClockAndTheVersionAreShown(t *testing.T) {
	b := newBoard(t)
	require.NoError(t, Clock(b.provider.Meter(Scope), func() uint64 { return 3 }, func() (time.Duration, bool) { return -90 * time.Second, true }))
	require.NoError(t, Build(b.provider.Meter(Scope), Version{Version: "v1.2.3", Go: "go1.26.0"}))
	require.Equal(t, map[string]float64{
		"lockkeeper.clock.offset{}":                                 -90.0,
		"lockkeeper.clock.steps{}":                                  3,
		"lockkeeper.build.info{go.version=go1.26.0,version=v1.2.3}": 1,
	}, b.read(t))
}
