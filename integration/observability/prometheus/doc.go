// Package prometheus tests dashboards and rules with Prometheus itself: its promtool
// tries every rule, and its server answers every query after a contention that is
// played on a real ZooKeeper, by a daemon and guards that it scrapes.
package prometheus
