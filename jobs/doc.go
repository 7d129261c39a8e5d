// Package jobs says what runs: a [Job] has a name, a schedule, the locks that
// it needs and its [Work], which is a Go function ([Func]), a command ([Command])
// or a request to a server ([HTTP]); package temporal starts workflows.
//
// The one idea: when the context of the work ends, the work ends, whole. For a
// Go function that is its own duty. For a command it is done from outside:
// all its processes are one process group that hears SIGTERM, gets its grace,
// and is killed after it; [Command.Run] returns when no process of the group is
// left, so that the lock is not released while a forgotten grandchild runs; and
// the group does not survive the program that runs it, not even kill -9.
//
//	job := jobs.Job{
//		Name:     "compact",
//		Schedule: "*/5 * * * *",
//		Requirements: []lockguard.Requirement{{Scope: "cluster/orders"}},
//		Work: &jobs.Command{Argv: []string{"/usr/local/bin/compact", "--all"}},
//	}
//	if err := job.Validate(); err != nil {
//		return err // everything that is wrong, at once
//	}
//	return job.Do(ctx, guard, jobs.Run{Scheduled: tick, Stdout: jobs.NewTail(0)})
//
// The schedule is data here; package scheduler reads it.
package jobs
