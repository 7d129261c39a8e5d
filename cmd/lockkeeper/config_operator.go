package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func (p *program) configOperator() *cobra.Command {
	return p.command(&cobra.Command{
		Use:   "operator",
		Short: "Print what to write into zookeeper.operators for a user",
		Long: `Print how ZooKeeper names the user of --zk-digest-file, or the certificate of
--zk-cert-file: what to write into zookeeper.operators, so that the user may
apply overrides, decide about approvals and break locks. ZooKeeper is not asked.

The hash of a digest user is no credential, but passwords can be tried
against it: use a long one. docs/security.md says who can do what.`,
		Example: `  lockkeeper config operator --zk-digest-file ana.digest
  (umask 077; echo "ana:$(openssl rand -hex 20)" > ana.digest)
  lockkeeper config operator --zk-cert-file ana.pem --zk-key-file ana-key.pem`,
	}, nil, func(c *cobra.Command, _ []string) error {
		var cfg lock.Config
		p.applyZooKeeper(&cfg)
		cfg.X509 = cfg.Auth == nil
		if cfg.X509 && (cfg.TLS == nil || len(cfg.TLS.Certificates) == 0) {
			p.problems.add("--zk-digest-file is missing; name the file with user:password, " +
				"or a certificate with --zk-cert-file and --zk-key-file")
		} else {
			p.problems.addRequest(cfg.Validate(), zookeeperFlag)
		}
		if err := p.usage(c); err != nil {
			return err
		}
		id, err := cfg.OperatorID()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(p.stdout, id)
		return err
	})
}
