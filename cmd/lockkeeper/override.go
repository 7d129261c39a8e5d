package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

func (p *program) override() *cobra.Command {
	c := &cobra.Command{
		Use:   "override",
		Short: "Go before what jobs declare, in an emergency: freeze, boost, hold, pause ...",
		Long: `Go before what jobs declare, in an emergency, for a limited time. Every override
says who wants it and why, and all of it is put on record (lockkeeper audit).

Overrides are in force in every process within a second, and end by themselves.
They are kept in ZooKeeper, and take credentials: --zk-digest-file, or a
certificate. Those that belong to a deployment are better kept in the file that
emergency.file names in the configuration; of two with one ID the one in
ZooKeeper counts.`,
	}
	p.group(c)
	c.AddCommand(p.overrideApply(), p.overrideLs(), p.overrideClear())
	return c
}

func (p *program) overrideLs() *cobra.Command {
	var file jobsFile
	c := p.command(&cobra.Command{
		Use:   "ls",
		Short: "List the overrides in force: whom they concern, until when, who says so and why",
		Long: `List the overrides in force: whom they concern, until when, who says so and why.

Those in ZooKeeper, and those of the overrides file that the configuration names:
what daemons make of it that have the same file. Below the table: whom each keeps
out now, by a freeze, by a hold, or by a pause.

Exit code 75 if ZooKeeper does not answer, 78 for a file that cannot be used.`,
		Example: `  lockkeeper override ls
  lockkeeper override ls -o json | jq -r '.[] | select(.kind == "freeze") | .id'`,
	}, nil, func(c *cobra.Command, _ []string) error { return p.listOverrides(c, file) })
	file.add(c)
	return c
}

func (p *program) listOverrides(c *cobra.Command, file jobsFile) error {
	cfg, client, err := p.jobsConfig(c, file)
	if err != nil {
		return err
	}
	var (
		posted   []opstore.PostedOverride
		requests []live.Request
		ticks    []ticks.State
		now      time.Time
	)
	err = p.withClient(c, client, func(ctx context.Context, client *lock.Client) (err error) {
		posted, err = client.Overrides().List(ctx)
		now = client.Now()
		if err == nil {
			requests, ticks = p.keptOut(ctx, client, inForce(p.overridesOfFile(cfg, now), posted, now))
		}
		return err
	})
	unread := errors.As(err, new(*lock.RecordError)) || errors.As(err, new(*lock.AccessError))
	if err != nil && len(posted) == 0 && (!unread || cfg == nil) {
		return err
	}
	if err != nil && !unread { // they are not trusted, and shown all the same
		p.say("%v", err)
		err = nil
	}
	all := inForce(p.overridesOfFile(cfg, now), posted, now)
	jobs := jobsThatAre(cfg, ticks)
	views := make([]views.Override, len(all))
	for i, a := range all {
		views[i] = newOverrideView(a, requests, jobs, now)
	}
	if len(views) == 0 && err == nil {
		p.say("%s", noOverride(cfg))
	}
	if len(views) == 0 && p.forPeople() {
		return err
	}
	return errors.Join(p.writePage(views, func(pg page) {
		writeOverrides(pg, all, now)
		writeKeptOut(pg, views, now)
	}), err)
}

// keptOut looks at whom overrides may keep out. What cannot be read is left out,
// and said.
func (p *program) keptOut(
	ctx context.Context, client *lock.Client, all []emergency.Active,
) ([]live.Request, []ticks.State) {
	is := func(kinds ...override.Kind) bool {
		return slices.ContainsFunc(all, func(a emergency.Active) bool { return slices.Contains(kinds, a.Kind) })
	}
	var (
		locks  []lock.State
		frozen []lock.FrozenRequest
		ticks  []ticks.State
		left   [3][]lock.Unreadable
		errs   [3]error
	)
	if is(override.Freeze) {
		frozen, left[2], errs[0] = client.Frozen(ctx)
	}
	if is(override.Hold, override.PreemptNow) {
		locks, left[0], errs[1] = client.Locks(ctx)
	}
	if is(override.Pause) {
		ticks, left[1], errs[2] = client.TickLedger("").States(ctx)
	}
	p.tellUnreadable(slices.Concat(left[:]...))
	if err := errors.Join(errs[:]...); err != nil {
		p.say("whom overrides keep out is not known for all: %v", err)
	}
	return live.Requests(live.NewLocks(locks), frozen), ticks
}

// manyKeptOut is how many of those whom an override keeps out are named.
const manyKeptOut = 20

func writeKeptOut(pg page, all []views.Override, now time.Time) {
	for _, v := range all {
		if len(v.KeepsOut) == 0 {
			continue
		}
		pg.line("")
		pg.paragraph("", "%s keeps out now", v.ID)
		for i, k := range v.KeepsOut {
			if i == manyKeptOut {
				pg.paragraph("  ", "… and %d more; all of them: lockkeeper override ls -o json", len(v.KeepsOut)-i)
				break
			}
			since := ""
			if k.Since != nil {
				since = ", " + human(now.Sub(*k.Since))
			}
			pg.paragraph("  ", "%s%s", k, since)
		}
	}
}

// noOverride says that there is none, and what was not read.
func noOverride(cfg *config.Config) string {
	if cfg == nil {
		return "no override is in force in ZooKeeper; name the configuration of the daemons (-f) to see those of its " +
			"overrides file"
	}
	return "no override is in force"
}

// overridesOfFile returns those of the file that the configuration names. One
// that cannot be used is left out, and said.
func (p *program) overridesOfFile(cfg *config.Config, now time.Time) []override.Override {
	if cfg == nil || cfg.Emergency.File == "" {
		return nil
	}
	read, err := config.LoadOverrides(cfg.Emergency.File,
		config.OverridesOptions{Config: cfg, Now: func() time.Time { return now }})
	if err != nil {
		p.say("%s cannot be used and is left out; lockkeeper override apply --dry-run -f says why", cfg.Emergency.File)
		return nil
	}
	return read.All
}

// inForce joins what the file and ZooKeeper say, as daemons do.
func inForce(file []override.Override, posted []opstore.PostedOverride, now time.Time) []emergency.Active {
	var all []emergency.Active
	for _, o := range file {
		all = append(all, emergency.Active{Override: o, Source: emergency.File})
	}
	for _, o := range posted {
		if !now.Before(o.Override.Until) {
			continue
		}
		a := emergency.Active{Override: o.Override, Source: emergency.ZooKeeper, PostedBy: o.PostedBy, PostedAt: o.PostedAt}
		if i := slices.IndexFunc(all, func(b emergency.Active) bool { return b.ID == a.ID }); i >= 0 {
			all[i] = a
			continue
		}
		all = append(all, a)
	}
	all = slices.DeleteFunc(all, func(a emergency.Active) bool { return !now.Before(a.Until) })
	slices.SortFunc(all, func(a, b emergency.Active) int { return strings.Compare(a.ID, b.ID) })
	return all
}

func newOverrideView(
	a emergency.Active, requests []live.Request, jobs []views.JobLabels, now time.Time,
) views.Override {
	return views.Override{
		Record: a.Record(), Source: string(a.Source), PostedBy: a.PostedBy, PostedAt: a.PostedAt.UTC(),
		Left: a.Until.Sub(now).Milliseconds(), KeepsOut: views.KeptOutBy(a.Override, requests, jobs),
	}
}

// fewColumns is where a page gets too narrow for a table of all that is to be
// said of an override.
const fewColumns = 120

func writeOverrides(pg page, all []emergency.Active, now time.Time) {
	g := pg.grid(2, 3)
	switch {
	case pg.wide:
		g.row("ID", "KIND", "MATCH", "WHAT", "UNTIL", "BY", "SOURCE", "POSTED BY", "POSTED", "REASON")
	case pg.width < fewColumns:
		g = pg.grid()
		g.row("ID", "UNTIL", "OVERRIDE")
	default:
		g.row("ID", "KIND", "MATCH", "WHAT", "UNTIL", "BY", "SOURCE", "REASON")
	}
	for _, a := range all {
		until := short(a.Until, now) + " (" + relative(a.Until.Round(time.Second), now.Round(time.Second)) + ")"
		what := overrideWhat(a.Override)
		switch {
		case pg.wide:
			posted := "-"
			if !a.PostedAt.IsZero() {
				posted = short(a.PostedAt, now)
			}
			g.row(a.ID, a.Kind, a.Match.String(), cmp.Or(what, "-"), until, a.By, a.Source, cmp.Or(a.PostedBy, "-"),
				posted, a.Reason)
		case pg.width < fewColumns:
			if what != "" {
				what = ": " + what
			}
			g.row(a.ID, until, fmt.Sprintf("%s %s%s; by %s (%s): %s", a.Kind, a.Match, what, a.By, a.Source, a.Reason))
		default:
			g.row(a.ID, a.Kind, a.Match.String(), cmp.Or(what, "-"), until, a.By, a.Source, a.Reason)
		}
	}
	g.draw()
}

// overrideWhat is what an override makes of those whom it concerns.
func overrideWhat(o override.Override) string {
	var parts []string
	if o.Priority != nil {
		parts = append(parts, "priority "+levelText(*o.Priority))
	}
	if f := o.Forceful; f != nil {
		parts = append(parts, map[bool]string{true: "forceful", false: "polite"}[*f])
	}
	for _, t := range []struct {
		name string
		d    *time.Duration
	}{
		{"waiting", o.WaitingTimeout},
		{"lease", o.LeaseTimeout},
		{"cleanup", o.CleanupTimeout},
		{"acquire", o.AcquireTimeout},
	} {
		if t.d != nil {
			parts = append(parts, t.name+" "+human(*t.d))
		}
	}
	if o.Token != 0 {
		parts = append(parts, fmt.Sprintf("token %d", o.Token))
	}
	return strings.Join(parts, ", ")
}

func (p *program) overrideClear() *cobra.Command {
	var (
		file jobsFile
		by   operatorFlags
	)
	c := p.command(&cobra.Command{
		Use:   "clear ID",
		Short: "Clear an override before it ends by itself",
		Long: `Clear an override before it ends by itself: in force nowhere within a second.
What it kept out of queues comes back, and a lock that it held is given away.

One of the overrides file is cleared by writing the file.

Exit code 75 if ZooKeeper does not answer; 78 for wrong flags, an ID that no
override has, or without the credentials of an operator.`,
		Example: `  lockkeeper override clear INC-4411 --reason 'disk has room again'`,
	}, []string{"ID"}, func(c *cobra.Command, args []string) error { return p.clearOverride(c, file, by, args) })
	by.add(c, "it is cleared")
	file.add(c)
	return c
}

func (p *program) clearOverride(c *cobra.Command, file jobsFile, by operatorFlags, args []string) error {
	by.check(p)
	cfg, client, err := p.jobsConfig(c, file)
	if err != nil {
		return err
	}
	id := args[0]
	var was override.Override
	err = p.asOperator(c, client, fmt.Sprintf("override %q not cleared", id),
		func(ctx context.Context, o *operator) (err error) {
			was, _, err = o.Clear(ctx, id, emergency.By{Name: by.name(o.client), Reason: by.reason})
			return err
		}, cfg)
	if errors.As(err, new(*opstore.NoOverrideError)) &&
		slices.ContainsFunc(p.overridesOfFile(cfg, time.Now()), func(o override.Override) bool { return o.ID == id }) {
		return &codeError{
			code: exitConfig,
			text: fmt.Sprintf("override %q not cleared: it is one of the file %s; take it out there", id, cfg.Emergency.File),
		}
	}
	if err != nil {
		return err
	}
	return p.writePage(was, func(pg page) { pg.paragraph("", "%s: cleared; it was %s", id, was) })
}
