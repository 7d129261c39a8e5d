package metrics

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// -update writes the table of docs/observability.md anew.
var update = flag.Bool("update", false, "write the table of docs/observability.md anew")

// withEverything returns an endpoint with every instrument.
func withEverything(t *testing.T) *Endpoint {
	t.Helper()
	endpoint, err := New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, endpoint.Close(t.Context())) })
	jobs := func() []Job {
		return []Job{{Name: "backup", Failed: 2, Skipped: map[string]uint64{"overlap": 1}, StuckNow: 1}, {Name: "report"}}
	}
	require.NoError(t, observeJobs(endpoint.Meter(), 1, jobs))
	require.NoError(t, Clock(endpoint.Meter(), func() uint64 { return 0 }, func() (time.Duration, bool) { return 0, true }))
	require.NoError(t, Reloads(endpoint.Meter(), func() Reload { return Reload{OK: true, Generation: 1, At: time.Unix(1000, 0)} }))
	require.NoError(t, Overrides(endpoint.Meter(), []string{"freeze", "hold"}, []string{"file"}, func() OverridesNow {
		return OverridesNow{Active: []Override{{"freeze", "file"}, {"freeze", "file"}}, FileOK: true}
	}))
	require.NoError(t, Build(endpoint.Meter(), Version{Version: "v1", Commit: "c", Go: "go"}))

	locks, err := NewLocks(endpoint.Meter(), WithClasses(template))
	require.NoError(t, err)
	endpoint.Show(locks)
	o := locks.observer(Cron)
	for _, tale := range tales() {
		for _, event := range tale.events {
			o.observe(t.Context(), event)
		}
	}
	require.NoError(t, locks.Cluster(func() *live.Snapshot { return &live.Snapshot{Complete: true} }, time.Now))
	require.NoError(t, session(endpoint.Meter(), func() lock.Health { return lock.Health{State: zkclient.SessionConnected} }))
	tell, err := operations(endpoint.Meter())
	require.NoError(t, err)
	tell(zkclient.Operation{Name: "get", Result: zkclient.OperationOK, Took: time.Millisecond})
	return endpoint
}

func scrape(t *testing.T, endpoint *Endpoint, accept string) (status int, text, contentType string) {
	t.Helper()
	server := httptest.NewServer(endpoint.Handler())
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Accept", accept)
	response, err := server.Client().Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body), response.Header.Get("Content-Type")
}

func TestPrometheusReadsWhatIsShown(t *testing.T) {
	endpoint := withEverything(t)
	for accept, contentType := range map[string]string{"text/plain": "text/plain", "application/openmetrics-text;version=1.0.0": "application/openmetrics-text"} {
		status, text, got := scrape(t, endpoint, accept)
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, got, contentType)
		for _, line := range []string{
			`lockkeeper_job_ticks_total{job_name="backup",outcome="failed"} 2`,
			`lockkeeper_job_ticks_total{job_name="backup",outcome="skipped",reason="overlap"} 1`,
			`lockkeeper_job_ticks_total{otel_metric_overflow="true",outcome="failed"} 0`,
			`lockkeeper_job_stuck{job_name="backup"} 1`,
			`lockkeeper_config_last_reload_ok 1`,
			`lockkeeper_config_last_reload_time_seconds 1000`,
			`lockkeeper_overrides_active{kind="freeze",source="file"} 2`,
			`lockkeeper_overrides_active{kind="hold",source="file"} 0`,
			`lockkeeper_overrides_file_ok 1`,
			`lockkeeper_overrides_zookeeper_ok 0`,
			`lockkeeper_build_info{commit="c",go_version="go",version="v1"} 1`,
			`process_start_time_seconds `,
			`go_goroutines `,
		} {
			require.Contains(t, strings.ReplaceAll(text, ".0\n", "\n"), "\n"+line)
		}
		require.NotContains(t, text, "target_info")
	}
}

func TestPromlintHasNothingToSay(t *testing.T) {
	problems, err := testutil.GatherAndLint(withEverything(t).registry)
	require.NoError(t, err)
	// How OpenTelemetry's conventions name what is there now.
	problems = slices.DeleteFunc(problems, func(p promlint.Problem) bool {
		return strings.HasSuffix(p.Text, `should not have "_count" suffix`) && (strings.HasPrefix(p.Metric, "lockkeeper_lock_holder_") || strings.HasPrefix(p.Metric, "lockkeeper_lock_waiter_"))
	})
	require.Empty(t, problems)
}

func TestExemplarsPointToTheSpanOfTheRequest(t *testing.T) {
	endpoint, err := New(nil)
	require.NoError(t, err)
	locks, err := NewLocks(endpoint.Meter())
	require.NoError(t, err)
	observe := locks.Observer(API)
	observe(t.Context(), lockguard.Event{Subject: at(0), Notice: lockguard.Acquired{Waited: 3 * time.Second}})
	observe(t.Context(), lockguard.Event{Subject: at(9), Notice: lockguard.Released{Held: 9 * time.Second}})

	_, text, _ := scrape(t, endpoint, "application/openmetrics-text;version=1.0.0")
	for _, name := range []string{"lockkeeper_lock_wait_duration_seconds_bucket", "lockkeeper_lock_hold_duration_seconds_bucket"} {
		line := regexp.MustCompile("(?m)^" + name + `.* 1 # .*$`).FindString(text)
		require.Contains(t, line, `trace_id="0af7651916cd43dd8448eb211c80319c"`, name)
		require.Contains(t, line, `span_id="b7ad6b7169203331"`, name)
	}
	_, text, _ = scrape(t, endpoint, "text/plain")
	require.NotContains(t, text, "trace_id")
}

func TestNoSnapshotIsTakenAfterClose(t *testing.T) {
	endpoint, err := New(nil)
	require.NoError(t, err)
	looks := 0
	require.NoError(t, Clock(endpoint.Meter(), func() uint64 { looks++; return 1 }, unknownClock))
	_, text, _ := scrape(t, endpoint, "text/plain")
	require.Contains(t, text, "lockkeeper_clock_steps_total 1")
	require.Equal(t, 1, looks, "once for a scrape")

	require.NoError(t, endpoint.Close(t.Context()))
	_, text, _ = scrape(t, endpoint, "text/plain")
	require.NotContains(t, text, "lockkeeper_clock_steps_total")
	require.Equal(t, 1, looks)
}

func TestTwoEndpointsShareNothing(t *testing.T) {
	one, err := New(nil)
	require.NoError(t, err)
	other, err := New(nil)
	require.NoError(t, err)
	require.NoError(t, Clock(one.Meter(), func() uint64 { return 1 }, unknownClock))
	_, text, _ := scrape(t, other, "text/plain")
	require.NotContains(t, text, "lockkeeper_")
}

// The table of the documentation is the registry of instruments.
func TestDocumentationHasEveryInstrument(t *testing.T) {
	const name, begin, end = "../../docs/observability.md", "<!-- metrics: go test ./observability/metrics -update -->\n", "<!-- end of metrics -->"
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	require.True(t, found)
	table, after, found := strings.Cut(rest, end)
	require.True(t, found)

	want := "\n|metric|OpenTelemetry|kind|labels|meaning|\n|---|---|---|---|---|\n"
	known := map[string]bool{}
	for _, i := range Instruments() {
		known[i.Prometheus()] = true
		var labels []string
		for _, label := range i.Labels() {
			labels = append(labels, "`"+label+"`")
		}
		want += fmt.Sprintf("|`%s`|`%s`|%s|%s|%s|\n", i.Prometheus(), i.Name, i.Kind, strings.Join(labels, ", "), i.Description)
	}
	want += "\n"
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(before+begin+want+end+after), 0o644))
		return
	}
	require.Equal(t, want, table, "go test ./observability/metrics -update")
	for _, metric := range regexp.MustCompile(`lockkeeper_[a-z_]+`).FindAllString(string(text), -1) {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(metric, suffix); known[base] {
				metric = base
			}
		}
		require.True(t, known[metric], "there is no %s", metric)
	}
}

// The registry is what an endpoint shows: each under its name, of its kind, in its
// unit, with its labels and no others.
func TestRegistryIsWhatIsShown(t *testing.T) {
	families, err := withEverything(t).registry.Gather()
	require.NoError(t, err)
	shown := map[string]int{}
	for n, f := range families {
		if strings.HasPrefix(f.GetName(), "lockkeeper_") {
			shown[f.GetName()] = n
		}
	}
	for _, i := range Instruments() {
		require.Contains(t, shown, i.Prometheus(), "in the registry, and not shown")
		f := families[shown[i.Prometheus()]]
		delete(shown, i.Prometheus())
		require.Equal(t, string(i.Kind), strings.ToLower(f.GetType().String()), i.Name)
		require.Equal(t, i.Description, f.GetHelp(), i.Name)
		labels := map[string]bool{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() != "otel_metric_overflow" {
					labels[l.GetName()] = true
				}
			}
			if i.Kind == Histogram {
				var bounds []float64
				for _, b := range m.GetHistogram().GetBucket() {
					if !math.IsInf(b.GetUpperBound(), 1) {
						bounds = append(bounds, b.GetUpperBound())
					}
				}
				require.Equal(t, i.Buckets, bounds, i.Name)
			}
		}
		require.ElementsMatch(t, i.Labels(), slices.Collect(maps.Keys(labels)), i.Name)
	}
	require.Empty(t, shown, "shown, and not in the registry")
}

// unknownClock is a clock that is compared with none.
func unknownClock() (time.Duration, bool) { return 0, false }
