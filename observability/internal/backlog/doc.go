// Package backlog does a moment later, many at a time, what need not be done at once.
//
// The one idea: a caller that takes and releases a lock waits for two answers of
// ZooKeeper, and for everything that is done in between. Pure reporting is put into a
// list, and done while no caller waits for it.
package backlog
