package metrics_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/metrics"
	"github.com/lockkeeper/lockkeeper/observability/traces"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func Example() {
	endpoint, err := metrics.New(nil)
	if err != nil {
		panic(err)
	}
	err = metrics.Jobs(endpoint.Meter(), func() []metrics.Job {
		return []metrics.Job{{Name: "backup", Ran: 41, Failed: 1}}
	})
	if err != nil {
		panic(err)
	}

	answer := httptest.NewRecorder()
	endpoint.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "lockkeeper_job_ticks_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// lockkeeper_job_ticks_total{job_name="backup",outcome="failed"} 1
	// lockkeeper_job_ticks_total{job_name="backup",outcome="interrupted"} 0
	// lockkeeper_job_ticks_total{job_name="backup",outcome="lost"} 0
	// lockkeeper_job_ticks_total{job_name="backup",outcome="preempted"} 0
	// lockkeeper_job_ticks_total{job_name="backup",outcome="ran"} 41
	// lockkeeper_job_ticks_total{job_name="backup",outcome="taken"} 0
}

// A Go program shows metrics and traces of its locks.
func Example_guard() {
	ctx, mux := context.Background(), http.NewServeMux()
	logger := slog.New(slog.DiscardHandler)
	zk, err := zktest.Start()
	if err != nil {
		panic(err)
	}
	defer zk.Close()
	client, err := lock.NewClient(lock.Config{Servers: []string{zk.Addr()}})
	if err != nil {
		panic(err)
	}
	defer client.Close(ctx)

	endpoint, err := metrics.New(logger)
	if err != nil {
		panic(err)
	}
	classes := []string{"cluster/{name}"}
	locks, err := metrics.NewLocks(endpoint.Meter(), metrics.WithClasses(classes...))
	if err != nil {
		panic(err)
	}
	if err := metrics.Client(endpoint.Meter(), client); err != nil {
		panic(err)
	}
	provider := trace.NewTracerProvider() // give it an exporter: trace.WithBatcher
	defer provider.Shutdown(ctx)
	tracer := traces.New(provider)
	options := append(tracer.Options(), lockguard.WithClasses(classes...), lockguard.WithObserver(locks.Observer(metrics.API)))
	guard, err := lockguard.New(client, options...)
	if err != nil {
		panic(err)
	}
	mux.Handle("/metrics", endpoint.Handler())

	work := func(context.Context) error { return nil }
	if err := guard.Do(ctx, lockguard.Requirement{Scope: "cluster/orders"}, work); err != nil {
		panic(err)
	}
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "lockkeeper_lock_hold_duration_seconds_count") && strings.HasSuffix(line, " 1\n") {
			fmt.Print(line)
		}
	}
	// Output:
	// lockkeeper_lock_hold_duration_seconds_count{end="released",lock_class="cluster/{name}",lock_mode="exclusive",source="api"} 1
}
