package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// An operator is a person with credentials of her own.
type operator struct {
	name   string
	client *lock.Client
	trail  *opstore.AuditLog
	file   string
}

func newOperator(name string, cfg lock.Config, file string) (*operator, error) {
	client, err := lock.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	trail, err := client.AuditLog(0)
	return &operator{name: name, client: client, trail: trail, file: file}, err // that only refuses a negative number
}

// leave removes the site's part of ZooKeeper, which an operator may, and ends the
// session.
func (o *operator) leave(ctx context.Context) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(o.client.Discard(limited), closeIn(ctx, o.client))
}

// The override of the story. Every one has to say who, why and until when.
const (
	incident = "INC-4411"
	override = `overrides:
  - id: %s
    kind: hold
    match: {scope: %s}
    until: %s
    by: %s
    reason: %s
`
)

// hold writes an override into the file: daemons that watch it act on it at once.
// It ends by the clock of ZooKeeper.
func (o *operator) hold(ctx context.Context, scope, reason string) error {
	now, err := o.client.Time(ctx)
	if err != nil {
		return err
	}
	until := now.Add(time.Hour).UTC().Format(time.RFC3339)
	return o.write(fmt.Sprintf(override, incident, scope, until, o.name, reason))
}

// clear takes the override out of the file again.
func (o *operator) clear() error { return o.write("overrides: []\n") }

// write replaces the file at once, so that no reader sees half of it.
func (o *operator) write(text string) error {
	if err := os.WriteFile(o.file+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(o.file+".new", o.file)
}

// force lets a request take its lock at once. As `lockkeeper approvals
// force` does, it announces that first, and then puts on record what became of
// it: what cannot be announced is not done.
func (o *operator) force(ctx context.Context, a opstore.Approval, reason string) error {
	entry := opstore.AuditEntry{
		Act: rand.Text(), Action: opstore.AuditApprovalDecide, Phase: opstore.AuditIntent,
		Scope: a.Scope, Job: a.Job, By: o.name, Reason: reason, Approval: a.ID,
		Requestor: &a.Requestor, Victims: a.Holders, After: map[string]string{"decision": "forced"},
	}
	if _, err := o.trail.Append(ctx, entry); err != nil {
		return err
	}
	failure := o.client.Approvals().Decide(ctx, a.ID,
		opstore.Decision{Approved: true, Force: true, By: o.name, Reason: reason})
	entry.Phase, entry.Result = opstore.AuditOutcome, opstore.AuditDone
	if failure != nil {
		entry.Result, entry.Error = opstore.AuditFailed, failure.Error()
	}
	_, err := o.trail.Append(ctx, entry)
	return errors.Join(failure, err)
}

// A pager is a log that wakes somebody up: alerts get what is an error.
type pager struct {
	slog.Handler
	alerts chan<- string
}

func newPager() (*slog.Logger, <-chan string) {
	alerts := make(chan string, 16)
	return slog.New(pager{slog.DiscardHandler, alerts}), alerts
}

// Enabled is for slog.
func (p pager) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

// Handle is for slog.
func (p pager) Handle(_ context.Context, r slog.Record) error {
	select {
	case p.alerts <- r.Message:
	default: // she is awake
	}
	return nil
}
