// Package lockkeeper is the facade of Lockkeeper: locks with priorities,
// preemption and cleanup on ZooKeeper, for work that must not run twice at the
// same time. A first program imports this package alone.
//
// The one idea: the context of the work is the lock. A [Requirement] declares the
// lock that the work needs. A [Guard] acquires it, runs the work and releases it.
// The context of the work ends, with a typed cause, when the holder is preempted
// or has lost the lock.
//
//	client, err := lockkeeper.Connect("zk1:2181,zk2:2181,zk3:2181")
//	...
//	guard, err := lockkeeper.NewGuard(client)
//	...
//	err = guard.Do(ctx, lockkeeper.Requirement{Scope: "cluster/orders"}, func(ctx context.Context) error {
//		hold, _ := lockkeeper.FromContext(ctx)
//		return compact(ctx, hold.Token()) // returns soon after ctx has ended
//	})
//
// This package has no behaviour of its own: aliases and constructors of lockguard
// (guards, holds, events), priority (terms, levels), jobs, scheduler and recipes/lock
// (the ZooKeeper client). Values of both names mix freely.
package lockkeeper
