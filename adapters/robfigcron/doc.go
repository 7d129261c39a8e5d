// Package robfigcron runs the jobs of github.com/robfig/cron/v3 under locks,
// for programs that have their schedules there already.
//
// The one idea: the lock is one more wrapper in the chain, and the context that
// cron does not give to a job is the lock.
//
//	c := cron.New(cron.WithChain(cron.Recover(logger)))
//	wrap := robfigcron.JobWrapper(guard, lockguard.Requirement{Scope: "shop/report"})
//	_, err := c.AddJob("@hourly", cron.NewChain(wrap).Then(robfigcron.Job(report)))
//
// where report is a func(context.Context) error whose context is that of the
// hold (lockguard.FromContext): it ends, with its cause, when the job is
// preempted, when its lease is over and another request wants the lock, when the lock is
// lost, and when the context of WithContext ends.
//
// # What a lock does not do
//
// It keeps two runs apart. It does not make one run of each tick: a job that
// takes a second runs on a machine whose clock is two seconds late once more.
// Package scheduler runs each tick once in the cluster.
package robfigcron
