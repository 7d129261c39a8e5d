// Package gocron makes Lockkeeper the locker or the elector of
// github.com/go-co-op/gocron/v2, and its tasks work under locks. It is a module
// of its own, so that Lockkeeper itself does not depend on gocron.
//
// The one idea: of the three, [Task] alone can tell the work that its lock is
// gone. Prefer it.
//
//	s, err := gocron.NewScheduler()
//	_, err = s.NewJob(gocron.CronJob("0 * * * *", false),
//		gocron.NewTask(lockkeeper.Task(guard, lockguard.Requirement{Scope: "shop/report"}, report)))
//
// where report is a func(context.Context) error whose context is that of the
// hold (lockguard.FromContext).
//
//   - [Task] takes the lock inside of the run. Its context ends on preemption,
//     loss and Shutdown; hooks clean up; the token is at hand; several jobs can share
//     a lock.
//   - [NewLocker] takes the lock of the job's name around the run, for tasks that
//     are there already. gocron cannot tell a task of a loss or of a preemption.
//   - [NewElector] lets one instance run all jobs.
//
// None of them makes one run of each tick: see [NewElector], and package scheduler.
package gocron
