// Package scheduler decides when jobs run: each tick once in the whole
// cluster, or not at all for a reason that is written down.
//
// The one idea: a tick is an instant that every daemon computes for itself from
// the schedule alone, and a daemon decides the instants of a job one by one, in
// order, by a compare-and-set of the job's last claimed instant in ZooKeeper
// ([ticks.Ledger]). The first one claims, the others find the instant taken.
// So no daemon leads. The lock that the job needs is taken afterwards, by lockguard.
//
//	s, err := scheduler.New(scheduler.Config{Guard: guard, Ledger: client.TickLedger("")})
//	if err != nil {
//		return err
//	}
//	if err := s.Add(nightly); err != nil {
//		return err
//	}
//	return s.Run(ctx) // returns when ctx has ended and the runs have drained
//
// Each tick ends in exactly one way, which the ledger records: it ran, it was
// interrupted because its process died, or it was skipped for a [SkipReason]. The
// policies of a job (package jobs) hold in the whole cluster, because the ledger has
// what they need. [Config.Spread] gives each job to one daemon, [Scheduler.Reconcile]
// changes the jobs while they run, [Drain] says how all of it ends, and [Parse] which
// schedules there are. Clocks and limits: [Scheduler].
package scheduler
