// Package scheduler decides when jobs run: each tick once in the whole
// cluster, or not at all for a reason that is written down.
//
// The one idea: a tick is an instant that every daemon computes for itself from
// the schedule alone, and a daemon decides the instants of a job one by one, in
// order, by a compare-and-set of the job's last claimed instant in ZooKeeper
// ([ticks.Ledger]). The first one claims, the others find the instant taken.
// So no daemon leads, and a job that takes a millisecond is as safe as one that
// takes an hour. The lock that the job needs is another matter, taken afterwards by
// lockguard.
//
// Schedules are read by the earlier one of two clocks: the machine's, and that of
// ZooKeeper's leader and [ticks.Tolerance] more. So a daemon whose clock is
// ahead takes no tick from the others, and one whose clock is behind is late
// with those that no other daemon runs. Both say so in their logs. The ledger
// refuses an instant that is in the future of ZooKeeper's clock; the tick then
// waits.
//
// A job that is new to the cluster begins with the first tick that comes due in
// any daemon. When several are started at once and their clocks differ, that
// may be one that is still to come on the clocks that are behind: what these
// show before it is no tick of the job, and counts as taken. From the first
// tick on there is no gap.
//
// With [Config.Spread] each job belongs to one daemon: a group of locks, one a
// job, is spread over the daemons ([group.Group]), and the owner of a job alone
// asks for its ticks. When it is gone another daemon owns the job and goes on
// from the ledger, as a daemon does that was down meanwhile. The ledger still
// decides every tick, so that two daemons that believe that they own a job run
// no tick twice.
//
// Each tick ends in exactly one way, which the ledger records in the transaction
// that decides it: it ran (where, how long, under which token, with what
// result), it was interrupted because its process died, or it was skipped for a
// [SkipReason]. [Scheduler.Stats] counts what this daemon did, and each skip is
// one log line and one lockguard.Skipped event.
//
// A daemon that has more to decide than it can stays no further behind than a
// tick may be late: lanes stand in line for the ledger, and whose time is up
// before their turn has asked for nothing.
//
// What a job wants is said in its policies (package jobs), and they hold in the
// whole cluster, because what they need to know is in the ledger: whether a run
// goes on, which ticks wait for its end, how many runs in a row have failed. A
// tick that comes due while a run goes on is skipped, waits, replaces it or runs
// beside it (jobs.Overlap). One that no daemon saw in time is made up for or
// recorded as missed (jobs.Misfire). [Scheduler.Reconcile] changes the jobs while
// they run, and [Drain] says how all of it ends.
//
//	s, err := scheduler.New(scheduler.Config{Guard: guard, Ledger: client.ticks.Ledger("")})
//	if err != nil {
//		return err
//	}
//	if err := s.Add(nightly); err != nil {
//		return err
//	}
//	return s.Run(ctx) // returns when ctx has ended and the runs have drained
//
// Limits. A daemon that may not ask for ZooKeeper's clock goes by its own until it
// has claimed something. One that was suspended, or cut off from ZooKeeper, for
// longer than [Config.Lateness] may record as missed or undecided what daemons whose
// clocks are behind would have run a moment later. The overlap of runs is excluded as
// long as their sessions live: a run that has lost its session goes on if its job
// needs no lock, and the next tick may start beside it; only a lock, and its
// token, exclude that. A retry and a preempted run that begins anew are the same
// tick: the work has to bear being begun twice.
//
// Schedules are read by robfig/cron and evaluated here on civil time: a daily
// job runs once on the days the clocks change, too. See [Parse].
package scheduler
