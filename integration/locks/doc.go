// Package locks holds the acceptance tests of the priority lock: what the own
// suites of Curator, Kazoo, etcd, Helix and go-zookeeper ask of a lock, and what
// none of them asks. Together with packages helix and tickledger it is the
// conformance suite of the recipes: each test runs on a real server and on the
// embedded one, see package testbed.
//
// Each test is one case, named after the behaviour, given, when, then; a
// comment gives the name of the case. Tests share a server and have a root of
// their own on it; only those that stop a server start one. A test that fails
// prints what each of its requests was told, in order.
//
// The cases, and the tests that show them:
//
//	Curator, a mutex
//	M1   TestLockIsHeldUntilTheEndOfTheScopeAndNotAfter
//	     TestWorkRunsUnderTheLockAndTheLockEndsWithIt
//	M2   TestServerThatStopsAndRestartsStopsNobody
//	M3   TestWaiterOfTheSessionThatExpiredQueuesAgainAndAcquires
//	M4   TestWorkersThatAreDoneLeaveNothingButTheirCount
//	     TestMemoryOfRemovedLockNodeGrantsNothing
//	M5   TestChrootHoldsEverything
//	M6   TestThreadsThatShareOneLockObjectAreNeverInsideTogether
//	M7   TestNestedHoldsKeepTheLockUntilTheLastIsReleased
//	M8   TestStrangerStaysOutOfANestedHold
//	M9   TestExactlyOneOfTwoClientsHoldsAndTheOtherIsNext
//	X1   TestLockNeedsItsOwnNodeAlone
//	X2   TestHolderThatIsAskedToGoRunsItsHookOnceAndGivesWay
//	X3   none: a lock ends with its session, there are no persistent ones
//	L1   TestListingThatFailsIsToldAndLeavesNoRequest
//	L2   TestServerThatDiesWithTheSessionDuringTheListingIsTold
//	SM2  TestAcquireTimeoutEndsNotEarlierAndNotMuchLater
//	A1   TestLockBelongsToTheUserWhoMadeIt
//	A2   TestLevelsThatExistKeepTheirAccessControlLists
//
//	Kazoo
//	K1   TestOnlookerSeesWhoHoldsTheLock
//	K2   TestWaitersAreServedInTheOrderOfTheList
//	     TestMoreImportantWaitersAreServedFirst
//	K3   TestWaiterOfTheExpiredSessionAcquiresWhenTheHolderOfAnotherReleases
//	K4   TestTryOnHeldLockIsRefusedAndLeavesNothingBehind
//	K5   TestFirstAcquireEverMakesEverythingThatIsMissing
//	K6   TestCancelledWaiterLeavesAndTheHolderDoesNotNotice
//	K7   TestHolderThatAsksAgainIsAStrangerAndQueues
//	K8   TestSecondTryOnOneObjectIsRefused
//	K9   TestOfTwentyThreadsThatTryExactlyOneGetsTheLock
//	K10  TestTwentyThreadsTakeTwentyTurns
//	K11  TestReleasedLockCanBeTakenAgain
//	K12  none: see X3
//	K13  TestAcquireTimeoutEndsNotEarlierAndNotMuchLater
//	K14  TestForeignNodesUnderTheLockAreIgnored
//	K15  none: a foreign node never counts, see K14
//
//	etcd
//	T1   TestDeadRequestIsNeverGranted
//	T2   TestSecondReleaseSaysThatItWasReleased
//	T3   TestTryOnHeldLockIsRefusedAndLeavesNothingBehind
//	T4   TestDeathOfTheWaiterInFrontGrantsNothing
//	T5   TestSessionThatLocksTwiceHoldsOnce
//
//	Helix, in package helix
//	H1   TestMoreImportantStrangerCannotReleaseAndMayLeave
//	     TestStrangerCannotReleaseButGetsTheLockByAsking
//	H2   TestLowerPriorityRequestIsRefusedAndHolderNotNotified
//	H3   TestHigherPriorityRequestIsGrantedWhenTheCleanupIsDone
//	H4   TestPoliteRequestFailsWhenTheCleanupTakesLongerThanItWaits
//	H5   TestForcefulRequestTakesTheLockWhenItsWaitingIsOver
//	H6   TestWaitingRequestIsDisplacedByAHigherOneAndStaysQueuedBehind
//	H7   TestEqualIsRefusedWhileTheLeaseRunsAndCannotReleaseIt
//	     TestEqualTakesTheLockWhoseLeaseHasRunOut
//	H8   TestOfManyThatTryAtOnceExactlyOneHolds
//	H9   TestHandleCannotBeClosedWhileItHolds
//	     TestHandleThatIsClosedSaysSo
//
//	go-zookeeper
//	Z1   TestWaiterComesBeforeTheHolderThatComesBack
//	Z2   TestPartOfThePathMayExist
//	Z3   TestContenderNameTellsItsPlace, in package recipes: it needs no server
//
//	Nobody
//	N1   TestTransactionOfARequestThatIsGoneChangesNothing
//	N2   TestWaiterWhoseNodeIsDeletedGetsAnErrorAndNeverTheLock
//	     TestHolderWhoseNodeIsDeletedIsToldAndTheNextOneHolds
//	N3   TestRequestWhoseAnswerIsLostAtAnyStepGoesOn
//	N4   TestRequestWhoseAnswerIsLostAtAnyStepGoesOn
//	N5   TestHolderThatIsCutOffKnowsBeforeAnotherClientIsGranted
//	N6   TestHolderThatWasStoppedKnowsBeforeItsNextStepAndItsTokenIsRefused
//	N7   TestAcquireThatIsCancelledAtAnyStepLeavesNothingBehind
//	     TestAcquireThatIsCancelledOnASlowNetworkLeavesNothingBehind
//	N8   TestTriesOnAHeldLockCostNoMemory
//	N9   TestAcquireReturnsAtItsDeadlineFromAServerThatNeverAnswers
//	N10  TestTokenGrowsWithEveryGrantHoweverItCameAbout
//	N11  TestTokensKeepForcefulClientsApart
//	N12  TestHolderThatReleasesByItselfGivesToTheOneThatAsked
//	N13  TestPendingPreemptorKeepsItsPlaceBeforeALessImportantOne
//	N14  TestExpiryAmongManyEventsIsNotMissed
//	N15  TestClientWhoseConnectionBreaksAsItShowsItsCredentialsRecovers
//
// Cases of other kinds of locks (a read-write lock, a semaphore, a lock of
// several scopes, an election, a barrier) are not here.
package locks
