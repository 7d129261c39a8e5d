// Package dashboards writes what operators import: dashboards for Grafana, and
// recording rules, alerts and their tests for Prometheus.
//
// The one idea: what is asked of Prometheus is written once, as a [Query] with a
// name, and panels, rules, tests and documentation share it. What comes out is
// committed below dashboards/, and a test compares it with what this package
// says.
//
//	for _, d := range dashboards.All() {
//		text, err := d.JSON()
//		...
//	}
//	rules, err := dashboards.Rules()
//
// It is kept to what old installations have: PromQL of Prometheus 2.42, explicit
// histogram buckets, panels that Grafana has had since version 9. Exemplars are
// shown where there are some, and nothing depends on them.
package dashboards
