// Package interleavings plays the nastiest interleavings of the lock protocol: each guard of a transaction has a test
// that always goes the same way. Rules of package zktest hold, drop and release exactly the transaction that matters.
//
// The one idea: a test reads like its line in the protocol. T1 to T18 name the transactions of
// docs/protocol.md as they look on the wire, users ask and hold under their clients' names, and a referee
// watches all the time that one of them holds, by what they believe and by what the server says.
//
//	scenario(t, func(w *world) {
//		h, s := w.hold("H"), w.wait("S", at(5))
//		handsOver := w.On(T4(users).From("H")).Hold()
//		released := h.releases()
//		w.reached(handsOver)
//		...                      // what comes between
//		handsOver.Release()
//		require.NoError(t, released())
//	})
//
// Scenarios are in virtual time, on the embedded server. What a real one adds is how it carries out each kind
// of transaction, and how a connection breaks over it: TestTransactionThatIsLostIsDoneOnce plays each of them
// with both faults on the server that LOCKKEEPER_TEST_ZK selects. That an embedded server refuses what a real
// one refuses is shown by package zkdiff, and by package locks for whole requests.
//
// Numbers before tests are those of the study that found the interleavings by model checking. N1 to N15 are cases that
// no other library's suite has: those that are not here are in packages locks, helix and virtualtime. Requests have
// mixed priorities: among equals most faults cannot be seen.
package interleavings
