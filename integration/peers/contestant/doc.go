// Package contestant is the side of the line protocol that is measured: a process that takes and releases locks on
// request, a line of JSON for each turn on standard input, a line of JSON with what was measured on standard output.
//
// It holds the contestants in Go; those in Java and Python, in the directories beside it, speak the same
// protocol. Between turns a contestant keeps its connections and does nothing.
package contestant
