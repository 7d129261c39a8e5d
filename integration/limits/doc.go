// Package limits plays with numbers: thousands of waiters at one lock, thousands
// of locks in one process, a million cycles, a hundred thousand scopes that are
// used once, groups of ten thousand locks, locks that are removed all the time, and
// requests that do not fit into what ZooKeeper takes.
//
// The one idea: whatever grows is measured at several sizes, so that one sees how
// it grows, and everything has to return to where it began: memory, goroutines,
// file descriptors, nodes and watches. No test asks how fast the machine is;
// times are reported, not judged.
//
// As part of all tests the numbers are small. `make limits` plays with all of
// them, and prints what the tables of docs/howto/scale.md and docs/performance.md
// are made of.
package limits
