// Package locks holds the acceptance tests of the priority lock: what the own
// suites of Curator, Kazoo, etcd and go-zookeeper ask of a lock, and what none of
// them asks. Each test is one case and runs on a real server and on the embedded
// one, see package testbed. A comment gives the name of the case in
// integration/scenarios.md, which lists them all.
package locks
