package peers

import (
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// WriteText writes tables for people who look at a terminal.
func WriteText(to io.Writer, tables []Table) error {
	var text strings.Builder
	for _, t := range tables {
		text.WriteString("\n" + t.Title + "\n")
		for _, note := range t.Notes {
			text.WriteString("(" + note + ")\n")
		}
		out := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
		rows := t.Rows
		if strings.Join(t.Columns, "") != "" {
			rows = slices.Insert(slices.Clone(rows), 0, t.Columns)
		}
		for _, row := range rows {
			if _, err := io.WriteString(out, strings.Join(row, "\t")+"\n"); err != nil {
				return err
			}
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	_, err := io.WriteString(to, text.String())
	return err
}

// WriteMarkdown writes them for a document.
func WriteMarkdown(to io.Writer, tables []Table) error {
	var text strings.Builder
	for _, t := range tables {
		text.WriteString("### " + t.Title + "\n\n")
		for _, note := range t.Notes {
			text.WriteString(strings.ToUpper(note[:1]) + note[1:] + ".\n\n")
		}
		text.WriteString("| " + strings.Join(t.Columns, " | ") + " |\n|" + strings.Repeat("---|", len(t.Columns)) + "\n")
		for _, row := range t.Rows {
			text.WriteString("| " + strings.ReplaceAll(strings.Join(row, "\t"), "|", `\|`) + " |\n")
		}
		text.WriteString("\n")
	}
	_, err := io.WriteString(to, strings.ReplaceAll(text.String(), "\t", " | "))
	return err
}
