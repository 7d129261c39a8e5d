// Package lock holds the priority lock on ZooKeeper, and the Client that each
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
//	users, err := client.PriorityLock("cluster/orders/resource/users")
//	grant, err := users.Acquire(ctx, lock.Request{Terms: priority.Terms{Priority: 50, LeaseTimeout: time.Minute}})
//	token, err := grant.Token(ctx) // give it to whatever you write to
//	...
//	err = grant.Release(ctx)
//
// lead.go has what the first waiter does, which asks the rulebook
// (priority.Judge): it grants itself the lock (selfgrant.go), preempts the
// holders (preemption.go) or takes over (takeover.go). taking.go has how an idle
// lock is taken, grant.go what a holder has, record.go and record_lock.go what
// stands in the nodes. Package model checks the protocol.
package lock
