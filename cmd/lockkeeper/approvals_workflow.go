package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// asksInWorkflows reports whether the file has people asked in workflows; cfg may
// be nil.
func asksInWorkflows(cfg *config.Config) bool { return cfg != nil && cfg.Approvals.Temporal != nil }

// trustsTemporal reports whether who decides about id need not be an operator.
func trustsTemporal(cfg *config.Config, id string) bool {
	return temporal.IsApprovalID(id) && asksInWorkflows(cfg) && cfg.Approvals.Temporal.Trusted == config.TrustTemporal
}

// listWorkflows returns the questions about the locks there that are asked in
// workflows.
func (p *program) listWorkflows(
	ctx context.Context, cfg *config.Config, locks lock.Config,
) ([]opstore.Approval, error) {
	w, err := newWorkflowApprovals(cfg, locks, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer w.close()
	ctx, cancel := context.WithTimeout(ctx, temporalPatience)
	defer cancel()
	all, err := w.List(ctx)
	if err != nil {
		return nil, temporalSilent(cfg, err)
	}
	return all, nil
}

// temporalPatience is how long the Temporal server has to answer.
const temporalPatience = 8 * time.Second

func temporalSilent(cfg *config.Config, err error) error {
	where := cmp.Or(cfg.Temporal.Address, temporal.DefaultAddress)
	return &codeError{
		exitNotAcquired,
		fmt.Sprintf("Temporal at %s: %v; approvals that are asked there are not known: lockkeeper doctor", where, err),
	}
}

// decideWorkflow sends a decision to the workflow that asks, once it is on record:
// who asks looks there whether an operator has decided.
func (p *program) decideWorkflow(
	ctx context.Context, o *operator, cfg *config.Config, locks lock.Config, id string, d opstore.Decision,
) error {
	if !asksInWorkflows(cfg) {
		return &usageError{command: "lockkeeper approvals", problems: problems{id +
			" is asked in a workflow: name the configuration file that says where, with approvals: {temporal: {...}}: -f FILE"}}
	}
	w, err := newWorkflowApprovals(cfg, locks, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer w.close()
	d.By = cmp.Or(d.By, userAtHost())
	about, _, err := o.decideIn(ctx, w, id, d)
	return p.writeDecided(about, d, decideFailed(cfg, err))
}

// decideIn sends a decision to a workflow, once it is on record. It returns the
// question, decided, and the name of the act.
func (o *operator) decideIn(
	ctx context.Context, w *workflowApprovals, id string, d opstore.Decision,
) (about opstore.Approval, act string, err error) {
	d.Identity = o.client.Identity()
	return o.DecideIn(ctx, w, id, d)
}

// decideFailed gives an error of a workflow the exit code that it has on the board.
func decideFailed(cfg *config.Config, err error) error {
	switch {
	case errors.As(err, new(*opstore.NoApprovalError)):
		return fmt.Errorf("%w%s", err, lookAtThose)
	case err == nil, errors.As(err, new(*opstore.DecidedError)):
		return err
	case exitCode(err) != exitFailed:
		return err
	}
	return temporalSilent(cfg, err)
}
