// Package upgrade shows that the program of an earlier commit and today's share one ZooKeeper: locks, queues, ticks,
// groups, overrides and the audit trail. The earlier program is built from the history of the repository. Where the
// history is not at hand, the nodes that it has left once, in testdata, are read by today's commands all the same.
package upgrade
