// Package metrics shows Prometheus, and other readers of OpenTelemetry, what becomes
// of locks, of jobs, of the session with ZooKeeper and of the configuration.
//
// The one idea: everything that is measured is one table of instruments
// ([Instruments]), and nothing is labelled with what has no bound. A lock is counted
// under its class, the template that its scope was made from
// (lockguard.Requirement.Class), never under its scope, owner or holder: those are in
// traces and logs, to which the exemplars of histograms point.
//
//	endpoint, err := metrics.New(logger)
//	locks, err := metrics.NewLocks(endpoint.Meter(), metrics.WithClasses("tenant/{id}/billing"))
//	guard, err := lockguard.New(client, lockguard.WithClasses("tenant/{id}/billing"), lockguard.WithObserver(locks.Observer(metrics.API)))
//	err = metrics.Client(endpoint.Meter(), client)
//	http.Handle("/metrics", endpoint.Handler())
//
// The instruments work with any metric.Meter, also one of a program that exports by OTLP.
// docs/observability.md explains what the numbers say. An [Endpoint] has a registry and a
// meter provider of its own, and touches nothing global. What it shows is bounded: see
// [WithMaxClasses] and [MaxJobs].
package metrics
