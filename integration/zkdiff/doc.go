// Package zkdiff keeps the embedded server of package zktest honest: it asks a real ZooKeeper the same questions and
// compares the answers, frame by frame.
//
// The one idea: lock-step. A seeded generator invents operations for a handful of sessions on a small tree. Each is
// sent to both servers; then a ping on every connection brings in everything that the operation has caused anywhere.
// All frames of all connections must be the same: zxids, errors, statistics, watch events and their order. Only what
// cannot be the same is translated first: session ids, passwords, the wall clock, the order of Java's hash sets.
//
// When the servers part company, the steps are shrunk to the fewest that still show it, and printed as a Go
// literal that replay takes. The client here shares no code with zktest or go-zookeeper: an error in one of
// them cannot hide itself.
//
// What lock-step cannot see has tests of its own: many goroutines at once, expiry, sweeps of containers and TTL nodes,
// and the four letter words. See Step for what can be asked.
//
//	go test ./integration/zkdiff                                        # two fixed seeds and a random one
//	go test ./integration/zkdiff -run Embedded -v -args -steps 1000000 -seed 7 # for a night
package zkdiff
