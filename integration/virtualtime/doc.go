// Package virtualtime tests the whole stack, guard, client and server, against
// the clock: what happens at which instant, when hours pass.
//
// The idea: in a bubble of testing/synctest nothing takes time but what says so.
// The embedded server of package zktest lives in there too, so a request is
// granted in the instant in which it could be, a session expires in the instant
// in which its server says so, and three hours of patience pass in no time. So
// a test says when each thing happens, to the nanosecond, and a deadline that is
// a tick too late fails it:
//
//	holder: 0s Acquired, 1h0m0s PreemptRequested, 1h0m0s CleanupStarted, …
//
// What two programs do in one and the same instant has no order; no test
// depends on it.
//
// The real server has no such clock. What it does at the same points is tested
// in packages locks and helix, in real time and with tolerances; what becomes of
// stopped processes, in package nemesis.
package virtualtime
