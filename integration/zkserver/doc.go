// Package zkserver runs real ZooKeeper servers for tests, benchmarks and demonstrations: one server, or an
// ensemble, of three unless told otherwise. They listen on free loopback ports and have their data in a
// temporary directory (in memory where possible). A server can be stopped, killed, paused, resumed and
// started again on the same data and port, and a chosen session can be expired.
//
// The one idea: every method is finished when it returns. A started server serves, a killed one is gone, a paused one
// does not answer, an expired session is closed on the server. No test needs to sleep.
//
// In a test, Start and StartEnsemble clean up after themselves and print the server's log when the test fails:
//
//	func TestSurvivesServerCrash(t *testing.T) {
//		zk := zkserver.Start(t)
//		client := connect(t, zk.Connect())
//		require.NoError(t, zk.Kill())
//		require.NoError(t, zk.Restart(t.Context()))
//		…
//	}
//
// What else can go wrong is asked for when the server starts: the network between the members of an ensemble
// (WithPeerLinks), its wall clock (WithSteppableClock), its disk (WithFullableDisk).
//
// A start costs about half a second. A package with many tests that do no harm to the server shares one (see Shared)
// and gives each test a root path of its own (see Root). Programs use Run and RunEnsemble, and end with Close.
//
// ZooKeeper itself is found by Find: in $ZOOKEEPER_HOME, or as Debian's package; `make setup` installs the latter.
package zkserver
