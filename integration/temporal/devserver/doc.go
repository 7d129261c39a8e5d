// Package devserver runs real Temporal servers for tests, benchmarks and demonstrations: Temporal's
// development server, a process of its own, on a free loopback port, with its data in memory or in a file. A
// server can be stopped and started again on the same port.
//
// The one idea is that of zkserver: every method is finished when it returns. A started server takes workflows, a
// stopped one is gone. No test needs to sleep.
//
//	var shared devserver.Shared
//
//	func TestMain(m *testing.M) { os.Exit(shared.Main(m.Run)) }
//
//	func TestWorkflow(t *testing.T) {
//		temporal := shared.Server(t).Client(t) // in a namespace of its own
//		queue := devserver.Name(t)
//		…
//	}
//
// A start costs about a second, a namespace some milliseconds. Tests that do no harm to the server share one (Shared),
// each in a namespace of its own; those that stop it Start one.
//
// The program is found by Find: $TEMPORAL_CLI, else what `make setup` has built into the user's cache.
package devserver
