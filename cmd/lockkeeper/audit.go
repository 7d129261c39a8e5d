package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

func (p *program) audit() *cobra.Command {
	q := auditQuery{limit: number{is: 50, most: opstore.MaxAuditKeep}}
	c := p.command(&cobra.Command{
		Use:   "audit",
		Short: "Show who did what to whose locks, and why",
		Long: `Show the audit trail, the newest last: who preempted whom, who took or broke
whose lock, and what overrides and approvals have done.

What is done by force is there twice: "about to" before it is done, and what
became of it. If the second is missing, its process died in between.

Some 10000 records are kept in ZooKeeper; the daemons ship all of them to the
file named by audit: {file: ...} in their configuration. Times are UTC.

Exit code 75 if ZooKeeper does not answer; 78 for wrong flags, or if it refuses
access.`,
		Example: `  lockkeeper audit --since 2h
  lockkeeper audit --scope 'cluster/orders*' --by ana -o wide
  lockkeeper audit -f
  lockkeeper audit -o json | jq '.[] | select(.action == "break")'`,
	}, nil, func(c *cobra.Command, _ []string) error { return p.showAudit(c, &q) })
	q.add(c)
	alone(c)
	c.AddCommand(p.auditVerify())
	return c
}

// auditQuery are the flags that say which records are shown.
type auditQuery struct {
	config jobsFile // the daemon's
	since  ago
	scope  string
	by     string
	limit  number
	follow yes
}

func (q *auditQuery) add(c *cobra.Command) {
	flags := c.Flags()
	q.config.addAs(c, "config", "configuration `file` of the daemons, for ZooKeeper; only if it is there")
	flags.Var(&q.since, "since", "only what is not older, for example 2h or 2006-01-02T15:04:05Z")
	flags.StringVar(&q.scope, "scope", "",
		"only locks that fit the `pattern`; * stands for any text, ? for one character")
	flags.StringVar(&q.by, "by", "", "only what was done by somebody whose name or identity has this `text` in it")
	flags.VarP(&q.limit, "limit", "n", "how `many` records at most, the newest (default 50)")
	flags.VarPF(&q.follow, "follow", "f", "go on, and show what comes").NoOptDefVal = "true"
}

// ago is a time in the past: how long ago, or when.
type ago struct {
	back duration
	at   moment
}

func (v *ago) Set(s string) error {
	*v = ago{}
	v.back.positive = "2h"
	if _, err := time.ParseDuration(s); err == nil {
		return v.back.Set(s)
	}
	_ = v.at.Set(s)
	if v.at.bad != "" {
		v.at.bad = `"` + s +
			`" is neither a duration nor a time; write 2h, 15:04, 2006-01-02 15:04 (both are UTC) or 2006-01-02T15:04:05Z`
	}
	return nil
}

func (v *ago) String() string { return "" }
func (v *ago) Type() string   { return "time" }
func (v *ago) problem() string {
	if v.back.bad != "" {
		return v.back.bad
	}
	return v.at.bad
}

// from returns the time; zero without the flag. A time without a date is the
// last such before now.
func (v *ago) from(now time.Time) time.Time {
	switch {
	case v.back.given:
		return now.Add(-v.back.d)
	case !v.at.given():
		return time.Time{}
	}
	t := v.at.after(now)
	if t.After(now) {
		t = t.AddDate(0, 0, -1)
	}
	return t
}

func (p *program) showAudit(c *cobra.Command, q *auditQuery) error {
	if q.follow.is && p.output.is == "yaml" {
		p.problems.add("--follow: YAML has no end then; write -o json for one record a line")
	}
	return p.inspect(c, q.config, func(ctx context.Context, client *lock.Client) error {
		trail, err := client.AuditLog(0)
		if err != nil {
			return err
		}
		now := client.Now()
		query := opstore.AuditQuery{Since: q.since.from(now), Scope: q.scope, By: q.by, Limit: q.limit.is}
		if q.follow.is {
			return p.followAudit(ctx, trail, query, now)
		}
		query.Limit++ // whether there are more
		records, left, err := trail.Read(ctx, query)
		if err != nil {
			return err
		}
		defer p.tellUnreadable(left)
		if len(records) > q.limit.is {
			records = records[1:]
			p.say("there are older records than the newest %d; -n shows more", q.limit.is)
		}
		if len(records) == 0 && len(left) == 0 {
			p.say("no such record; lockkeeper audit verify says how many there are")
			if p.forPeople() {
				return nil
			}
		}
		return p.writePage(auditViews(records), func(pg page) { writeAudit(pg, records, now) })
	})
}

// followAudit shows what there is, then each record as it comes.
func (p *program) followAudit(
	ctx context.Context, trail *opstore.AuditLog, q opstore.AuditQuery, now time.Time,
) error {
	last, err := trail.Last(ctx)
	if err != nil {
		return err
	}
	records, left, err := trail.Read(ctx, q)
	if err != nil {
		return err
	}
	p.tellUnreadable(left)
	if err := p.writeEach(records, now, true); err != nil {
		return err
	}
	for _, r := range records {
		last = max(last, r.Seq)
	}
	for {
		err := trail.Follow(ctx, last+1, func(r opstore.AuditRecord) error {
			last = r.Seq
			if !q.Wants(r) {
				return nil
			}
			return p.writeEach([]opstore.AuditRecord{r}, r.At, false)
		})
		gone, removed := errors.AsType[*opstore.AuditGapError](err)
		bad, broken := errors.AsType[*opstore.AuditBrokenError](err)
		switch {
		case removed:
			p.say("%v", gone)
			last = gone.To
		case broken:
			p.say("%v; lockkeeper audit verify tells more", bad)
			last = bad.Next() - 1
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was told to stop
		default:
			return err
		}
	}
}

// writeEach writes records as they come: JSON a line each, or rows of a table.
func (p *program) writeEach(records []opstore.AuditRecord, now time.Time, head bool) error {
	if p.output.is == "json" {
		for _, v := range auditViews(records) {
			if err := p.writeJSONLine(v); err != nil {
				return err
			}
		}
		return nil
	}
	return p.writePage(nil, func(pg page) {
		g := auditGrid(pg, head)
		for _, r := range records {
			auditRow(g, r, now)
		}
		g.draw()
	})
}
