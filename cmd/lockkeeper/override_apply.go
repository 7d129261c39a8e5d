package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// applyFlags say what is applied.
type applyFlags struct {
	file   string   // of overrides
	config jobsFile // the daemon's
	one    overrideFlags
	dryRun yes
	yes    yes
}

func (p *program) overrideApply() *cobra.Command {
	var f applyFlags
	c := &cobra.Command{
		Use:   "apply [ID] [flags]",
		Short: "Put overrides in force: those of a file, or one that flags describe",
		Long: `Put overrides in force in the whole cluster: all of a file, or one that flags
describe. They are in ZooKeeper then, take the place of those with the same ID,
and last until they end or are cleared. All that is wrong with any of them is said,
and none is applied.

  boost        raises the priority of matching requests (--priority), makes them
               --forceful, or shortens their --waiting; new and waiting ones
  cap          the opposite: --priority at most, --forceful=false, --waiting at least
  freeze       keeps matching requests from getting locks; holders are left alone
  hold         takes the lock of one scope and keeps it, for a person
  preempt-now  preempts the holder of one scope, then takes the lock by force;
               with --token only if that is the holder's
  pause        skips the ticks of matching jobs
  extend       gives matching requests more time: --lease, --cleanup, --waiting,
               --acquire
  bypass       lets matching work run without its lock, where the configuration
               of the daemons has emergency.allow_bypass: true

Without --scope, --job and --label an override matches everything and needs
--all. On a terminal the command asks before it applies such an override, from
flags or from a file, unless --yes is given.

What it concerns right now is shown, with --dry-run nothing else is done. hold
and preempt-now are carried out by one of the daemons (lockkeeper run); the
others by every process that takes locks.

Exit code 75 if ZooKeeper does not answer; 78 for wrong flags, a file that cannot
be used, or without the credentials of an operator.`,
		Example: `  lockkeeper override apply INC-4411 --kind freeze --scope 'db/*' --below 80 --for 2h -r 'disk is full'
  lockkeeper override apply INC-4412 --kind boost --job hotfix --priority emergency --for 30m -r 'payments stuck'
  lockkeeper override apply INC-4413 --kind hold --scope cluster/orders --for 1h -r 'repair by hand'
  lockkeeper override apply INC-4414 --kind freeze --all --below 80 --for 10m -r 'network is down'
  lockkeeper override apply -f overrides.yaml --dry-run`,
	}
	c.RunE = func(c *cobra.Command, args []string) error { return p.applyOverrides(c, &f, args) }
	f.add(c)
	return c
}

func (f *applyFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.file, "file", "f", "", "apply all overrides of this `file`, or none")
	flags.StringVar(&f.one.kind, "kind", "", "`kind` of the override, see above")
	flags.StringVarP(&f.one.scope, "scope", "s", "",
		"`scope` that it concerns; * stands for any text, ? for one character")
	flags.StringVar(&f.one.job, "job", "", "`job` that it concerns, or another owner; a pattern as well")
	flags.Var(&f.one.labels, "label",
		"`name=value` that the jobs that it concerns have; several times for several labels")
	flags.VarPF(&f.one.all, "all", "",
		"it matches everything; needed without --scope, --job and --label").NoOptDefVal = "true"
	flags.Var(&f.one.below, "below", "it concerns requests with a priority below this `level`")
	flags.Var(&f.one.above, "above", "it concerns requests with a priority above this `level`")
	f.one.forHow.positive = "2h"
	flags.Var(&f.one.forHow, "for", "how long it lasts, for example 2h")
	flags.Var(&f.one.until, "until", "when it ends: `time` as 15:04, 2006-01-02 15:04 (UTC) or RFC 3339")
	f.one.add(c, "it is applied")
	flags.Var(&f.one.priority, "priority", "boost, cap: the `level` of the requests, 0 to 2147483646, or emergency")
	flags.VarPF(&f.one.forceful, "forceful", "",
		"boost: take locks by force; cap, with =false: do not").NoOptDefVal = "true"
	flags.Var(&f.one.waiting, "waiting",
		"boost: at most, cap, extend: at least; hold, preempt-now: the most that holders get to clean up")
	flags.Var(&f.one.lease, "lease", "extend: at least this lease timeout")
	flags.Var(&f.one.cleanup, "cleanup", "extend: at least this cleanup timeout")
	flags.Var(&f.one.acquire, "acquire", "extend: at least this acquire timeout")
	flags.Int64Var(&f.one.token, "token", 0, "preempt-now: of the holder that is meant, see lockkeeper locks show")
	flags.VarPF(&f.dryRun, "dry-run", "", "show what it would concern, and apply nothing").NoOptDefVal = "true"
	flags.VarPF(&f.yes, "yes", "y", "do not ask before it is done").NoOptDefVal = "true"
	f.config.addAs(c, "config", "configuration `file` of the daemons, for ZooKeeper and the limits; only if it is there")
}

func (p *program) applyOverrides(c *cobra.Command, f *applyFlags, args []string) error {
	p.checkApply(c, f, args)
	cfg, client, err := p.jobsConfig(c, f.config)
	if err != nil {
		return err
	}
	limits := override.Limits{}
	if cfg != nil {
		limits = cfg.Emergency.Limits(time.Time{})
	}
	what := "overrides not applied"
	if len(args) == 1 {
		what = fmt.Sprintf("override %q not applied", args[0])
	}
	apply := func(ctx context.Context, o *operator) error {
		now, err := o.client.Time(ctx)
		if err != nil {
			return err
		}
		limits.Now = now
		all, err := p.overridesToApply(c, f, cfg, limits, o.client, args)
		if err != nil {
			return err
		}
		return p.applyAll(ctx, o, all, now, f, cfg, ensemblesOf(cfg, client)[1:])
	}
	if f.dryRun.is { // to look takes no credentials
		return p.withClient(c, client, func(ctx context.Context, client *lock.Client) error {
			return apply(ctx, &operator{client: client})
		})
	}
	return p.asOperator(c, client, what, apply, cfg)
}

// checkApply looks for flags that are wrong, or do not fit together.
func (p *program) checkApply(c *cobra.Command, f *applyFlags, args []string) {
	f.one.isForceful = c.Flags().Changed("forceful")
	described := 0
	for _, flag := range []string{
		"kind", "scope", "job", "label", "all", "below", "above", "for", "until", "reason", "by", "priority", "forceful",
		"waiting", "lease", "cleanup", "acquire", "token",
	} {
		if c.Flags().Changed(flag) {
			described++
			if f.file != "" {
				p.problems.add(fmt.Sprintf("--%s does not go with --file, which says everything; leave one of them out", flag))
			}
		}
	}
	switch {
	case f.file != "":
		p.checkArgs(c, args, nil)
	case len(args) == 0 && described == 0 && !p.unclear:
		p.problems.add("there is nothing to apply; name a file with -f, or write an ID and flags")
	case len(args) == 1 && described == 0 && isFile(args[0]):
		p.problems.add(fmt.Sprintf("%q is a file; write -f in front of its name", args[0]))
	default:
		p.checkArgs(c, args, []string{"ID"})
		switch until, forHow := f.one.until.given(), f.one.forHow.given; {
		case p.unclear:
		case until && forHow:
			p.problems.add("--for, --until: both say when it ends; leave one of them out")
		case !until && !forHow:
			p.problems.add("--for, or --until: give one of them, so that it ends")
		}
		f.one.check(p)
		p.addFlagsOf(&f.one, args)
	}
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// overridesToApply reads them, and checks all.
func (p *program) overridesToApply(
	c *cobra.Command, f *applyFlags, cfg *config.Config, limits override.Limits, client *lock.Client, args []string,
) ([]override.Override, error) {
	if f.file == "" {
		o := f.one.override(args[0], limits.Now, cmp.Or(f.one.name(client), userAtHost()))
		p.problems.addOverride(o.Validate(limits))
		return []override.Override{o}, p.usage(c)
	}
	if _, err := os.Stat(f.file); errors.Is(err, fs.ErrNotExist) { // daemons can do without, but this is to do something
		p.problems.add(fmt.Sprintf("--file: %s is not there; name a file of overrides", f.file))
		return nil, p.usage(c)
	}
	read, err := config.LoadOverrides(f.file,
		config.OverridesOptions{Config: cfg, Now: func() time.Time { return limits.Now }})
	if err != nil {
		return nil, err
	}
	for _, warning := range read.Warnings {
		p.say("%s", warning)
	}
	if len(read.All) == 0 {
		p.problems.add(f.file + " has no overrides; write some, or take back those in force: lockkeeper override clear ID")
	}
	return read.All, p.usage(c)
}

// applyAll shows what overrides concern right now, puts them on record, and in
// force.
func (p *program) applyAll(
	ctx context.Context, o *operator, all []override.Override, now time.Time, f *applyFlags, cfg *config.Config,
	others ensembles,
) error {
	dryRun := f.dryRun.is
	around, err := lookAround(ctx, o.client, all)
	if err != nil {
		return err
	}
	p.lookElsewhere(ctx, others, all, &around)
	p.tellUnreadable(around.left)
	concerns := around.concerns(all, cfg)
	posted, _ := o.client.Overrides().List(ctx) // what cannot be read or trusted is reported where it matters
	views := make([]appliedView, len(all))
	for i, one := range all {
		views[i] = appliedView{Record: one.Record(), Applied: !dryRun, Concerns: concerns[i], Unreadable: around.left}
		if at := slices.IndexFunc(posted, func(p opstore.PostedOverride) bool {
			return p.Override.ID == one.ID && now.Before(p.Override.Until)
		}); at >= 0 {
			views[i].Was = &posted[at].Override
		}
	}
	shown := views
	if p.forPeople() { // before it is done
		shown = nil
		if err := p.writePage(views, func(pg page) { writeConcerns(pg, views, now, dryRun) }); err != nil {
			return err
		}
	}
	if !dryRun {
		if question := whetherForAll(views); question != "" {
			if err := p.confirm(f.yes.is, question); err != nil {
				return err
			}
		}
		if err := o.apply(ctx, all, views); err != nil {
			return err
		}
	}
	if shown == nil {
		return p.writePage(views, func(pg page) { writeApplied(pg, views, now) })
	}
	return p.writePage(shown, nil)
}

// whetherForAll asks whether an override that matches everything is meant; "" when none does.
func whetherForAll(all []appliedView) string {
	var parts []string
	for _, v := range all {
		if v.Override().ForAll() {
			parts = append(parts, fmt.Sprintf("%s (%s) matches everything: %s", v.ID, v.Kind, meets(v.Kind, len(v.Concerns))))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, "; ") + ". Apply it?"
}

// meets says how many an override meets.
func meets(kind override.Kind, n int) string {
	if kind == override.Pause {
		return words.Count(n, "job") + ", and later ones"
	}
	return words.Count(n, "request") + " now, and later ones"
}

// apply puts overrides on record and in force, all of them or none.
func (o *operator) apply(ctx context.Context, all []override.Override, views []appliedView) error {
	was, _, err := o.Apply(ctx, all)
	for i, before := range was {
		if before != nil {
			views[i].Was = before
		}
	}
	return err
}
