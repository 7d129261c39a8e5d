package main

import (
	"cmp"
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A trail puts one act of an operator on record: what is about to be done, and
// what has come of it.
type trail struct {
	log   *recipes.AuditLog
	entry recipes.AuditEntry
	begun bool
}

// newTrail begins with what is known of the act. cfg may be nil.
func newTrail(client *recipes.Client, cfg *config.Config, entry recipes.AuditEntry) (*trail, error) {
	log, err := auditLog(client, cfg)
	return &trail{log: log, entry: entry}, err
}

// auditLog is what an operator's acts are put on record in. cfg may be nil.
func auditLog(client *recipes.Client, cfg *config.Config) (*recipes.AuditLog, error) {
	keep := 0
	if cfg != nil {
		keep = cfg.Audit.Keep
	}
	return client.AuditLog(keep)
}

// intend puts on record what is about to be done, to those if any are given. An
// error says that it must not be done.
func (t *trail) intend(ctx context.Context, victims ...recipes.Contender) error {
	t.entry.Phase = recipes.AuditIntent
	if len(victims) > 0 {
		t.entry.Victims = nil
	}
	for _, v := range victims {
		t.entry.Victims = append(t.entry.Victims, v.Party())
	}
	r, err := t.log.Append(ctx, t.entry)
	if err == nil {
		t.begun, t.entry.Act = true, r.Act
	}
	return err
}

// after keeps who has the lock now, for the record.
func (t *trail) after(s recipes.LockState) {
	t.entry.After = map[string]string{"holders": cmp.Or(owners(s.Holders), "nobody")}
}

// recording is how long the outcome of an act may take to be put on record when
// the act itself has run out of time.
const recording = 5 * time.Second

// tell puts on record what has come of it; nothing if it was not begun.
func (t *trail) tell(ctx context.Context, failure error) error {
	if !t.begun {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recording)
	defer cancel()
	t.entry.Phase, t.entry.Result = recipes.AuditOutcome, recipes.AuditDone
	if failure != nil {
		t.entry.Result, t.entry.Error = recipes.AuditFailed, failure.Error()
	}
	_, err := t.log.Append(ctx, t.entry)
	return err
}
