package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/temporal"
)

func (p *program) approvals() *cobra.Command {
	c := &cobra.Command{
		Use:   "approvals",
		Short: "Decide about requests whose holders do not give the lock back in time",
		Long: `Decide about polite requests whose holders do not finish their cleanup in time.
Daemons whose configuration has the section approvals ask, and wait for the
deadline; a request that is not approved by then fails.

Who approves lets the lock be taken by force when the grace of the holder is over;
who forces, at once: the holder's cleanup is cut short. All of it is put on record
(lockkeeper audit).

Where the configuration says approvals: {temporal: {...}}, questions are workflows
of a Temporal server, w-3f29c1d07ab41122, and outlive the process that asks; a-0000000012 is
one on the board in ZooKeeper. The commands decide about both.`,
	}
	p.group(c)
	c.AddCommand(p.approvalsLs(), p.approvalsDecide(approveVerb), p.approvalsDecide(forceVerb),
		p.approvalsDecide(denyVerb))
	return c
}

func (p *program) approvalsLs() *cobra.Command {
	var file jobsFile
	c := p.command(&cobra.Command{
		Use:   "ls",
		Short: "List what waits for a decision: who wants which lock, who has it, and until when",
		Long: `List what waits for a decision: who wants which lock, who has it, and until when
a decision is needed.

Exit code 75 if ZooKeeper does not answer, or Temporal where it is asked there.`,
		Example: `  lockkeeper approvals ls
  lockkeeper approvals ls -o json | jq -r '.[] | select(.decision == null) | .id'`,
	}, nil, func(c *cobra.Command, _ []string) error { return p.listApprovals(c, file) })
	file.add(c)
	return c
}

func (p *program) listApprovals(c *cobra.Command, file jobsFile) error {
	cfg, client, err := p.jobsConfig(c, file)
	if err != nil {
		return err
	}
	var (
		all    []opstore.Approval
		left   []lock.Unreadable
		silent error
		now    time.Time
	)
	err = p.withClient(c, client, func(ctx context.Context, locks *lock.Client) error {
		all, left, err = locks.Approvals().List(ctx)
		if err == nil {
			now, err = locks.Time(ctx)
		}
		if err == nil && asksInWorkflows(cfg) {
			var more []opstore.Approval
			more, silent = p.listWorkflows(ctx, cfg, client)
			all = append(all, more...)
		}
		return err
	})
	if err != nil {
		return err
	}
	defer p.tellUnreadable(left)
	rows := make([]views.Approval, len(all))
	for i, a := range all {
		rows[i] = views.NewApproval(a)
	}
	if len(rows) == 0 && len(left) == 0 && silent == nil {
		p.say("nothing waits for a decision")
	}
	if len(rows) > 0 || !p.forPeople() {
		if err := p.writePage(rows, func(pg page) { writeApprovals(pg, all, now) }); err != nil {
			return err
		}
	}
	return silent
}

func writeApprovals(pg page, all []opstore.Approval, now time.Time) {
	for i, a := range all {
		if i > 0 {
			pg.line("")
		}
		state := "open"
		switch d := a.Decision; {
		case d != nil:
			state = fmt.Sprintf("%s by %s: %s", d.Word(), d.By, d.Reason)
		case !a.Until.IsZero():
			state = "open until " + both(a.Until, now) + "; then the request fails"
		}
		pg.paragraph(a.ID+"  ", "%s", state)
		pg.paragraph("  scope    ", "%s", a.Scope)
		pg.paragraph("  request  ", "%s; it has waited for %s, and is asked for by host %s, pid %d",
			partyText(a.Requestor), human(a.Waited+now.Sub(a.Opened)), a.Host, a.PID)
		if a.Reason != "" {
			pg.paragraph("  why      ", "%s", a.Reason)
		}
		for _, h := range a.Holders {
			pg.paragraph("  holder   ",
				"%s, host %s, pid %d, token %s: has not finished its cleanup", partyText(h), h.Host, h.PID, h.Token)
		}
		for _, e := range a.Escalated {
			pg.paragraph("  told     ", "%s, after %s", e.To, human(e.At.Sub(a.Opened)))
		}
	}
}

func partyText(p opstore.AuditParty) string {
	return fmt.Sprintf("%s (priority %s)", p.Owner, levelText(p.Priority))
}

func partiesText(all []opstore.AuditParty) string {
	return cmp.Or(words.Join(all, ", ", partyText), "-")
}

// A verb is an answer to a question.
type verb struct {
	use, short, long, example, why string
	decision                       opstore.Decision
}

const decideCodes = `

Exit code 75 if ZooKeeper does not answer, or Temporal where it is asked there; 78
for wrong flags, or without the credentials of an operator.`

var (
	approveVerb = verb{
		use: "approve", short: "Let the request take the lock by force, when the grace of the holder is over",
		long: `Let the request take the lock by force, as soon as the cleanup timeout of the
holder is over, or at once if it is over already.` + decideCodes,
		example: `  lockkeeper approvals approve a-0000000012 --reason 'payments are stuck'`,
		why:     "the lock may be taken", decision: opstore.Decision{Approved: true},
	}
	forceVerb = verb{
		use: "force", short: "Let the request take the lock by force, at once",
		long: `Let the request take the lock by force, at once: the holder loses it, and what it
has not cleaned up by then stays as it is.` + decideCodes,
		example: `  lockkeeper approvals force a-0000000012 --reason 'payments are stuck'`,
		why:     "the lock may be taken at once", decision: opstore.Decision{Approved: true, Force: true},
	}
	denyVerb = verb{
		use: "deny", short: "Let the request fail: the holder finishes its cleanup",
		long:    "Let the request fail: the holder keeps the lock until it has finished its cleanup." + decideCodes,
		example: `  lockkeeper approvals deny a-0000000012 --reason 'the backup has to finish'`,
		why:     "the request is denied",
	}
)

func (p *program) approvalsDecide(v verb) *cobra.Command {
	var (
		file jobsFile
		by   operatorFlags
	)
	about := &cobra.Command{Use: v.use + " ID", Short: v.short, Long: v.long, Example: v.example}
	c := p.command(about, []string{"ID"}, func(c *cobra.Command, args []string) error {
		by.check(p)
		cfg, client, err := p.jobsConfig(c, file)
		if err != nil {
			return err
		}
		id, refused := args[0], fmt.Sprintf("approval %q not decided", args[0])
		decide := func(ctx context.Context, o *operator) error {
			d := v.decision
			d.By, d.Reason = by.name(o.client), by.reason
			if temporal.IsApprovalID(id) {
				return p.decideWorkflow(ctx, o, cfg, client, id, d)
			}
			about, _, err := o.Decide(ctx, id, d)
			if errors.As(err, new(*opstore.NoApprovalError)) && about.ID == "" {
				return fmt.Errorf("%w%s", err, lookAtThose)
			}
			return p.writeDecided(about, d, err)
		}
		if trustsTemporal(cfg, id) {
			return p.withClient(c, client, func(ctx context.Context, client *lock.Client) error {
				o, err := newOperator(client, cfg)
				if err != nil {
					return err
				}
				return decide(ctx, o)
			})
		}
		return p.asOperator(c, client, refused, decide, cfg)
	})
	by.add(c, v.why)
	file.add(c)
	return c
}

const lookAtThose = "; look at those that wait: lockkeeper approvals ls"

// writeDecided says what becomes of the request, unless err says why nothing does.
func (p *program) writeDecided(about opstore.Approval, d opstore.Decision, err error) error {
	if err != nil {
		return err
	}
	return p.writePage(views.NewApproval(about), func(pg page) {
		what := "the request fails, and the holder finishes its cleanup"
		if d.Approved {
			what = fmt.Sprintf("%s takes lock %q from %s", about.Requestor.Owner, about.Scope, partiesText(about.Holders))
		}
		if d.Approved && !d.Force {
			what += ", as soon as their grace is over"
		}
		pg.paragraph("", "%s: %s; %s", about.ID, d.Word(), what)
	})
}
