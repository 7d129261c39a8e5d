package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// asksInWorkflows reports whether the file has people asked in workflows; cfg may
// be nil.
func asksInWorkflows(cfg *config.Config) bool { return cfg != nil && cfg.Approvals.Temporal != nil }

// listWorkflows returns the questions about the locks there that are asked in
// workflows.
func (p *program) listWorkflows(ctx context.Context, cfg *config.Config, locks recipes.Config) ([]openApproval, error) {
	w, err := newWorkflowApprovals(cfg, locks, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer w.close()
	ctx, cancel := context.WithTimeout(ctx, temporalPatience)
	defer cancel()
	asked, err := w.List(ctx)
	if err != nil {
		return nil, temporalSilent(cfg, err)
	}
	all := make([]openApproval, len(asked))
	for i, o := range asked {
		all[i] = workflowApproval(o)
	}
	return all, nil
}

// temporalPatience is how long the Temporal server has to answer.
const temporalPatience = 8 * time.Second

func temporalSilent(cfg *config.Config, err error) error {
	where := cmp.Or(cfg.Temporal.Address, temporal.DefaultAddress)
	return &codeError{exitNotAcquired, fmt.Sprintf("Temporal at %s: %v; approvals that are asked there are not known: lockkeeper doctor", where, err)}
}

func workflowApproval(o temporal.OpenApproval) openApproval {
	a := openApproval{workflow: true, escalated: o.Escalated, Approval: recipes.Approval{
		ID: o.ID, Host: o.Host, PID: o.PID, Opened: o.Opened, Until: o.Until,
		ApprovalRequest: recipes.ApprovalRequest{
			Scope: o.Scope, Job: o.Job, Labels: o.Labels, Requestor: auditParty(o.Requestor), Reason: o.Reason,
			Waited: o.Waited(), Deadline: o.Deadline(),
		},
	}}
	for _, h := range o.Holders {
		a.Holders = append(a.Holders, auditParty(h))
	}
	return a
}

// decideWorkflow sends a decision to the workflow that asks, once it is on record:
// who asks looks there whether an operator has decided.
func (p *program) decideWorkflow(ctx context.Context, o *operator, cfg *config.Config, locks recipes.Config, id string, d recipes.Decision) error {
	if !asksInWorkflows(cfg) {
		return &usageError{command: "lockkeeper approvals", problems: problems{id + " is asked in a workflow: name the configuration file that says where, with approvals: {temporal: {...}}: -f FILE"}}
	}
	w, err := newWorkflowApprovals(cfg, locks, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer w.close()
	d.By = cmp.Or(d.By, userAtHost())
	about, _, err := o.decideIn(ctx, w, id, d)
	if err != nil {
		return decideFailed(cfg, err)
	}
	return p.writeDecided(about, d)
}

// decideIn sends a decision to a workflow, once it is on record. It returns the
// question, decided, and the name of the act.
func (o *operator) decideIn(ctx context.Context, w *workflowApprovals, id string, d recipes.Decision) (about openApproval, act string, err error) {
	d.Identity = o.client.Identity()
	within, cancel := context.WithTimeout(ctx, temporalPatience)
	defer cancel()
	asked, err := w.Find(within, id)
	if err != nil {
		return about, "", err
	}
	about = workflowApproval(asked)
	act, err = o.OnRecord(ctx, emergency.DecisionEntry(about.Approval, d), func(*recipes.AuditEntry) error {
		_, err := w.Decide(within, id, updateOf(d), temporal.ApprovalRuling{By: d.By, Reason: d.Reason, Identity: d.Identity})
		return err
	})
	about.Decision = &d
	return about, act, err
}

// updateOf is the update of the workflow that says a decision.
func updateOf(d recipes.Decision) string {
	switch {
	case !d.Approved:
		return temporal.DenyUpdate
	case d.Force:
		return temporal.ForceUpdate
	}
	return temporal.ApproveUpdate
}

// decideFailed gives an error of a workflow the exit code that it has on the board.
func decideFailed(cfg *config.Config, err error) error {
	switch {
	case errors.As(err, new(*temporal.NoApprovalError)):
		return &codeError{exitConfig, err.Error() + "; look at those that wait: lockkeeper approvals ls"}
	case errors.As(err, new(*temporal.ApprovalDecidedError)):
		return &codeError{exitFailed, err.Error()}
	case exitCode(err) != exitFailed:
		return err
	}
	return temporalSilent(cfg, err)
}
