package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// operatorFlags are who does something, and why.
type operatorFlags struct{ by, reason string }

func (f *operatorFlags) add(c *cobra.Command, why string) {
	c.Flags().StringVarP(&f.reason, "reason", "r", "", "`why` "+why+", for the record; has to be there")
	c.Flags().StringVar(&f.by, "by", "", "`who` says so, for the record (default: the user of the credentials)")
}

func (f *operatorFlags) check(p *program) {
	if f.reason = strings.TrimSpace(f.reason); f.reason == "" && !p.unclear {
		p.problems.add("--reason is missing; write why, for those who look at the record")
	}
	f.by = strings.TrimSpace(f.by)
}

// name is who does it: what the flag says, or the user that ZooKeeper knows.
func (f *operatorFlags) name(client *recipes.Client) string {
	if f.by != "" {
		return f.by
	}
	_, user, _ := strings.Cut(client.Identity(), ":")
	return user
}

// An operator is a client with an operator's credentials that puts on record what it does.
type operator struct {
	client *recipes.Client
	audit  *recipes.AuditLog
}

// actPatience is how long an act may take. The client says before that that
// ZooKeeper does not answer.
const actPatience = 15 * time.Second

// withClient lets do work with a client.
func (p *program) withClient(c *cobra.Command, cfg recipes.Config, do func(context.Context, *recipes.Client) error) error {
	return p.inspectWith(c.Context(), cfg, func(ctx context.Context, client *recipes.Client) error {
		ctx, cancel := context.WithTimeoutCause(ctx, actPatience, fmt.Errorf("no answer within %s", actPatience))
		defer cancel()
		return do(ctx, client)
	})
}

// asOperator lets do work with a client that is an operator; refused says what
// is not done for others, of whom nothing is on record. cfg may be nil.
func (p *program) asOperator(c *cobra.Command, client recipes.Config, refused string, do func(context.Context, *operator) error, cfg *config.Config) error {
	return p.withClient(c, client, func(ctx context.Context, client *recipes.Client) error {
		if err := client.CheckOperator(refused); err != nil {
			return err
		}
		audit, err := auditLog(client, cfg)
		if err != nil {
			return err
		}
		return do(ctx, &operator{client, audit})
	})
}

// onRecord announces what do does, and writes down what has become of it. What
// cannot be announced is not done.
func (o *operator) onRecord(ctx context.Context, entry recipes.AuditEntry, do func(outcome *recipes.AuditEntry) error) error {
	return o.allOnRecord(ctx, []recipes.AuditEntry{entry}, func(outcomes []*recipes.AuditEntry) error { return do(outcomes[0]) })
}

// allOnRecord is onRecord for what is done whole or not at all.
func (o *operator) allOnRecord(ctx context.Context, entries []recipes.AuditEntry, do func(outcomes []*recipes.AuditEntry) error) error {
	var err error
	trails, outcomes := make([]trail, len(entries)), make([]*recipes.AuditEntry, len(entries))
	for i, entry := range entries {
		trails[i] = trail{log: o.audit, entry: entry}
		outcomes[i] = &trails[i].entry
		if err == nil {
			err = trails[i].intend(ctx)
		}
	}
	if err == nil {
		err = do(outcomes)
	}
	problems := []error{err}
	for i := range trails {
		problems = append(problems, trails[i].tell(ctx, err))
	}
	return errors.Join(problems...)
}
