// Package backlog does a moment later, many at a time, what need not be done at once.
//
// The one idea: whoever takes and gives back a lock waits for two answers of ZooKeeper,
// and for everything that is done in between. What is only told somebody is put into
// a list, and done while nobody waits for it.
package backlog
