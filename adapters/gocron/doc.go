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
//     loss and Shutdown; hooks clean up; the token is at hand; the lock is what the
//     requirement says; several jobs can share one.
//   - [NewLocker] takes the lock of the job's name around the run, for tasks that
//     are there already. gocron's interface has no way to tell a task of a loss or
//     of a preemption: it goes on, and waiters wait for its end, unless they
//     take the lock by force.
//   - [NewElector] lets one instance run all jobs.
//
// # What none of them does
//
// gocron tells neither its locker nor its tasks which tick they run for, and
// its instances compute their ticks on their own clocks. So a lock keeps two runs
// apart, but a job that is done before a late instance comes runs there once
// more (gocron's issue 841). With an elector each instant runs once as long as
// the leader stays; around a change of the leader a tick may run twice, or not
// at all. A tick that runs once in the whole cluster needs a record of the tick,
// not a lock: package scheduler of Lockkeeper keeps one.
//
// # Two of gocron's habits
//
// Nothing is planned while Lock waits: a locker that waits stalls the schedule of
// its job, so one of ours tries, or waits as long as the requirement says.
//
// Shutdown ends the contexts of jobs, waits for them as long as WithStopTimeout
// says, and then unlocks with a context that has ended; our locks are released
// all the same. A panic of a task ends the program, unless a listener is there for
// it (gocron.AfterJobRunsWithPanic); with Task it becomes the error of the run.
package gocron
