// Package recipes holds ZooKeeper recipes: one Client for each process, and
// locks, elections and groups on it.
//
// The idea: whoever holds a lock can be sure of it. A Client knows when the
// server last heard of its session, so it ends what is held before the server
// can give it to somebody else. And every step of a PriorityLock is one
// ZooKeeper transaction that contains its actor's own node and the version
// that it decided on, so that a late, repeated or misinformed step fails at
// the server instead of making a second holder.
//
//	client, err := recipes.NewClient(recipes.Config{Servers: []string{"zk1:2181"}})
//	lock, err := client.PriorityLock("cluster/orders/resource/users")
//	grant, err := lock.Acquire(ctx, recipes.Request{Terms: priority.Terms{Priority: 50, LeaseTimeout: time.Minute}})
//	token, err := grant.Token(ctx) // give it to whatever you write to
//	...
//	err = grant.Release(ctx)
//
// Beside the PriorityLock there are Group (locks spread over participants) and
// ticks.Ledger (each tick once); and, on the nodes of Apache Curator and Kazoo, so
// that processes in Go, Java and Python exclude each other: Mutex, RWMutex,
// Semaphore, Election, Barrier and DoubleBarrier. docs/recipes.md tells them
// apart.
//
// The rooms, and what they stand on:
//
//	recipes     PriorityLock, Group, classic recipes, boards of operators, what looks at them
//	  ticks     each tick of a job once
//	  zkclient  sessions with a deadline, watches, transactions; the only one that knows go-zookeeper
//	  internal/znode  names of nodes, and records as they stand in them
//	zkwire      ZooKeeper's protocol as bytes
//
// Most programs use package lockguard, which runs work under a context that
// ends with the lock, or with the first of several.
package recipes
