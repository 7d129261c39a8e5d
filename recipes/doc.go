// Package recipes holds the priority lock on ZooKeeper, and the Client that each
// process has one of.
//
// The idea: a holder can be sure of its lock. A Client knows when the server
// last heard of its session, so it ends its holds before the server can give
// the locks to another client. And every step of a PriorityLock is one
// ZooKeeper transaction that contains its actor's own node and the version that
// it decided on, so that a late, repeated or misinformed step fails at the
// server instead of making a second holder.
//
//	client, err := lock.NewClient(lock.Config{Servers: []string{"zk1:2181"}})
//	lock, err := client.PriorityLock("cluster/orders/resource/users")
//	grant, err := lock.Acquire(ctx, lock.Request{Terms: priority.Terms{Priority: 50, LeaseTimeout: time.Minute}})
//	token, err := grant.Token(ctx) // give it to whatever you write to
//	...
//	err = grant.Release(ctx)
//
// The rooms, each on those below it:
//
//	survey      all that lies below the root, for package doctor
//	group       locks spread over participants; assignment has the strategies
//	classic     the recipes of Curator and Kazoo, on their nodes
//	inspect     what follows from the state of locks: plans, wait graph
//	recipes     the PriorityLock, and its state
//	opstore     what operators leave in ZooKeeper: overrides, approvals, audit
//	ticks       each tick of a job once
//	zkclient    sessions with a deadline, watches, transactions; the only one that knows go-zookeeper
//	internal    call: what all calls for a lock have in common; znode: names of nodes, and records as they stand in them
//
// In this package: lead.go has what the first waiter does, which asks the rulebook (priority.Judge) whether it preempts;
// grant.go has what a holder does; record.go what stands in the nodes.
//
// Most programs use package lockguard, which runs work under a context that
// ends with the lock, or with the first of several.
package recipes
