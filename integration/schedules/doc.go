// Package schedules tests the policies of package scheduler on everything that
// is real below it: the guard, the clients, their ledgers, and the embedded
// server of package zktest, in virtual time.
//
// The idea: whatever the policy, the faults and the number of daemons, the
// ledger is a set of books that has to balance. A chronicle, a client of its own
// that nothing happens to, reads every state of every job while a test goes on.
// In the end each instant of the schedule, from the first one to the last one
// that was decided, has exactly one entry, goes on or waits; and the work that
// was seen at work, by the id of its run, is what the entries say. So a test
// says what is to happen, and that nothing else happened is checked for all of
// them:
//
//	requireTicks(t, w.outcomes("a"), "ran", "overlap", "overlap", "ran")
//
// The tests of package scheduler itself do the same with a ledger and a guard in
// memory, which fail as the test says. Package daemons does it with processes
// and real servers.
package schedules
