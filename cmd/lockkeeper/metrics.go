package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/connlimit"
	"github.com/lockkeeper/lockkeeper/observability/console"
	"github.com/lockkeeper/lockkeeper/observability/health"
	"github.com/lockkeeper/lockkeeper/observability/metrics"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

// A metricsServer measures, serves /metrics, /healthz and /readyz where the file says,
// and exports where the environment says. nil does nothing.
type metricsServer struct {
	log         *slog.Logger
	listener    net.Listener // nil: it only exports
	endpoint    *metrics.Endpoint
	locks       *metrics.Locks
	server      *http.Server
	gate        *connlimit.Gate
	observatory *observatory
}

// listenForMetrics takes the address of the file, if it has one. Callers are
// answered from serve on, and wait until then.
func listenForMetrics(
	ctx context.Context, cfg *config.Config, exports *telemetry, logger *slog.Logger,
) (*metricsServer, error) {
	address, exported := cfg.Metrics.Listen, exports.metering()
	if address == "" && len(exported) == 0 {
		return nil, nil
	}
	endpoint, err := metrics.New(logger, exported...)
	if err != nil {
		return nil, err
	}
	locks, err := metrics.NewLocks(endpoint.Meter(), metrics.WithClasses(classesOf(cfg)...),
		metrics.WithShared(sharedOf(cfg)...), metrics.WithDelay(telemetryDelay))
	if err != nil {
		return nil, err
	}
	endpoint.Show(locks)
	exports.zeros.Show(locks)
	m := &metricsServer{log: logger, endpoint: endpoint, locks: locks}
	if address == "" {
		return m, nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, cannotListenFor("metrics.listen", cfg.File, address, err)
	}
	m.gate = newGate(nil)
	m.listener, m.server = m.gate.Listener(listener), &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug), // what clients do wrong
	}
	m.gate.Attach(m.server)
	return m, nil
}

// classesOf are the classes of the locks that the jobs need.
func classesOf(cfg *config.Config) (classes []string) {
	for _, job := range cfg.Jobs {
		for _, r := range job.Owned() {
			classes = append(classes, r.Class)
		}
	}
	return classes
}

// sharedOf are those that jobs share.
func sharedOf(cfg *config.Config) (classes []string) {
	for _, job := range cfg.Jobs {
		for _, r := range job.Owned() {
			if r.Mode == priority.Shared {
				classes = append(classes, r.Class)
			}
		}
	}
	return classes
}

// options have what a guard does measured.
func (m *metricsServer) options() []lockguard.Option {
	if m == nil {
		return nil
	}
	return []lockguard.Option{lockguard.WithObserver(m.locks.Observer(metrics.Cron))}
}

// measured has what a command's guard and client do exported, until end.
func (t *telemetry) measured(client *lock.Client) (options []lockguard.Option, end func(), err error) {
	exported := t.metering()
	if len(exported) == 0 {
		return nil, func() {}, nil
	}
	endpoint, err := metrics.New(nil, exported...)
	if err != nil {
		return nil, nil, err
	}
	locks, err := metrics.NewLocks(endpoint.Meter(), metrics.WithDelay(telemetryDelay))
	if err := errors.Join(err, metrics.Client(endpoint.Meter(), client, metrics.WithDelay(telemetryDelay))); err != nil {
		return nil, nil, err
	}
	endpoint.Show(locks)
	return []lockguard.Option{lockguard.WithObserver(locks.Observer(metrics.Exec))}, func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeMetrics)
		defer cancel()
		_ = endpoint.Close(ctx)
	}, nil
}

// reload gets the configuration that is in force from now on.
func (m *metricsServer) reload(next *config.Config) {
	if m != nil {
		m.locks.Declare(classesOf(next)...)
		m.locks.DeclareShared(sharedOf(next)...)
	}
}

// serve answers until close. ctx ends when the daemon drains.
func (m *metricsServer) serve(
	ctx context.Context, cfg *config.Config, client *lock.Client, schedule *scheduler.Scheduler,
	reloader *config.Reloader, operators *operations,
) (err error) {
	if m == nil {
		return nil
	}
	if m.observatory, err = openObservatory(ctx, cfg, m.log); err != nil {
		return err
	}
	meter, build := m.endpoint.Meter(), buildVersion()
	err = errors.Join(
		m.locks.Cluster(m.observatory.now, m.observatory.client.Now),
		metrics.Client(meter, client, metrics.WithDelay(telemetryDelay)),
		metrics.Jobs(meter, func() []metrics.Job { return measuredJobs(schedule.Stats()) }),
		metrics.Clock(meter, schedule.ClockSteps, schedule.ClockAhead),
		metrics.Reloads(meter, func() metrics.Reload {
			s := reloader.Status()
			return metrics.Reload{At: s.At, Generation: s.Generation, OK: s.OK}
		}),
		metrics.Overrides(meter, overrideKinds(), []string{string(emergency.File), string(emergency.ZooKeeper)},
			operators.measure),
		metrics.Build(meter, metrics.Version{Version: build.Version, Commit: build.Commit, Go: build.Go}),
	)
	if err != nil {
		return err
	}
	if m.listener == nil {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.endpoint.Handler())
	mountHealth(ctx, mux, client, operators, m.observatory)
	m.server.Handler = m.gate.Handler(console.ForMonitors(hostsOf(cfg, cfg.Metrics.Listen), mux))
	go func() {
		if err := m.server.Serve(m.listener); !errors.Is(err, http.ErrServerClosed) {
			m.log.Error("metrics are not served any more", "error", err)
		}
	}()
	m.log.Info("metrics are served", "address", m.listener.Addr().String())
	return nil
}

func overrideKinds() (kinds []string) {
	for _, kind := range override.Kinds() {
		kinds = append(kinds, string(kind))
	}
	return kinds
}

// closeMetrics is how long the end of the program waits for a scrape that goes on.
const closeMetrics = time.Second

func (m *metricsServer) close() {
	if m == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeMetrics)
	defer cancel()
	if m.listener != nil {
		if m.server.Shutdown(ctx) != nil {
			_ = m.server.Close()
		}
		_ = m.listener.Close() // if it was not served
	}
	_ = m.endpoint.Close(ctx) // what is left is exported
	m.observatory.end()
}

// A healthView is what /healthz answers, always with status 200: a daemon whose
// ZooKeeper does not answer goes on trying, and a restart would not help it.
type healthView struct {
	Status    string `json:"status"`          // ok or draining
	ZooKeeper string `json:"zookeeper"`       // connected, unreachable or closed
	Error     string `json:"error,omitempty"` // why it is unreachable
}

func healthOf(ctx context.Context, client *lock.Client) healthView {
	v := healthView{Status: "ok", ZooKeeper: "connected"}
	if ctx.Err() != nil {
		v.Status = "draining"
	}
	now, cancel := context.WithCancel(context.Background())
	cancel() // ready or not, it does not wait
	err := client.Ready(now)
	if unavailable, ok := errors.AsType[*lock.UnavailableError](err); ok {
		v.ZooKeeper, v.Error = "unreachable", unavailable.Error()
	} else if err != nil {
		v.ZooKeeper = "closed"
	}
	return v
}

// mountHealth has a server answer orchestrators. ctx ends when the daemon drains.
func mountHealth(
	ctx context.Context, mux *http.ServeMux, client *lock.Client, operators *operations, observatory *observatory,
) {
	mux.Handle("GET /healthz", health.Alive(func() any { return healthOf(ctx, client) }))
	mux.Handle("GET /readyz", health.Ready(readinessOf(ctx, client, operators, observatory)...))
}

// readinessOf is all that has to be right for the daemon to run jobs. ctx ends when it
// drains.
func readinessOf(
	ctx context.Context, client *lock.Client, operators *operations, observatory *observatory,
) []health.Check {
	return append(health.Session(client.Health),
		health.Check{Name: "draining", Ask: func() error {
			if ctx.Err() != nil {
				return errors.New("the daemon drains: it fires no tick any more")
			}
			return nil
		}},
		health.Check{Name: "overrides", Ask: func() error {
			switch status := operators.desk.Status(); {
			case status.Err != nil:
				return fmt.Errorf("the overrides in ZooKeeper cannot be read or trusted, those before stay in force: %w",
					status.Err)
			case !status.Known:
				return errors.New("which overrides ZooKeeper has is not known yet")
			}
			return nil
		}},
		health.Check{Name: "locks", Ask: observatory.ready},
		health.Check{Name: "clock", Warns: true, Ask: func() error { return clockProblem(client.TickLedger("")) }},
	)
}

// measuredJobs are the counts of all jobs, with all that is still 0.
func measuredJobs(all map[string]scheduler.JobStats) []metrics.Job {
	jobs := make([]metrics.Job, 0, len(all))
	for name, s := range all {
		skipped := make(map[string]uint64)
		for _, reason := range scheduler.SkipReasons() {
			skipped[string(reason)] = 0
		}
		for reason, n := range s.Skipped {
			skipped[string(reason)] = n
		}
		jobs = append(jobs, metrics.Job{
			Name: name,
			Ran:  s.Ran, Failed: s.Failed, Preempted: s.Preempted, Lost: s.Lost, Interrupted: s.Interrupted,
			Skipped: skipped, Taken: s.Taken,
			Preemptions: s.Preemptions, Retries: s.Retries, StuckRuns: s.Stuck,
			Running: s.Running, StuckNow: s.StuckNow, Differing: s.Differing,
		})
	}
	return jobs
}
