// Package daemons tests whole daemons on a real ZooKeeper: a client, a guard, a ledger and a scheduler each. It shows
// what only real servers and processes show: a ZooKeeper that is killed, processes that are killed and paused, and the
// clocks of machines. What policies do is tested in virtual time, by package schedules.
//
// Each test writes one chronicle: what every job did in every daemon, as it happened. Tests wait for what the
// chronicle or a daemon's log says, and judge the chronicle and the ledger afterwards. The soak and the clocks are
// short by default: make soak and make clocks let them go on.
package daemons
