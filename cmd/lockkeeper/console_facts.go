package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/observability/console"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// consoleFacts are what the console shows beside locks. All of it is looked up when
// a client reads it.
type consoleFacts struct {
	client    *lock.Client
	board     *live.Board
	config    func() *config.Config // that is in force; it returns nil where there is no file
	desk      *emergency.Desk       // nil: what is in ZooKeeper is all there is
	workflows *workflowApprovals    // nil: no questions in workflows
}

func (f *consoleFacts) all() console.Facts {
	return console.Facts{
		Approvals: f.approvals, Audit: f.audit, Frozen: f.frozen, Groups: f.groups, Job: f.job, Jobs: f.jobs,
		Overrides: f.overrides,
	}
}

func (f *consoleFacts) jobs(ctx context.Context) ([]views.Job, []lock.Unreadable, error) {
	states, left, err := f.client.TickLedger("").States(ctx)
	if err != nil {
		return nil, nil, err
	}
	return jobViews(f.config(), states, f.requests(ctx, states...), left, f.client.Now()), left, nil
}

// requests is what all requests for locks do, if a job runs to which that matters.
func (f *consoleFacts) requests(ctx context.Context, states ...ticks.State) []live.Request {
	if !slices.ContainsFunc(states, anyAlive) {
		return []live.Request{}
	}
	frozen, _, _ := f.client.Frozen(ctx) // else less is known
	return append([]live.Request{}, live.Requests(f.board.Now().Locks, frozen)...)
}

// frozen are the requests that overrides keep out.
func (f *consoleFacts) frozen(ctx context.Context) ([]lock.FrozenRequest, []lock.Unreadable, error) {
	return f.client.Frozen(ctx)
}

// nextTicks is how many ticks to come the console shows of a job.
const nextTicks = 10

func (f *consoleFacts) job(ctx context.Context, name string) (views.JobDetail, error) {
	cfg, now := f.config(), f.client.Now()
	job := jobOf(cfg, name)
	state, err := f.client.TickLedger("").State(ctx, name)
	if err != nil {
		return views.JobDetail{}, err
	}
	if job == nil && !isKnown(state) {
		return views.JobDetail{}, &console.NotKnownError{
			What: fmt.Sprintf("there is no job %q: the configuration does not have it, and no daemon has run it", name),
		}
	}
	state.Job = name
	requests := f.requests(ctx, state)
	j := views.JobDetail{Job: newJobView(job, state, requests, now), History: views.NewHistory(state, requests,
		len(state.History), now).History}
	if isTemporals(cfg, name) {
		j.By = "temporal"
	}
	if job != nil {
		ticks, err := ticksOf(*job, now, nextTicks)
		if err != nil {
			return j, err
		}
		for _, t := range ticks {
			j.Ticks = append(j.Ticks, t.NextTick)
		}
	}
	return j, nil
}

func (f *consoleFacts) groups(ctx context.Context) ([]views.Group, []lock.Unreadable, error) {
	states, left, err := group.All(ctx, f.client.Client)
	if err != nil {
		return nil, nil, err
	}
	all := make([]views.Group, len(states))
	for i, s := range states {
		all[i] = views.NewGroup(s)
	}
	return all, left, nil
}

func (f *consoleFacts) overrides(ctx context.Context) ([]views.Override, []lock.Unreadable, error) {
	now := f.client.Now()
	var active []emergency.Active
	if f.desk != nil {
		if status := f.desk.Status(); status.Err != nil {
			return nil, nil, status.Err
		}
		active, _ = f.desk.Active()
	} else {
		posted, err := f.client.Overrides().List(ctx)
		if err != nil {
			return nil, nil, err
		}
		active = inForce(nil, posted, now)
	}
	var ticks []ticks.State
	if slices.ContainsFunc(active, func(a emergency.Active) bool { return a.Kind == override.Pause }) {
		ticks, _, _ = f.client.TickLedger("").States(ctx) // else less is known
	}
	frozen, _, _ := f.client.Frozen(ctx) // likewise
	requests, jobs := live.Requests(f.board.Now().Locks, frozen), jobsThatAre(f.config(), ticks)
	all := make([]views.Override, len(active))
	for i, a := range active {
		all[i] = newOverrideView(a, requests, jobs, now)
	}
	return all, nil, nil
}

func (f *consoleFacts) approvals(ctx context.Context) ([]views.Approval, []lock.Unreadable, error) {
	open, left, err := f.client.Approvals().List(ctx)
	if err != nil {
		return nil, nil, err
	}
	if f.workflows != nil {
		asked, err := f.workflows.List(ctx)
		if err != nil {
			return nil, nil, temporalSilent(f.config(), err)
		}
		open = append(open, asked...)
		slices.SortStableFunc(open, func(a, b opstore.Approval) int { return a.Opened.Compare(b.Opened) })
	}
	all := make([]views.Approval, len(open))
	for i, a := range open {
		all[i] = views.NewApproval(a)
	}
	return all, left, nil
}

func (f *consoleFacts) audit(
	ctx context.Context, q opstore.AuditQuery,
) ([]opstore.AuditRecord, []lock.Unreadable, error) {
	trail, err := f.client.AuditLog(0)
	if err != nil {
		return nil, nil, err
	}
	return trail.Read(ctx, q)
}

// known says why a job is unknown; nil if it is known.
func (f *consoleFacts) known(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := f.job(ctx, name)
	return err
}
