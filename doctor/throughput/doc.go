// Package throughput measures how many locks an ensemble takes and gives back:
// this one, with its disks and its network, as it is now.
//
//	result, err := throughput.Measure(ctx, throughput.Options{Client: lock.Config{Servers: servers}})
//	fmt.Println(result.Rows[0].PerSecond, result.Resembles())
//
// # One idea
//
// Beside each measure of a lock stands what the same sessions do without one:
// they create a node and delete it, the least that any lock in ZooKeeper costs.
// The two take turns, so that what the machines do besides hits both, and their
// ratio tells how much of the time is ZooKeeper's. All of it happens under a root
// of its own, which is removed afterwards.
package throughput
