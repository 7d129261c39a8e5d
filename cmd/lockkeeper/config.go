package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/internal/words"
)

const defaultFile = "lockkeeper.yaml"

func (p *program) config() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Write, check and explain configuration files",
	}
	p.group(c)
	c.AddCommand(p.configInit(), p.configValidate(), p.configExplain(), p.configSchema(), p.configOperator())
	return c
}

func (p *program) configValidate() *cobra.Command {
	var file string
	c := p.command(&cobra.Command{
		Use:   "validate",
		Short: "Say everything that is wrong with a configuration file",
		Long: `Say everything that is wrong with a configuration file, one line a problem:
file:line:column path: what is wrong; what to write instead

The overrides file that emergency.file names is checked as well, if it is there.
ZooKeeper is not asked. Exit code 78 if the file cannot be used; warnings alone
do not count.`,
		Example: `  lockkeeper config validate
  lockkeeper config validate -f /etc/lockkeeper/lockkeeper.yaml
  lockkeeper config validate -f new.yaml && mv new.yaml lockkeeper.yaml`,
	}, nil, func(c *cobra.Command, _ []string) error {
		if err := p.usage(c); err != nil {
			return err
		}
		cfg, err := config.Load(file, config.Options{})
		if err != nil {
			return err
		}
		overrides, err := overridesOf(cfg)
		if err != nil {
			return err
		}
		p.lines(cfg.Warnings)
		has := words.Count(len(cfg.Jobs), "job")
		if n := len(cfg.Groups); n > 0 {
			has += ", " + words.Count(n, "group")
		}
		if n := len(cfg.Warnings); n > 0 {
			has += ", " + words.Count(n, "warning")
		}
		if _, err := fmt.Fprintf(p.stdout, "%s is valid: %s\n", file, has); err != nil || overrides == nil {
			return err
		}
		p.lines(overrides.Warnings)
		has = words.Count(len(overrides.All), "override")
		if n := len(overrides.Warnings); n > 0 {
			has += ", " + words.Count(n, "warning")
		}
		_, err = fmt.Fprintf(p.stdout, "%s is valid: %s\n", overrides.File, has)
		return err
	})
	c.Flags().StringVarP(&file, "file", "f", defaultFile, "configuration `file`")
	return c
}

// overridesOf reads the overrides file of a configuration; nil if there is none.
func overridesOf(cfg *config.Config) (*config.Overrides, error) {
	name := cfg.Emergency.File
	if name == "" {
		return nil, nil
	}
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return nil, nil // it may come
	}
	return config.LoadOverrides(name, config.OverridesOptions{Config: cfg})
}

func (p *program) configSchema() *cobra.Command {
	var overrides yes
	c := p.command(&cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of configuration files",
		Long: `Print the JSON schema of configuration files, from which editors complete them and
check them while they are written. It knows less than lockkeeper config validate:
not whether values fit together.

An editor with the YAML language server finds it by a comment at the top:
# yaml-language-server: $schema=lockkeeper.schema.json`,
		Example: `  lockkeeper config schema > lockkeeper.schema.json
  lockkeeper config schema --overrides > overrides.schema.json
  lockkeeper config schema | jq '."$defs" | keys'
  check-jsonschema --schemafile <(lockkeeper config schema) lockkeeper.yaml`,
	}, nil, func(c *cobra.Command, _ []string) error {
		if err := p.usage(c); err != nil {
			return err
		}
		schemaOf := config.Schema
		if overrides.is {
			schemaOf = config.OverridesSchema
		}
		schema, err := schemaOf()
		if err != nil {
			return err
		}
		_, err = p.stdout.Write(schema)
		return err
	})
	c.Flags().VarPF(&overrides, "overrides", "", "that of overrides files").NoOptDefVal = "true"
	return c
}

// showConfig says what is wrong with a configuration.
func (p *program) showConfig(broken *config.Errors) {
	_, _ = fmt.Fprintln(p.stderr, broken)
	p.lines(broken.Warnings)
	p.say("%s cannot be used: %s", broken.Problems[0].File, words.Count(len(broken.Problems), "problem"))
}

func (p *program) lines(problems []config.Problem) {
	for _, problem := range problems {
		_, _ = fmt.Fprintln(p.stderr, problem)
	}
}
