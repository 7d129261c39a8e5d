package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestEveryListedCommandHasAManualPage(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")

	require.Zero(t, run([]string{"man", dir}, nil, os.Stdout, os.Stderr))

	var want []string
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		want = append(want, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
		for _, sub := range c.Commands() {
			if !sub.Hidden {
				walk(sub)
			}
		}
	}
	walk((&program{}).root())
	pages, err := os.ReadDir(dir)
	require.NoError(t, err)
	var got []string
	for _, page := range pages {
		got = append(got, page.Name())
		text, err := os.ReadFile(filepath.Join(dir, page.Name()))
		require.NoError(t, err)
		require.Contains(t, string(text), `"1" "Nov 2023" "Lockkeeper `, page.Name())
		require.NotContains(t, string(text), "Auto generated", page.Name())
		require.NotContains(t, string(text), "no-help", page.Name())
	}
	require.ElementsMatch(t, want, got)
	require.NotContains(t, got, "lockkeeper-man.1")
}

func TestManualPageKeepsWhatHelpSays(t *testing.T) {
	for _, c := range []struct{ name, help, want string }{
		{"a paragraph", "Wait for a lock,\nrun it.", "Wait for a lock,\nrun it."},
		{"marks of Markdown", "write <root>/a_b and *", `write \<root\>/a\_b and \*`},
		{"a table", "Codes:\n  75     none\n  76     *late*", "Codes:\n\n```\n  75     none\n  76     *late*\n```"},
		{"text behind a table", "  a\nb", "```\n  a\n\n```\nb"},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, markdown(c.help)) })
	}
}

func TestDateOfManualPagesIsThatOfTheCommit(t *testing.T) {
	commit := time.Date(2026, 11, 27, 23, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, epoch, commit string
		want                time.Time
		refused             string
	}{
		{name: "the commit's", commit: "2026-11-28T00:00:00+01:00", want: commit},
		{name: "the environment's goes first", epoch: "86400", commit: "2026-11-27T23:00:00Z", want: time.Unix(86400, 0).UTC()},
		{name: "not a number", epoch: "today", refused: `SOURCE_DATE_EPOCH: "today" is not a whole number`},
		{name: "no date", refused: "set SOURCE_DATE_EPOCH"},
	} {
		t.Run(c.name, func(t *testing.T) {
			date, err := manDate(c.epoch, versionView{Time: c.commit})
			if c.refused != "" {
				require.ErrorContains(t, err, c.refused)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, date)
		})
	}
}
