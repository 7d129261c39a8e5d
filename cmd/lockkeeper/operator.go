package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
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
func (f *operatorFlags) name(client *lock.Client) string {
	if f.by != "" {
		return f.by
	}
	_, user, _ := strings.Cut(client.Identity(), ":")
	return user
}

// An operator acts with the credentials of a client, and puts on record what it
// does. Without the former it is read-only.
type operator struct {
	*emergency.Operator
	client *lock.Client
}

// newOperator returns one; cfg may be nil.
func newOperator(client *lock.Client, cfg *config.Config) (*operator, error) {
	return newOperatorAt(client, client, cfg)
}

// newOperatorAt returns one for the locks of an ensemble, whose acts are on record at
// home.
func newOperatorAt(client, home *lock.Client, cfg *config.Config) (*operator, error) {
	trail, err := auditLog(home, cfg)
	if err != nil {
		return nil, err
	}
	acts, err := emergency.NewOperator(client, trail)
	return &operator{acts, client}, err
}

// auditLog is what an operator's acts are put on record in. cfg may be nil.
func auditLog(client *lock.Client, cfg *config.Config) (*opstore.AuditLog, error) {
	keep := 0
	if cfg != nil {
		keep = cfg.Audit.Keep
	}
	return client.AuditLog(keep)
}

// actPatience is how long an act may take. The client says before that that
// ZooKeeper does not answer.
const actPatience = 15 * time.Second

// withClient lets do work with a client.
func (p *program) withClient(c *cobra.Command, cfg lock.Config, do func(context.Context, *lock.Client) error) error {
	return p.inspectWith(c.Context(), cfg, func(ctx context.Context, client *lock.Client) error {
		ctx, cancel := context.WithTimeoutCause(ctx, actPatience, fmt.Errorf("no answer within %s", actPatience))
		defer cancel()
		return do(ctx, client)
	})
}

// asOperator lets do work with a client that is an operator; refused says what
// is not done for others, of whom nothing is on record. cfg may be nil.
func (p *program) asOperator(
	c *cobra.Command, client lock.Config, refused string, do func(context.Context, *operator) error, cfg *config.Config,
) error {
	return p.withClient(c, client, func(ctx context.Context, client *lock.Client) error {
		if err := client.CheckOperator(ctx, refused); err != nil {
			return err
		}
		o, err := newOperator(client, cfg)
		if err != nil {
			return err
		}
		return do(ctx, o)
	})
}
