// Package simulation runs a whole site in one process and in virtual time: daemons,
// each with the scheduler, the guard, the rulebook and the ZooKeeper client as they
// are, and thousands of jobs, against a modelled ZooKeeper. The nodes of that one are
// those of package zktest; how long it takes is the model's: a round trip, a way to
// disk that writes share, and so many writes a second and no more.
//
// `make simulate` runs it for 1,000 daemons and up to 1,000,000 jobs, see
// docs/howto/scale.md. A small site is a test.
package simulation
