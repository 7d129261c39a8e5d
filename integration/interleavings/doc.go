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
package interleavings
