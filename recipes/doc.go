// Package recipes is a folder: each recipe on ZooKeeper is a package of its own,
// on those below it.
//
//	survey      all that lies below the root, for package doctor
//	group       locks spread over participants; assignment has the strategies
//	classic     the recipes of Curator and Kazoo, on their nodes
//	inspect     what follows from the state of locks: plans, wait graph
//	lock        the priority lock, its state, and the Client of a process; model checks its protocol
//	opstore     what operators leave in ZooKeeper: overrides, approvals, audit
//	ticks       each tick of a job once
//	zkclient    sessions with a deadline, watches, transactions; the only one that knows go-zookeeper
//	internal    call: what all calls for a lock have in common; znode: names of nodes, and records as they stand in them
//
// Most programs use package lockguard, which runs work under a context that
// ends with the lock, or with the first of several.
package recipes
