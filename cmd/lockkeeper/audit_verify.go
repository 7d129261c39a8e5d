package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/observability/audit"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

func (p *program) auditVerify() *cobra.Command {
	var (
		config jobsFile
		file   string
	)
	c := p.command(&cobra.Command{
		Use:   "verify",
		Short: "Check that the audit trail is unchanged",
		Long: `Check that the audit trail in ZooKeeper is what was written: no record was
changed, taken away, put in or put elsewhere, by whatever means.

A client that may write all nodes could make the whole trail anew. With --file the
records in the file of a daemon are checked as well, and compared with those in
ZooKeeper: they do not agree then.

Exit code 1 if the trail is not what was written, 75 if ZooKeeper does not answer.`,
		Example: `  lockkeeper audit verify
  lockkeeper audit verify --file /var/log/lockkeeper/audit.jsonl`,
	}, nil, func(c *cobra.Command, _ []string) error { return p.verifyAudit(c, config, file) })
	c.Flags().StringVar(&file, "file", "", "check this `file` of records, too")
	config.addAs(c, "config", "configuration `file` of the daemons, for ZooKeeper; only if it is there")
	return c
}

// auditReportView is what audit verify has found, in JSON and YAML. The names of
// fields are a promise to scripts.
type auditReportView struct {
	Intact    bool           `json:"intact"`
	ZooKeeper auditChainView `json:"zookeeper"`
	File      *auditFileView `json:"file"`
	Foreign   []string       `json:"foreign_nodes"`
	Untrusted *string        `json:"untrusted"` // who else could have written all of it
}

type auditChainView struct {
	Checked int             `json:"checked"`
	From    int64           `json:"from"`
	To      int64           `json:"to"`
	Broken  *auditFaultView `json:"broken"`
}

type auditFileView struct {
	auditChainView
	Name      string     `json:"name"`
	Compared  int        `json:"compared"`
	Unchained int        `json:"unchained"`
	Torn      int        `json:"torn_lines"`
	Gaps      [][2]int64 `json:"gaps"`
}

type auditFaultView struct {
	Seq   int64              `json:"seq"`
	Line  int                `json:"line,omitempty"`
	Fault opstore.AuditFault `json:"fault"`
	Why   string             `json:"why"`
}

func newAuditReportView(r opstore.AuditReport) auditReportView {
	v := auditReportView{Intact: r.Broken == nil, Foreign: append([]string{}, r.Foreign...)}
	v.ZooKeeper = auditChainView{Checked: r.Checked, From: r.From, To: r.To}
	if r.Untrusted != nil {
		v.Untrusted = new(r.Untrusted.Error())
	}
	if b := r.Broken; b != nil {
		v.ZooKeeper.Broken = &auditFaultView{Seq: b.Seq, Fault: b.Fault, Why: b.Why}
	}
	return v
}

func (v *auditReportView) withFile(name string, r audit.FileReport) {
	v.Intact = v.Intact && r.Broken == nil
	v.File = &auditFileView{
		auditChainView: auditChainView{Checked: r.Checked, From: r.From, To: r.To},
		Name:           name, Compared: r.Compared, Unchained: r.Unchained, Torn: r.Torn,
		Gaps: append([][2]int64{}, r.Gaps...),
	}
	if b := r.Broken; b != nil {
		v.File.Broken = &auditFaultView{Seq: b.Seq, Line: b.Line, Fault: b.Fault, Why: b.Why}
	}
}

// errNotIntact is on the page already.
var errNotIntact = errors.New(
	"the audit trail is not what was written; save ZooKeeper's data and the file, and find out who could write them")

func (p *program) verifyAudit(c *cobra.Command, config jobsFile, file string) error {
	if file != "" {
		if f, err := os.Open(file); err != nil {
			p.problems.add(fmt.Sprintf("--file: %s cannot be read: %v; name the file that audit.file of a daemon names",
				file, withoutPath(err)))
		} else {
			_ = f.Close()
		}
	}
	var view auditReportView
	err := p.inspect(c, config, func(ctx context.Context, client *lock.Client) error {
		trail, err := client.AuditLog(0)
		if err != nil {
			return err
		}
		report, err := trail.Verify(ctx)
		if err != nil {
			return err
		}
		view = newAuditReportView(report)
		if file == "" {
			return nil
		}
		found, err := audit.VerifyFile(ctx, file, trail)
		if err == nil {
			view.withFile(file, found)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := p.writePage(view, func(pg page) { writeAuditReport(pg, view) }); err != nil {
		return err
	}
	if !view.Intact {
		return errNotIntact
	}
	return nil
}

func writeAuditReport(pg page, v auditReportView) {
	pg.paragraph("zookeeper  ", "%s", auditVerdict(v.ZooKeeper))
	if len(v.Foreign) > 0 {
		pg.paragraph("           ", "nodes that are no records, ignored: %s", strings.Join(v.Foreign, ", "))
	}
	if v.Untrusted != nil {
		pg.paragraph("           ", "others could have written all of it: %s", *v.Untrusted)
	}
	f := v.File
	if f == nil {
		return
	}
	pg.paragraph("file       ", "%s", auditVerdict(f.auditChainView))
	if f.Broken == nil {
		pg.paragraph("           ", "%d of them are in ZooKeeper, too, and are the same", f.Compared)
	}
	for _, gap := range f.Gaps {
		pg.paragraph("           ",
			"records %d to %d are missing: they were removed from ZooKeeper before they could be shipped", gap[0], gap[1])
	}
	if f.Unchained > 0 {
		pg.paragraph("           ", "records from when ZooKeeper did not answer, in no chain: %d", f.Unchained)
	}
	if f.Torn > 0 {
		pg.paragraph("           ", "lines that were not written to their end, and are there again: %d", f.Torn)
	}
}

func auditVerdict(v auditChainView) string {
	switch {
	case v.Broken != nil && v.Broken.Line > 0:
		return fmt.Sprintf("NOT INTACT at line %d, record %d, %s: %s; %d before it are intact",
			v.Broken.Line, v.Broken.Seq, v.Broken.Fault, v.Broken.Why, v.Checked)
	case v.Broken != nil:
		return fmt.Sprintf("NOT INTACT at record %d, %s: %s; %d before it are intact",
			v.Broken.Seq, v.Broken.Fault, v.Broken.Why, v.Checked)
	case v.Checked == 0:
		return "there are no records"
	}
	return fmt.Sprintf("intact: %d records, %d to %d", v.Checked, v.From, v.To)
}

// sortedNames are the keys of both.
func sortedNames(a, b map[string]string) []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	return slices.Compact(names)
}
