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
// # Who counts what
//
// [Locks.Observer] counts what one process did: how long it waited, held and cleaned up.
// These values may be added up over processes. [Locks.Cluster] reports the current
// holders and waiters of the whole cluster: every process that watches it reports the
// same, so the maximum over processes is the truth. There is no counter that goes up and
// down with the holds of a process: it would stay up when that process dies. Jobs,
// overrides and the session are counted by the process that does the work, and read on
// collection.
//
// All of that is made in any metric.Meter, also one of a program that exports by OTLP.
// docs/observability.md explains what the numbers say. An [Endpoint] has a registry and a
// meter provider of its own, and touches nothing global. What it shows is bounded: see
// [WithMaxClasses] and [MaxJobs].
package metrics
