// Package testbed is the ZooKeeper that a conformance test runs on: a real
// server or the embedded one of package zktest, whichever the environment
// variable LOCKKEEPER_TEST_ZK asks for.
//
//	LOCKKEEPER_TEST_ZK=real      Apache's server, a Java process (the default)
//	LOCKKEEPER_TEST_ZK=embedded  zktest, in the process of the test, over TCP
//
// The one idea: a test says what happens to its server, and never which one it
// is. Server is all that it may ask for: both kinds can do all of it, so no test
// is skipped on either. What only one kind can do is no conformance test, and
// has no place here: ensembles, logs and JVMs are tested by the packages that
// use zkserver itself, virtual time and faults inside the server by those that
// use zktest itself.
//
// The real server is the oracle. A test that passes on the embedded one alone
// has found an error of the embedded one.
//
//	var shared testbed.Shared
//
//	func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }
//
//	func TestLockIsExclusive(t *testing.T) {
//		client := connect(t, shared.Server(t).Addr(), testbed.Root(t))
//		…
//	}
package testbed
