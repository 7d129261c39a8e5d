// Package temporaltesting lets activities and workflows that need locks be tested in
// the test environments of Temporal's SDK, without any server.
//
//	func TestImportPutsTheTableBack(t *testing.T) {
//		locks := temporaltesting.New(t)
//		env := locks.NewActivityEnvironment(temporal.Declare("Import", importLock))
//		env.RegisterActivity(Import)
//		locks.During("Import", func() { locks.Preempt(lockguard.Requirement{Scope: "table/orders"}) })
//
//		_, err := env.ExecuteActivity(Import, "orders")
//
//		require.ErrorContains(t, err, `preempted by "rival"`)
//		require.Equal(t, "as before", tables["orders"])
//	}
//
// The one idea: nothing is faked that can be real. The plugin is the one of
// production, its locks are those of a ZooKeeper in memory (package zktest), and
// rivals have sessions of their own. So what a test shows holds with a cluster, too.
//
// What a test lets happen has happened when the method returns: [Locks.Hold] and
// [Locks.Preempt] have rivals, [Locks.Lose] and [Locks.Expire] take locks away,
// [Locks.During], [Locks.WhenHeld] and [Locks.WhenWaiting] say when. No test has to
// sleep. One that fails logs every step of every lock. [Replay] replays histories.
package temporaltesting
