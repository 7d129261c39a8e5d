// Package daemons tests whole daemons on a real ZooKeeper: a client, a guard,
// a ledger and a scheduler each, several of them at once, some in processes of
// their own that can be killed. Nothing is faked but the clock that schedules
// are read by.
//
// Each test writes one chronicle: what every job did in every daemon, as it
// happened. Tests wait for what the chronicle or a daemon's log says, never for
// time to pass, and judge the chronicle afterwards.
package daemons
