package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// printTrail prints the audit trail: what was done to whom, by whom, why, and who
// has put it on record. A deed that needs a record first is there twice.
func printTrail(out io.Writer, records []opstore.AuditRecord, began time.Time) {
	_, _ = fmt.Fprintf(out, "\n  The audit trail:\n\n")
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { _, _ = fmt.Fprintf(table, "  %s\n", strings.Join(cells, "\t")) }
	row("NO", "AFTER", "ACTION", "", "BY", "TO", "FOR", "WHY", "WRITTEN BY")
	for _, r := range records {
		row(fmt.Sprintf("%2d", r.Seq), fmt.Sprintf("%.2fs", r.At.Sub(began).Seconds()),
			string(r.Action), state(r), r.By, victims(r), cmp.Or(r.Override, r.Approval, "-"), why(r), r.Identity)
	}
	_ = table.Flush()
}

// state says whether it was about to be done, or what became of it.
func state(r opstore.AuditRecord) string {
	if r.Phase == opstore.AuditIntent {
		return "announced"
	}
	return r.Result
}

// why is what a person gave as the reason, or the rulebook.
func why(r opstore.AuditRecord) string {
	if r.Reason == string(priority.Outranked) {
		return "higher priority"
	}
	return cmp.Or(r.Reason, "-")
}

func victims(r opstore.AuditRecord) string {
	var names []string
	for _, v := range r.Victims {
		names = append(names, v.Owner)
	}
	return cmp.Or(strings.Join(names, ", "), "-")
}

// printReport says whether the trail is what was written.
func printReport(out io.Writer, report opstore.AuditReport) {
	verdict := fmt.Sprintf(
		"Verified: %d records, %d to %d, each with the hash of the one before; none was changed or taken away.",
		report.Checked, report.From, report.To)
	if report.Broken != nil {
		verdict = "The trail is broken: " + report.Broken.Error()
	}
	_, _ = fmt.Fprintf(out, "\n  %s\n\n", verdict)
	if report.Untrusted != nil {
		_, _ = fmt.Fprintf(out, "  Others could have written all of it: %s\n\n", report.Untrusted)
	}
}
