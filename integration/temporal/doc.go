// Package temporal tests package temporal of the framework on real servers:
// Temporal's, of package devserver beside it, and ZooKeeper's.
package temporal
