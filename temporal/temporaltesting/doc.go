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
// # One idea
//
// Nothing is faked that can be real. The plugin is the one of production, its locks
// are those of a ZooKeeper in memory (package zktest), and who gets in the way are
// rivals with a session of their own. So what a test shows about its code holds with a
// cluster as well: fencing tokens grow, cleanups run under the lock, a lock that is
// lost is gone.
//
// What a test lets happen has happened when the method returns: [Locks.Hold] and
// [Locks.Preempt] have rivals, [Locks.Lose] and [Locks.Expire] take locks away,
// [Locks.During], [Locks.WhenHeld] and [Locks.WhenWaiting] say when. No test has to
// sleep. One that fails logs every step of every lock.
//
// # Activities
//
// [Locks.NewActivityEnvironment] is a TestActivityEnvironment whose worker has the
// plugin; [Locks.SetUpActivities] installs it in one that is there. SetWorkerOptions can
// be called once for each, and that is what both do. There is no server behind it: an attempt
// that fails is not made again, HeartbeatTimeout is 0, and activities yield
// with BusyRetry alone.
//
// # Workflows
//
// [Locks.NewWorkflowEnvironment] is a TestWorkflowEnvironment in which temporal.WithLock
// has a real lock, which activities in scope join. Its clock is virtual, and stands
// still while a lock is on its way: a grant, a preemption or a loss takes no time there.
// So things are put on its clock as ever:
//
//	env.RegisterDelayedCallback(func() { locks.Preempt(lockguard.Requirement{Scope: "orders"}) }, 10*time.Minute)
//	env.RegisterDelayedCallback(rival.Release, time.Hour) // the lock is busy until then
//
// An AcquireTimeout of WithLock passes on that clock. Real time is what passes for
// everything that a Guard measures: leases, minimum runtimes, cleanup timeouts, MaxHold,
// and the waiting of activities that declare locks of their own, for which let
// [Locks.WhenWaiting] release the rival. A hook of OnPreempt that is to overrun its
// grace can be had with [Locks.Lose] within it.
//
// Activities that are mocked with values (OnActivity(…).Return(1, nil)) do not pass
// interceptors: they take no locks, join no holds, and During does not see them. Those
// that are mocked with functions do. Unlike in the SDK's environment alone, activities
// with WaitForCancellation, which all in scope of a lock have, get the cancellation
// and are waited for, as on a server.
//
// # Histories
//
// [Replay] replays recorded histories with the plugin installed, and says which part of
// one does not fit. [Record] makes such a file.
package temporaltesting
