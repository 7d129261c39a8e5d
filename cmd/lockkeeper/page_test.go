package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawn returns a page of that width.
func drawn(width int, draw func(pg page)) string {
	pg := page{new(bytes.Buffer), width, false}
	draw(pg)
	return pg.String()
}

func someGrid(pg page) {
	g := pg.grid(1)
	g.row("WHEN", "WHO", "TOKEN", "WHY")
	g.row("11:59:00", "ana", 7301444, "INC-4411: the payments are stuck behind the nightly batch, which runs since noon")
	g.row("12:00:00", "team-payments/hourly rollup of everything", 7301445, "short")
	g.draw()
}

func TestLastColumnIsFoldedWhereThePageEnds(t *testing.T) {
	require.Equal(t, `
WHEN      WHO                                        TOKEN    WHY
11:59:00  ana                                        7301444  INC-4411: the payments are stuck behind the nightly batch,
                                                                which runs since noon
12:00:00  team-payments/hourly rollup of everything  7301445  short
`, "\n"+drawn(122, someGrid))
}

func TestSoftColumnsGiveWayAndTheOthersStayWhole(t *testing.T) {
	require.Equal(t, `
WHEN      WHO         TOKEN    WHY
11:59:00  ana         7301444  INC-4411: the payments
                                 are stuck behind the
                                 nightly batch, which
                                 runs since noon
12:00:00  team-       7301445  short
            payments
            /hourly
            rollup
            of
            everythi
            ng
`, "\n"+drawn(40, someGrid))
}

func TestParagraphGoesOnUnderItsText(t *testing.T) {
	require.Equal(t, `
next:  it will be preempted at 12:11:02
       and then forced out, because
       hotfix outranks it
`, "\n"+drawn(40, func(pg page) {
		pg.paragraph("next:  ", "it will be preempted at %s and then forced out, because hotfix outranks it", "12:11:02")
	}))
}

func TestFoldingLosesNoTextAndKeepsTheWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-zé/ -]{0,80}`).Draw(t, "text")
		width := rapid.IntRange(1, 30).Draw(t, "width")
		lines := fold(text, width)
		for _, line := range lines {
			require.LessOrEqual(t, utf8.RuneCountInString(line), width)
		}
		bare := func(s string) string { return strings.ReplaceAll(s, " ", "") }
		require.Equal(t, bare(text), bare(strings.Join(lines, "")))
	})
}

func TestWidthOfAPage(t *testing.T) {
	p := &program{stdout: new(bytes.Buffer)}
	for columns, want := range map[string]int{"": 80, "160": 160, "3": 40, "-1": 80, "many": 80} {
		t.Setenv("COLUMNS", columns)
		require.Equal(t, want, p.columns(), columns)
	}
	t.Setenv("COLUMNS", "")
	p.output.is = "wide"
	require.Equal(t, 160, p.columns())
}
