// Package prometheus tests dashboards and rules with Prometheus itself: its parser
// reads every query, its promtool tries every rule, and its server answers all of
// them after a contention that is played on a real ZooKeeper, by a daemon and
// guards that it scrapes.
//
// It is a module of its own for the sake of the parser, with which nothing of ours
// is linked.
package prometheus
