// Package scheduler decides when jobs run: each tick once in the whole
// cluster, or not at all for a reason that is written down.
//
// The one idea: a tick is an instant that every daemon computes for itself from
// the schedule alone, and a daemon decides the instants of a job one by one, in
// order, by a compare-and-set of the job's last claimed instant in ZooKeeper
// ([recipes.TickLedger]). Whoever's clock is ahead claims first, the others
// find the instant taken. So no clock is compared with another one, no daemon
// leads, and a job that takes a millisecond is as safe as one that takes an
// hour. The lock that the job needs is another matter, taken afterwards by
// lockguard.
//
// A job that is new to the cluster begins with the first tick that comes due in
// any daemon. When several are started at once and their clocks differ, that
// may be one that is still to come on the clocks that are behind: what these
// show before it is no tick of the job, and counts as taken. From the first
// tick on there is no gap.
//
// With [Config.Spread] each job belongs to one daemon: a group of locks, one a
// job, is spread over the daemons ([recipes.Group]), and the owner of a job alone
// asks for its ticks. When it is gone another daemon owns the job and goes on
// from the ledger: it runs the last tick that came due meanwhile, and those
// before it that are not older than [Config.Lateness]; what is older is recorded
// as missed. The ledger still decides every tick, so that two daemons that
// believe that they own a job run no tick twice.
//
// A daemon decides each tick in exactly one way: it runs the tick here, finds
// it taken elsewhere or leaves it to the owner of the job, or skips it for a
// [SkipReason]. [Scheduler.Stats] counts them all, and each skip is one log line
// and one lockguard.Skipped event.
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
// Limits. Ticks that were due while no daemon ran are not made up for, beyond
// [Config.Lateness]. A daemon whose clock is further ahead of the others' than
// that takes from them, when it joins, the ticks that they have not come to yet.
// One that was suspended, or cut off from ZooKeeper, for longer than that and
// whose clock is ahead of the others' may record as missed or undecided what
// they would have run a moment later. The overlap of
// runs is excluded as long as their sessions live: a run that has lost its
// session goes on if its job needs no lock, and the next tick may start beside
// it; only a lock, and its token, exclude that.
//
// Schedules are read by robfig/cron and evaluated here on civil time: a daily
// job runs once on the days the clocks change, too. See [Parse].
package scheduler
