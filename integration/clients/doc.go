// Package clients holds the proof that other people's clients cannot tell the embedded server of zktest from a real
// ZooKeeper: Kazoo (Python) and Curator (Java), with their locks, elections, caches, barriers and queues.
//
// The one idea: a scenario is a script of our own that takes a connect string and writes a transcript, the same in
// every run. Each is played on both servers. The two transcripts must be equal, and equal to the one in testdata,
// which a person can read: a scenario that does nothing, or sees what it should not, fails on either server.
//
// A scenario may ask for trouble: a transcript line such as "! restart" is a request to the test, which cuts the
// connections or restarts the server and answers on the scenario's standard input.
//
// After a change of a scenario, `go test ./integration/clients -update` writes what the real server gave into
// testdata. Read the difference before you commit it.
//
// Kazoo and Curator are Debian's; `make setup` installs them. Elsewhere: a python3 on PATH that has kazoo, and
// CURATOR_HOME, a directory with Curator's jars and those that they need.
package clients
