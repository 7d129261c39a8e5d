// Package helix holds the acceptance tests that Apache Helix's own lock asks
// of a lock with priorities, on a real ZooKeeper server and on the embedded one
// (see package testbed): the cases of Helix's two suites,
// TestZKHelixNonblockingLock (1 to 8) and its WithPriority (9 to 14), and cases
// 33 to 52, which Helix's lock fails and its suites leave out.
//
// Each test is one case or more, named after the behaviour, given, when, then; a
// comment gives its number. Times are scaled down, and where an order of events
// says it all, no time is measured. Three things differ:
//
//   - Helix refuses at once whom it does not grant. That is the acquire timeout
//     0 here (case 4); without it a request stands in the queue.
//   - A waiter that a more important one overtakes is refused by Helix. Here it
//     keeps its place behind that one, and is notified by Displaced (14).
//   - Helix's unlock takes a name, so that strangers may call it. Here only the
//     Hold can be released: the stranger of case 4 has one that is over.
//
// Cases 15 to 32 are about other recipes; integration/scenarios.md says who shows 43, 44 and 52. Package locks
// shows 1 (TestOnlookerSeesWhoHoldsTheLock), 10 (TestTryOnHeldLockIsRefusedAndLeavesNothingBehind), 40 and 41
// (TestAcquireThatIsCancelledAtAnyStepLeavesNothingBehind), 42 (TestCrowdOfImpatientClientsIsNeverInsideTogether)
// and 50 (TestHolderThatIsCutOffKnowsBeforeAnotherClientIsGranted), package lockguard 45
// (TestLossNeverShowsBeforeTheContextHasEnded).
// Some are part of another case: 2 and 5 of 4 and 8, 9 of 4 and 11, 35 and 37 of 33, 38 of 3, 46 of 49, 47 of 3 and 4.
package helix
