// Package virtual is the world of tests in virtual time: an embedded server, and the programs and clients that use it,
// in a bubble of testing/synctest.
//
// The one idea: nothing takes time but what says so. A request is granted in the instant in which it can be, a session
// expires in the instant in which its server says so, and hours pass in no time. So a test says when each thing
// happens, and waits for nothing.
//
//	virtual.Run(t, func(w *virtual.World) {
//		holder, waiter := w.Program("holder", time.Hour), w.Program("waiter", time.Hour)
//		held := holder.Do(lockguard.Requirement{}, virtual.UntilCancelled)
//		w.Until(time.Minute)
//		...
//		require.Equal(t, []string{"0s Acquired", "1m0s PreemptRequested"}, holder.Told())
//	})
//
// It is no part of package harness: a Fixture there is a server behind a network, of which a test sees what any client
// sees. A World is the server itself: its nodes, sessions, frames and faults, without a connection that could be
// delayed with the others. Requests of clients are those of the harness.
package virtual
