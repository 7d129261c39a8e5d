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
// # Parts
//
// This package has no behaviour of its own. Its types are aliases and its functions
// are constructors of the packages below it, with their defaults. Each of those can
// be imported alone, and values of both names mix freely:
//
//   - lockguard: guards, holds, events, and what a first program does not need, such
//     as holds that other processes join, or operators' overrides.
//   - priority: terms, levels, modes, and the rules of preemption.
//   - jobs, scheduler: jobs with schedules and locks.
//   - recipes: the ZooKeeper client, groups of locks, and the recipes of Curator and
//     Kazoo.
package lockkeeper
