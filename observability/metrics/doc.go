// Package metrics shows Prometheus, and whoever else reads OpenTelemetry, what
// becomes of jobs and of the configuration.
//
// The one idea: nothing is counted here. Who does the work counts it anyway, and
// hands out a snapshot when somebody looks; a tick costs no more with metrics
// than without.
//
//	endpoint, err := metrics.New(logger)
//	err = metrics.Jobs(endpoint.Meter(), func() []metrics.Job { ... }) // called once per scrape
//	http.Handle("/metrics", endpoint.Handler())
//
// Jobs, Clock, Reloads, Overrides and Build make instruments in any metric.Meter, also one
// of a program that exports by OTLP. docs/metrics.md has a table of what they
// are called.
//
// An Endpoint has a registry and a meter provider of its own, and touches
// nothing global. What it shows is bounded: see MaxJobs.
package metrics
