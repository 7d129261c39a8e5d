package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// requestsOf returns what all requests for locks do now, if a job runs to which
// that matters. What cannot be read is left out and told by the error; nil: all
// of it.
func requestsOf(ctx context.Context, all ensembles, states ...ticks.State) ([]live.Request, error) {
	if !slices.ContainsFunc(states, anyAlive) {
		return []live.Request{}, nil
	}
	found, problem := all.locks(ctx) // those that cannot be read are named where locks are asked for
	if problem != nil {
		problem = fmt.Errorf("what runs wait for is not known: %w", problem)
	}
	if len(found) == 0 {
		return nil, problem
	}
	frozen, _, err := all[0].client.Frozen(ctx)
	requests := live.Requests(lockViews(found), frozen)
	if requests == nil {
		requests = []live.Request{}
	}
	return requests, errors.Join(problem, err)
}

func anyAlive(s ticks.State) bool {
	return slices.ContainsFunc(s.Runs, func(r ticks.Run) bool { return r.Alive })
}

// newJobView joins what the file says of a job, nil for nothing, with what the
// ledger knows, and with what requests for locks do; nil: they were not read.
func newJobView(job *jobs.Job, s ticks.State, requests []live.Request, now time.Time) views.Job {
	v := views.NewJob(s, requests, now)
	if job == nil {
		return v
	}
	v.Name = job.Name
	v.Schedule, v.Timezone = specOf(*job)
	for _, r := range job.Requirements {
		v.Locks = append(v.Locks, r.Scope)
	}
	if v.DecidedUntil != nil {
		now = *v.DecidedUntil
	}
	if next, ok := nextRun(*job, v.Paused, now); ok {
		v.Next = new(next.UTC())
	}
	return v
}
