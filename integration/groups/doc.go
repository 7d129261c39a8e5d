// Package groups tests lock groups on a ZooKeeper server: how locks are spread,
// how they move, and what becomes of them when participants, controllers,
// connections and callbacks fail.
package groups
