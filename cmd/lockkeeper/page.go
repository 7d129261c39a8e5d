package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A page is what people read, no wider than their terminal: paragraphs and grids
// fit themselves in. What is written to it in another way keeps its width.
type page struct {
	*bytes.Buffer
	width int  // in columns
	wide  bool // -o wide: with all columns
}

// writePage writes v as JSON or YAML, or else lets draw write it for people.
func (p *program) writePage(v any, draw func(pg page)) error {
	switch p.output.is {
	case "json":
		return p.writeJSON(v)
	case "yaml":
		return p.writeYAML(v)
	}
	pg := page{new(bytes.Buffer), p.columns(), p.output.is == "wide"}
	draw(pg)
	_, err := pg.WriteTo(p.stdout)
	return err
}

// How wide a page is by default, and how narrow it gets at most.
const (
	usualColumns = 80
	wideColumns  = 160
	leastColumns = 40
)

// columns returns $COLUMNS, or else how wide the terminal is; without either 80,
// and 160 for -o wide.
func (p *program) columns() int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return max(n, leastColumns)
	}
	if f, ok := p.stdout.(*os.File); ok {
		if n := terminalColumns(f); n > 0 {
			return max(n, leastColumns)
		}
	}
	if p.output.is == "wide" {
		return wideColumns
	}
	return usualColumns
}

// paragraph writes text behind a lead, folded between words. Lines after the
// first begin under the first one's text.
func (pg page) paragraph(lead, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	margin := strings.Repeat(" ", utf8.RuneCountInString(lead))
	for i, line := range fold(printable(text), max(pg.width-len(margin), leastColumns/2)) {
		if i > 0 {
			lead = margin
		}
		pg.line(lead + line)
	}
}

func (pg page) line(text string) { _, _ = fmt.Fprintln(pg, strings.TrimRight(text, " ")) }

// A grid is a table. Its last column is folded where the page ends, and so is
// each of the soft columns, the widest first, when that is not enough. All other
// cells stay whole, so that they can be copied, however narrow the page is; and
// so do whole lines.
type grid struct {
	pg    page
	soft  []int
	last  int // how narrow the last column gets before the soft ones give way
	rows  [][]string
	lines map[int]string // whole ones, in the place of a row
}

// grid begins a table; soft are the indexes of the columns that may be folded
// beside the last. draw writes it.
func (pg page) grid(soft ...int) *grid { return &grid{pg: pg, soft: soft, last: leastLast} }

func (g *grid) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = printable(fmt.Sprint(cell))
	}
	g.rows = append(g.rows, texts)
}

// whole adds a line that goes through all columns and is not folded: a command to
// be copied.
func (g *grid) whole(line string) {
	if g.lines == nil {
		g.lines = map[int]string{}
	}
	g.lines[len(g.rows)] = printable(line)
	g.rows = append(g.rows, nil)
}

const (
	gap        = 2  // between columns
	leastSoft  = 10 // how narrow a soft column gets
	leastLast  = 24 // how narrow the last one gets before others have to give way
	foldedMark = "  "
)

func (g *grid) draw() {
	widths := g.widths()
	for row, cells := range g.rows {
		if line, ok := g.lines[row]; ok {
			g.pg.line(line)
			continue
		}
		folded := make([][]string, len(cells))
		height := 0
		for i, cell := range cells {
			folded[i] = foldCell(cell, widths[i])
			height = max(height, len(folded[i]))
		}
		for n := range height {
			var b strings.Builder
			for i, lines := range folded {
				text := ""
				if n < len(lines) {
					text = lines[n]
				}
				b.WriteString(text)
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+gap))
			}
			g.pg.line(b.String())
		}
	}
}

// widths returns how wide the columns are.
func (g *grid) widths() []int {
	var widths []int
	for _, cells := range g.rows {
		for i, cell := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	last := len(widths) - 1
	if last < 0 {
		return nil
	}
	before := 0 // all but the last
	for _, w := range widths[:last] {
		before += w + gap
	}
	need := min(widths[last], g.last)
	for before+need > g.pg.width {
		i := g.widestSoft(widths)
		if i < 0 {
			break
		}
		widths[i]--
		before--
	}
	widths[last] = min(widths[last], max(g.pg.width-before, need))
	return widths
}

// widestSoft returns the column that gives way next; -1: none can.
func (g *grid) widestSoft(widths []int) int {
	widest := -1
	for _, i := range g.soft {
		if i < len(widths)-1 && widths[i] > leastSoft && (widest < 0 || widths[i] > widths[widest]) {
			widest = i
		}
	}
	return widest
}

// foldCell is fold, with the lines after the first set off.
func foldCell(text string, width int) []string {
	if utf8.RuneCountInString(text) <= width {
		return []string{text}
	}
	lines := fold(text, width-len(foldedMark))
	for i := range lines[1:] {
		lines[i+1] = foldedMark + lines[i+1]
	}
	return lines
}

// fold breaks text into lines of at most width columns: at blanks, else behind a
// slash, a hyphen or the like, else anywhere.
func fold(text string, width int) []string {
	width = max(width, 1)
	rest := []rune(strings.TrimSpace(text))
	var lines []string
	for len(rest) > width {
		end, next := foldAt(rest, width)
		lines = append(lines, strings.TrimRight(string(rest[:end]), " "))
		rest = []rune(strings.TrimLeft(string(rest[next:]), " "))
	}
	return append(lines, string(rest))
}

func foldAt(rest []rune, width int) (end, next int) {
	for i := width; i > 0; i-- {
		if rest[i] == ' ' {
			return i, i + 1
		}
	}
	for i := width; i > width/2; i-- {
		if strings.ContainsRune("/-_,:=.@", rest[i-1]) {
			return i, i
		}
	}
	return width, width
}
