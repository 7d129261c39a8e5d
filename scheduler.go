package lockkeeper

import (
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

// A Job is work with a name, a schedule, and the locks that it needs. Name and Work
// have to be set. Schedule is that of cron, with or without seconds, or "@every 10s".
type Job = jobs.Job

// Work is what a Job runs: a Func, a *Command or an *HTTP.
type Work = jobs.Work

// A Func is a Go function as Work.
type Func = jobs.Func

// A Command is a program as Work, in a process group of its own.
type Command = jobs.Command

// HTTP is a request to a server as Work.
type HTTP = jobs.HTTP

// A Run is one run of a Job, as its Work sees it.
type Run = jobs.Run

// A Scheduler runs jobs at the instants of their schedules, each once in the cluster.
// Scheduler.Run returns when its context has ended and the runs have drained.
type Scheduler = scheduler.Scheduler

// NewScheduler returns a Scheduler for all, which acquires their locks through guard
// and records their ticks through client. guard may be nil if no job needs a lock. For
// other settings see scheduler.Config.
//
// The error says everything that is wrong with the jobs.
func NewScheduler(client *Client, guard *Guard, all ...Job) (*Scheduler, error) {
	cfg := scheduler.Config{Ledger: client.TickLedger("")}
	if guard != nil {
		cfg.Guard = guard
	}
	s, err := scheduler.New(cfg)
	if err != nil {
		return nil, err
	}
	if _, err := s.Reconcile(all); err != nil {
		return nil, err
	}
	return s, nil
}
