// Package nightly is an example: a small shop, whose orders lie in a directory
// of plain files, and three jobs that work on all of them. Any two jobs at once
// spoil something, so all three declare the same lock. Daemons run them in one
// process and tell on a timeline what happens; at the end everything is read
// again, to prove that nothing is corrupted. `lockkeeper dev` shows it.
//
// The one idea: work does not know of locks. The jobs (work.go) return when
// their context ends, and hand the token of their lock to the data set (package
// orders). Which lock they need stands in nightly.yaml. What a program of one's
// own has to do is in daemon.go.
package nightly
