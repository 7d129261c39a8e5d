package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/recipes"
)

func (p *program) approvals() *cobra.Command {
	c := &cobra.Command{
		Use:   "approvals",
		Short: "Decide about requests whose holders do not give the lock back in time",
		Long: `Decide about polite requests whose holders do not finish their cleanup in time.
Daemons whose configuration has the section approvals ask, and wait for the
deadline; a request that is not approved by then fails.

Who approves lets the lock be taken by force: the holder's cleanup is cut short.
All of it is put on record (lockkeeper audit).`,
	}
	p.group(c)
	c.AddCommand(p.approvalsLs(), p.approvalsDecide(true), p.approvalsDecide(false))
	return c
}

func (p *program) approvalsLs() *cobra.Command {
	var file jobsFile
	c := p.command(&cobra.Command{
		Use:   "ls",
		Short: "List what waits for a decision: who wants which lock, who has it, and until when",
		Long: `List what waits for a decision: who wants which lock, who has it, and until when
somebody has to decide.

Exit code 75 if ZooKeeper does not answer.`,
		Example: `  lockkeeper approvals ls
  lockkeeper approvals ls -o json | jq -r '.[] | select(.decision == null) | .id'`,
	}, nil, func(c *cobra.Command, _ []string) error { return p.listApprovals(c, file) })
	file.add(c)
	return c
}

func (p *program) listApprovals(c *cobra.Command, file jobsFile) error {
	_, client, err := p.jobsConfig(c, file)
	if err != nil {
		return err
	}
	var (
		all []recipes.Approval
		now time.Time
	)
	err = p.withClient(c, client, func(ctx context.Context, client *recipes.Client) (err error) {
		if all, err = client.Approvals().List(ctx); err == nil {
			now, err = client.Time(ctx)
		}
		return err
	})
	if err != nil {
		return err
	}
	views := make([]approvalView, len(all))
	for i, a := range all {
		views[i] = newApprovalView(a)
	}
	if len(views) == 0 {
		p.say("nothing waits for a decision")
		if p.forPeople() {
			return nil
		}
	}
	return p.writePage(views, func(pg page) { writeApprovals(pg, all, now) })
}

// approvalView is an approval in JSON and YAML. The names of fields are a promise
// to scripts.
type approvalView struct {
	ID        string               `json:"id"`
	Scope     string               `json:"scope"`
	Job       string               `json:"job,omitempty"`
	Labels    map[string]string    `json:"labels,omitempty"`
	Requestor recipes.AuditParty   `json:"requestor"`
	Holders   []recipes.AuditParty `json:"holders"`
	Reason    string               `json:"reason,omitempty"`
	Waited    int64                `json:"waited_ms"`
	Opened    time.Time            `json:"opened"`
	Until     *time.Time           `json:"until"`
	AskedBy   string               `json:"asked_by"`
	Host      string               `json:"host"`
	PID       int                  `json:"pid"`
	Decision  *decisionView        `json:"decision"`
}

type decisionView struct {
	Approved bool      `json:"approved"`
	By       string    `json:"by"`
	Reason   string    `json:"reason"`
	Identity string    `json:"identity"`
	At       time.Time `json:"at"`
}

func newApprovalView(a recipes.Approval) approvalView {
	v := approvalView{
		ID: a.ID, Scope: a.Scope, Job: a.Job, Labels: a.Labels, Requestor: a.Requestor, Holders: a.Holders, Reason: a.Reason,
		Waited: a.Waited.Milliseconds(), Opened: a.Opened, AskedBy: a.By, Host: a.Host, PID: a.PID,
	}
	if !a.Until.IsZero() {
		v.Until = &a.Until
	}
	if d := a.Decision; d != nil {
		v.Decision = &decisionView{d.Approved, d.By, d.Reason, d.Identity, d.At}
	}
	return v
}

func writeApprovals(pg page, all []recipes.Approval, now time.Time) {
	for i, a := range all {
		if i > 0 {
			pg.line("")
		}
		state := "open"
		switch d := a.Decision; {
		case d != nil:
			state = fmt.Sprintf("%s by %s: %s", decisionWord(d.Approved), d.By, d.Reason)
		case !a.Until.IsZero():
			state = "open until " + both(a.Until, now) + "; then the request fails"
		}
		pg.paragraph(a.ID+"  ", "%s", state)
		pg.paragraph("  scope    ", "%s", a.Scope)
		pg.paragraph("  request  ", "%s; it has waited for %s, and is asked for by host %s, pid %d", partyText(a.Requestor), human(a.Waited+now.Sub(a.Opened)), a.Host, a.PID)
		if a.Reason != "" {
			pg.paragraph("  why      ", "%s", a.Reason)
		}
		for _, h := range a.Holders {
			pg.paragraph("  holder   ", "%s, host %s, pid %d, token %s: has not finished its cleanup", partyText(h), h.Host, h.PID, h.Token)
		}
	}
}

func decisionWord(approved bool) string {
	if approved {
		return "approved"
	}
	return "denied"
}

func partyText(p recipes.AuditParty) string {
	return fmt.Sprintf("%s (priority %s)", p.Owner, levelText(p.Priority))
}

func partiesText(all []recipes.AuditParty) string {
	texts := make([]string, len(all))
	for i, p := range all {
		texts[i] = partyText(p)
	}
	return cmp.Or(strings.Join(texts, ", "), "-")
}

func (p *program) approvalsDecide(approve bool) *cobra.Command {
	var (
		file jobsFile
		by   operatorFlags
	)
	about := &cobra.Command{
		Use:   "deny ID",
		Short: "Let the request fail: the holder finishes its cleanup",
		Long: `Let the request fail: the holder keeps the lock until it has finished its cleanup.

Exit code 75 if ZooKeeper does not answer; 78 for wrong flags, or without the
credentials of an operator.`,
		Example: `  lockkeeper approvals deny a-0000000012 --reason 'the backup has to finish'`,
	}
	why := "the request is denied"
	if approve {
		about.Use = "approve ID"
		about.Short = "Let the request take the lock by force"
		about.Long = `Let the request take the lock by force, at once: the holder loses it, and what it
has not cleaned up by then stays as it is.

Exit code 75 if ZooKeeper does not answer; 78 for wrong flags, or without the
credentials of an operator.`
		about.Example = `  lockkeeper approvals approve a-0000000012 --reason 'payments are stuck'`
		why = "the lock may be taken"
	}
	c := p.command(about, []string{"ID"}, func(c *cobra.Command, args []string) error {
		by.check(p)
		cfg, client, err := p.jobsConfig(c, file)
		if err != nil {
			return err
		}
		id, refused := args[0], fmt.Sprintf("approval %q not decided", args[0])
		return p.asOperator(c, client, refused, func(ctx context.Context, o *operator) error {
			return p.decide(ctx, o, id, recipes.Decision{Approved: approve, By: by.name(o.client), Reason: by.reason})
		}, cfg)
	})
	by.add(c, why)
	file.add(c)
	return c
}

// decide writes a decision where the one who asks finds it.
func (p *program) decide(ctx context.Context, o *operator, id string, d recipes.Decision) error {
	entry := recipes.AuditEntry{
		Action: recipes.AuditApprovalDecide, By: d.By, Reason: d.Reason, Approval: id,
		After: map[string]string{"decision": decisionWord(d.Approved)},
	}
	all, err := o.client.Approvals().List(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(a recipes.Approval) bool { return a.ID == id })
	if i < 0 { // nothing that would have to be on record
		return fmt.Errorf("%w; look at those that wait: lockkeeper approvals ls", &recipes.NoApprovalError{ID: id})
	}
	about := all[i]
	entry.Scope, entry.Job, entry.Requestor, entry.Victims = about.Scope, about.Job, &about.Requestor, about.Holders
	err = o.onRecord(ctx, entry, func(*recipes.AuditEntry) error { return o.client.Approvals().Decide(ctx, id, d) })
	if err != nil {
		return err
	}
	about.Decision = &d
	return p.writePage(newApprovalView(about), func(pg page) {
		what := "the request fails, and the holder finishes its cleanup"
		if d.Approved {
			what = fmt.Sprintf("%s takes lock %q from %s", about.Requestor.Owner, about.Scope, partiesText(about.Holders))
		}
		pg.paragraph("", "%s: %s; %s", id, decisionWord(d.Approved), what)
	})
}
