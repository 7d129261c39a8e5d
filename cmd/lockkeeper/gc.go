package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

type gcFlags struct {
	file   jobsFile
	older  age
	dryRun yes
	scope  string
}

func (p *program) gc() *cobra.Command {
	f := &gcFlags{}
	c := p.command(&cobra.Command{
		Use:   "gc",
		Short: "Remove the nodes of scopes that have not been used for long",
		Long: `Remove the nodes of scopes that have not been used for long.

A scope keeps a small node in ZooKeeper from its first lock on. Where the names of
scopes have dates or ids in them, these become many. A scope is removed when its
lock has had no holder and no waiter for the time of --older, by the servers'
clock. It may be locked again at any time: it is made anew, and its
tokens go on growing.

It may run at any time, from cron, on several machines at once: a request for
a lock just as it goes tries again and notices nothing.

Nothing else is removed. What is known of the ticks of jobs stays, also of jobs
that are in no configuration any more, and so do groups, overrides and the audit
trail.

With zookeeper.ensembles in the file it removes them on all of them.

Exit code 1 if some could not be removed, 75 if ZooKeeper, or one of the ensembles,
does not answer, 78 for wrong flags.`,
		Example: `  lockkeeper gc --dry-run
  lockkeeper gc --older 30d --scope 'import/*'
  lockkeeper gc -o json | jq -r '.removed[].scope'`,
	}, nil, func(c *cobra.Command, _ []string) error { return p.collectIdle(c, f) })
	flags := c.Flags()
	f.file.add(c)
	flags.Var(&f.older, "older", "remove what has not been used for that long (default 7d)")
	flags.VarPF(&f.dryRun, "dry-run", "", "remove nothing, say what would be removed").NoOptDefVal = "true"
	flags.StringVar(&f.scope, "scope", "",
		"remove only scopes like this `pattern`: * stands for any text, ? for one character")
	return c
}

// age is a duration that may be given in days.
type age struct{ duration }

// leastAge is the least that makes sense: what is used more often than that would
// be made anew all the time.
const leastAge = time.Second

func (v *age) Set(s string) error {
	text := s
	if days, rest, found := strings.Cut(s, "d"); found {
		if n, err := strconv.ParseUint(days, 10, 15); err == nil {
			text = strconv.FormatUint(n*24, 10) + "h" + rest
		}
	}
	if err := v.duration.Set(text); err != nil {
		return err
	}
	switch {
	case v.bad != "" && text == s:
		v.bad = fmt.Sprintf("%q is not a duration; write it like 7d, 36h or 90m", s)
	case v.bad != "":
		v.bad = fmt.Sprintf("%q is not a duration; write it like 7d, 1d12h or 90m", s)
	case v.d < leastAge:
		v.bad = fmt.Sprintf(
			"%q is too short: scopes that are in use would be removed and made anew all the time; write at least %s",
			s, human(leastAge))
	}
	return nil
}

// scopePattern returns what chooses the scopes; nil: all.
func (p *program) scopePattern(pattern string, given bool) func(scope string) bool {
	if !given {
		return nil
	}
	switch {
	case pattern == "":
		p.problems.add("--scope: is empty; write a pattern such as import/*, or leave it out")
	case strings.HasPrefix(pattern, "/"), strings.HasSuffix(pattern, "/"):
		p.problems.add(
			fmt.Sprintf("--scope: %q fits no scope: none begins or ends with a slash; write it like import/*", pattern))
	case !strings.ContainsAny(pattern, "*?"):
		_, err := lock.EscapeScope(pattern)
		p.problems.addRequest(err, func(string) string { return "--scope" })
	}
	match := override.Match{Scope: pattern}
	return func(scope string) bool { return match.Fits(override.Subject{Scope: scope}, 0) }
}

func (p *program) collectIdle(c *cobra.Command, f *gcFlags) error {
	o := lock.IdleOptions{Older: f.older.or(lock.DefaultIdle), DryRun: f.dryRun.is}
	o.Match = p.scopePattern(f.scope, c.Flags().Changed("scope"))
	cfg, client, err := p.jobsConfig(c, f.file)
	if err != nil {
		return err
	}
	all := ensemblesOf(cfg, client)
	done := make([]*gcDone, len(all))
	err = p.withEnsembles(c.Context(), all, func(ctx context.Context, all ensembles) error {
		return all.each(ctx, func(i int, e *ensemble) error {
			found, err := e.client.CollectIdle(ctx, o)
			if err == nil || len(found.Removed) > 0 {
				done[i] = &gcDone{e, found}
			}
			return err
		})
	})
	done = slices.DeleteFunc(done, func(one *gcDone) bool { return one == nil })
	if err != nil && len(done) == 0 {
		return err
	}
	for _, one := range done {
		defer p.tellUnreadable(one.on.unreadable(one.Unreadable))
	}
	v := newGCView(done, o)
	if err := p.writePage(v, func(pg page) { writeGC(pg, v) }); err != nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("not all is done: %w", err)
	}
	for _, l := range v.Left {
		if l.Why == lock.LeftDenied {
			return &codeError{code: exitFailed}
		}
	}
	return nil
}
