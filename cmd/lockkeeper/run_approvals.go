package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// workflowApprovals are approvals that are asked for in workflows.
type workflowApprovals struct {
	*temporal.Approvals
	server temporal.Connection
	where  config.TemporalApprovals
	log    *slog.Logger
}

// newWorkflowApprovals connects to nothing yet. The file says that people are
// asked in workflows; locks says where the locks are that they are asked about.
func newWorkflowApprovals(cfg *config.Config, locks lock.Config, logger *slog.Logger) (*workflowApprovals, error) {
	server, err := temporal.NewClient(cfg.Temporal)
	if err != nil {
		return nil, err
	}
	w := &workflowApprovals{server: server, where: *cfg.Approvals.Temporal, log: logger}
	w.Approvals, err = temporal.NewApprovals(temporal.ApprovalsConfig{
		Client: server, Escalation: w.where.Escalation, Logger: logger, Root: locks.Chroot + locks.Root,
		TaskQueue: w.where.TaskQueue,
	})
	if err != nil {
		server.Close()
		return nil, err
	}
	return w, nil
}

// work is done for all who ask in this cluster, until ctx ends: a worker of the
// daemon's own is there as long as there is a daemon, whatever becomes of the
// workers of applications, and it alone can write the audit trail.
func (w *workflowApprovals) work(ctx context.Context, auditor lockguard.Auditor) {
	temporal.RunApprovalWorker(ctx, w.server, temporal.ApprovalWorker{
		Logger: w.log, TaskQueue: w.where.TaskQueue,
		Escalate: func(ctx context.Context, e temporal.Escalation) error { return w.escalate(ctx, auditor, e) },
	})
}

// escalate puts on record that the question was escalated, and alerts.
func (w *workflowApprovals) escalate(ctx context.Context, auditor lockguard.Auditor, e temporal.Escalation) error {
	q := e.Question.Approval()
	w.log.Error("an approval is escalated", "approval", q.ID, "to", e.To, "scope", q.Scope,
		"requestor", q.Requestor.Owner, "until", e.Until.Format(time.RFC3339))
	entry := opstore.AuditEntry{
		Action: opstore.AuditApprovalEscalate, Phase: opstore.AuditOutcome, Scope: q.Scope, Job: q.Job,
		By: q.Requestor.Owner, Approval: q.ID, Reason: q.Reason, Requestor: &q.Requestor, Victims: q.Holders,
		After: map[string]string{"escalated_to": e.To}, Result: opstore.AuditDone,
	}
	return auditor.Audit(ctx, entry)
}

// Find returns a question if the server says in time how it stands.
func (w *workflowApprovals) Find(ctx context.Context, id string) (opstore.Approval, error) {
	ctx, cancel := context.WithTimeout(ctx, temporalPatience)
	defer cancel()
	return w.Approvals.Find(ctx, id)
}

// Decide sends a decision, which a worker has to take in time.
func (w *workflowApprovals) Decide(ctx context.Context, id string, d opstore.Decision) error {
	ctx, cancel := context.WithTimeout(ctx, temporalPatience)
	defer cancel()
	return w.Approvals.Decide(ctx, id, d)
}

// end waits until questions that are not needed any more are closed; w may be nil.
func (w *workflowApprovals) end() {
	if w == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := w.Close(ctx); err != nil {
		w.log.Warn("questions may stay open until their deadline although their decisions are no longer needed",
			"error", err)
	}
}

// close gives the connection back; w may be nil.
func (w *workflowApprovals) close() {
	if w != nil {
		w.server.Close()
	}
}
