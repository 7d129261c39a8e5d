// Package interleavings plays the nastiest interleavings of the lock protocol,
// each as one test that always goes the same way: rules of package zktest hold,
// drop and release exactly the transaction that matters, so nothing is left to
// chance.
//
// The one idea: a test reads like its line in the protocol. T1 to T8 name the
// transactions of docs/protocol.md as they look on the wire, users ask and hold
// under their clients' names, and a referee watches all the time that one of
// them holds, by what they believe and by what the server says.
//
//	scenario(t, func(w *world) {
//		h, s := w.hold("H"), w.ask("S", at(5))
//		s.queued()
//		handsOver := w.On(T4(users).From("H")).Hold()
//		released := h.releases()
//		w.reached(handsOver)
//		...                      // what comes between
//		handsOver.Release()
//		require.NoError(t, released())
//	})
//
// scenario plays the body twice: on the embedded server, in virtual time, and on
// a real one behind zktest.Proxy. embeddedOnly is for what no real server can
// do. LOCKKEEPER_TEST_ZK=embedded leaves the real ones out, see package testbed.
// Requests have mixed priorities: among equals most faults cannot be seen.
//
// The interleavings, numbered as in the study that found them by model checking,
// and their tests; (e) is on the embedded server alone, because of what follows:
//
//	 1  TestWaiterThatArmsItsWatchOnAHolderThatIsGoneGrantsItself
//	 2  TestWaiterThatArmsItsWatchOnOneThatWasGrantedMeanwhileIsNext
//	    TestWaiterThatArmsItsWatchOnOneThatHasLeftIsNext
//	 3  TestHandOverToOneThatGivesUpReachesTheNext
//	    TestGrantWhoseCallerHasLeftIsHandedOn
//	 4  TestGrantOfASessionThatExpiresBeforeItLearnsGoesToTheNext
//	 5  TestHandOverPastAMoreImportantNewcomerStopsNobody
//	 6  TestOfTwoThatFoundTheLockIdleOneHoldsAndTheOtherJoinsBehindIt
//	 7  TestRememberedVersionIsOfNoUseOnceAnotherHasHeld
//	 8  TestGrantWhoseReplyIsLostIsFoundAfterTheReconnect
//	    TestGrantWhoseReplyIsLostIsFoundBehindAFollowerThatLags (e): as 20
//	 9  TestGrantWhoseReplyIsLostAndThatIsTakenOverMeanwhileQueuesAnew
//	10  TestReleaseWhoseReplyIsLostIsDone
//	    TestLeavingWhoseRequestIsLostIsRepeated
//	11  TestRequestThatOutlivesItsSessionInsideTheLibraryDoesNothing
//	    TestTransactionOfARequestThatIsGoneIsRefused
//	    TestRequestThatSucceedsAfterItsCallerHasLeftIsUndone
//	12  TestReaderThatComesInBesideAPreemptedOneIsPreemptedAtOnce
//	13  TestFirstWaiterRunsWhenAllReadersLeaveAtOnceAndNobodyHandsOver
//	    TestReadersThatLeaveAtOnceEachTakeTheOtherForAlive
//	14  TestLastReaderWhoseSuccessorHasGrantedItselfOnlyLeaves
//	    TestLastReaderBesideWhomAnotherComesInOnlyLeaves
//	15  TestTokenThatIsReadAroundATakeoverIsNeverThatOfTheNewHolder
//	16  TestLeaseIsMeasuredOnTheServersClock (e): clocks that differ by an hour
//	17  TestPolitePreemptorThatGivesUpNeverHolds
//	18  TestTakeoverAndHandOverAtTheSameMomentGrantOnce
//	    TestHandOverToAnotherAfterATakeoverGrantsNobody
//	19  TestHolderWhoseNodeIsDeletedIsToldAndTheFirstWaiterHolds
//	20  TestWaiterWhoseFollowerLagsDecidesOnThePastAndIsRefused (e): a follower that
//	    is behind by a number of transactions
//	    TestGrantThatWasDecidedBeforeAnotherCameIsRefused
//	    TestWaiterThatReadsGLateSeesWhoHasComeMeanwhile
//	21  TestSecondWaiterEnforcesTheLeaseOfTheOneThatWasInFront (e): half a minute,
//	    to the millisecond
//	22  TestFirstToArriveIsGrantedWhateverItsGuid
//	23  TestWaiterThatIsGrantedBeforeItWatchesItselfHolds
//	24  TestHandOverPastAReaderThatGrantsItselfIsRefused
//	25  TestTokenIsTheOneOfTheGrantWhoeverWroteTheNodeLater
//
// Requests that change while they wait, and locks that an operator breaks:
//
//	26  TestWaiterMovesToThePlaceOfItsNewPriority
//	    TestTermsThatAreTheSameAreNotWritten
//	    TestHolderHearsOfOneThatMovesAndStillAsks
//	27  TestWaiterThatMovesAsItIsHandedTheLockIsGrantedOnce
//	    TestWaiterThatChangesInItsPlaceAsItIsHandedTheLockIsGrantedOnce
//	28  TestWaiterWhosePredecessorGoesAsItMovesIsNext
//	29  TestMoveWhoseAnswerIsLostIsFoundOrMadeAgain
//	    TestChangeWhoseAnswerIsLostIsFoundOrMadeAgain
//	30  TestWaiterWhoseSessionEndsAsItMovesQueuesAgainUnderTheNewTerms
//	31  TestWaiterThatMovesTwiceStandsWhereItWasSentLast
//	32  TestRequestThatIsWithdrawnLeaves
//	    TestRequestWhoseTermsCanNeverWorkLeaves
//	33  TestTakeoverUnderWayAsTheTermsChange
//	    TestRequestThatBecomesForcefulTakesOverAndTheVictimKnowsForWhat
//	    TestTakeoverForAnOverrideWhoseAnswerIsLostIsTold
//	    TestHolderIsAskedAgainOnlyForWhatConcernsIt
//	34  TestPatientRequestWaitsForADecision
//	35  TestTakeoverWaitsForTheWordOfTheCaller
//	36  TestCrowdThatIsSentUpAndDownIsServed
//	37  TestHolderWhoseLockIsBrokenIsToldAndTheFirstWaiterHolds
//	    TestReaderWhoseLockIsBrokenIsTheOnlyOne
//	    TestBreakThatCannotBeIsRefused
//	38  TestBreakUnderWayHitsTheOneThatIsMeantOrNobody
//	    TestVictimThatWasAwayLearnsWhoHasBrokenItsLock
//	    TestWaiterThatIsGrantedAndBrokenBeforeItHearsIsTold
//
// 39 to 45 are about the removal of idle locks (collection_test.go), 50 to 67
// about lock-delays (delay_test.go, delay_notes_test.go), 68 about knocks (knock_test.go).
package interleavings
