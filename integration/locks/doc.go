// Package locks holds the acceptance tests of the priority lock on real
// ZooKeeper servers: what Curator's, Kazoo's, etcd's and Helix's own suites ask
// of a lock, and what none of them asks.
//
// Each test is one case, named after the behaviour, given, when, then; a
// comment gives the name of the case in the suite that it comes from (M1, K1,
// T1, X2: Curator, Kazoo, etcd; N1: nobody's). Tests share a server and have a
// root of their own on it; only those that stop a server start one. A test that
// fails prints what each of its requests was told, in order.
package locks
