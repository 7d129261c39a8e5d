// Package multi tests several locks that are taken as one, recipes.Multi and
// lockguard's DoAll, against a ZooKeeper of package testbed. Curator runs its
// cases M1 to M9 for its multi-lock, too; ML1 and ML2 are about it alone:
//
//	M1   TestLocksAreHeldInsideTheScopeAndNotAfterIt
//	M2   TestServerThatStopsAndRestartsStopsNoMulti
//	M3   TestWaitingMultiWhoseSessionExpiresBeginsAnew
//	M4   none: the nodes of locks stay on purpose, see integration/locks
//	M5   TestMultiInAChroot
//	M6   TestOneMultiSharedByTenHoldsOnceAtATime
//	M7   TestNestedHoldsOfSeveralLocksKeepThemUntilTheLastIsReleased
//	M8   TestStrangerStaysOutOfNestedHoldsOfSeveralLocks
//	M9   TestTwoClientsTakeTurnsWithAllLocks
//	ML1  TestMemberThatCannotBeReleasedDoesNotKeepTheOthers
//	ML2  TestMemberThatCannotBeAcquiredGivesTheFirstBack
package multi
