// Package classic has the recipes that Apache Curator (Java) and Kazoo (Python) have, on their nodes: Mutex, RWMutex,
// Semaphore, Election, Barrier and DoubleBarrier exclude and meet processes in Go, Java and Python.
//
// The idea: all who want something stand in one line of nodes with sequence numbers, in which each watches the node in
// front of its own. A hold ends with the client's session, before the server can give it to another one.
//
//	mutex, err := classic.NewMutex(client, "/locks/orders", classic.MutexOptions{})
//	grant, err := mutex.Acquire(ctx)
//	token, err := grant.Token(ctx) // give it to what you write to
//	...
//	err = grant.Release(ctx)
//
// The client is a *zkclient.Client: the field of that name in a lock.Client. Errors and notices are those of
// the priority lock. docs/recipes.md says which library's recipe each of them works with. A lock with
// priorities, leases and preemption is lock.PriorityLock.
package classic
