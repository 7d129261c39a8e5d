package top

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/observability/lettering"
	"github.com/lockkeeper/lockkeeper/observability/live"
)

// A column is one of the table. The width of some is fixed, others share what is
// left.
type column struct {
	title  string
	value  func(*live.Lock) string
	width  int // 0: as wide as it needs
	least  int // how narrow it gets
	middle bool
	right  bool // numbers
	snug   bool // gives away what it does not need: what is in it changes seldom
	drop   int  // on narrow terminals the highest go first; 0: never
}

// spacious is how wide a terminal is that may have room for the long titles.
const spacious = 110

// columns are all that the table can have, with long titles or short ones.
func (v View) columns(long bool) []column {
	title := func(short, full string) string {
		if long {
			return full
		}
		return short
	}
	lease, wait, oldest := title("LEASE", "LEASE LEFT"), title("WAIT", "WAITERS"), title("OLDEST", "OLDEST WAIT")
	columns := []column{
		{title: "SCOPE", value: func(l *live.Lock) string { return lettering.Line(l.Scope) }, least: 12, middle: true},
		{title: "STATE", value: func(l *live.Lock) string { return v.stateOf(l).String() }, width: 10, snug: true},
		{title: "HOLDER", value: holderOf, least: 8, drop: 1},
		{title: "SINCE", value: v.heldFor, width: 6, right: true, drop: 2},
		{title: lease, value: leaseLeft, width: max(6, len(lease)), right: true, drop: 3},
		{
			title: wait, value: func(l *live.Lock) string { return fmt.Sprint(len(l.Waiters)) }, width: max(5, len(wait)),
			right: true, snug: true,
		},
		{title: oldest, value: v.oldestWait, width: max(6, len(oldest)), right: true},
		{title: "ROOT BLOCKER", value: rootOf, least: 12, drop: 4},
	}
	if slices.ContainsFunc(v.seenLocks(), func(l live.Lock) bool { return l.Ensemble != "" }) {
		where := column{
			title: "ENSEMBLE", value: func(l *live.Lock) string { return lettering.Line(l.Ensemble) }, least: 8, drop: 2,
		}
		columns = slices.Insert(columns, 1, where)
	}
	return columns
}

func holderOf(l *live.Lock) string {
	switch n := len(l.Holders); n {
	case 0:
		return "-"
	case 1:
		return lettering.Line(l.Holders[0].Owner)
	default:
		return fmt.Sprintf("%s +%d", lettering.Line(l.Holders[0].Owner), n-1)
	}
}

func (v View) heldFor(l *live.Lock) string {
	if len(l.Holders) == 0 {
		return "-"
	}
	first := slices.MinFunc(l.Holders, func(a, b live.Holder) int { return a.Since.Compare(b.Since) })
	return v.age(first.Since)
}

// leaseLeft is what is left until the first of the leases is over.
func leaseLeft(l *live.Lock) string {
	if len(l.Holders) == 0 {
		return "-"
	}
	least := l.Holders[0].LeaseLeft
	for _, h := range l.Holders {
		least = min(least, h.LeaseLeft)
	}
	return leaseWords(least)
}

func leaseWords(millis int64) string {
	if millis <= 0 {
		return "over"
	}
	return live.Human(time.Duration(millis) * time.Millisecond)
}

func (v View) oldestWait(l *live.Lock) string {
	if l.OldestWait == nil {
		return "-"
	}
	return v.age(*l.OldestWait)
}

func rootOf(l *live.Lock) string {
	switch {
	case l.InCircle:
		return "each other"
	case l.RootBlocker == nil:
		return "-"
	case l.RootBlocker.Scope == l.Scope:
		return lettering.Line(l.RootBlocker.Owner)
	}
	return lettering.Line(l.RootBlocker.Owner + " on " + l.RootBlocker.Scope)
}

// need is how wide a column has to be.
func (c column) need(rows []*live.Lock) int {
	width := len(c.title)
	for _, l := range rows {
		width = max(width, lettering.Columns(c.value(l)))
	}
	return width
}

// total is how wide columns are together.
func total(all []column, gap int) int {
	sum := -gap
	for _, c := range all {
		sum += c.width + gap
	}
	return sum
}

// fit decides how wide the columns are, and which there are. Width 0 is as wide as
// it takes.
func fit(all []column, rows []*live.Lock, width, gap int) []column {
	for i := range all {
		if c := &all[i]; c.width == 0 || width == 0 {
			c.width = c.need(rows)
		}
	}
	if width == 0 {
		return all
	}
	if total(all, gap) > width {
		for i := range all {
			if c := &all[i]; c.snug {
				c.width = min(c.width, c.need(rows))
			}
		}
	}
	for {
		sum := total(all, gap)
		if sum <= width {
			return all
		}
		if widest := widestOf(all); widest >= 0 {
			all[widest].width--
			continue
		}
		last := 0
		for i, c := range all {
			if c.drop > all[last].drop {
				last = i
			}
		}
		if all[last].drop == 0 { // as narrow as it gets
			all[0].width = max(1, all[0].width-(sum-width))
			return all
		}
		all = slices.Delete(all, last, last+1)
		for i := range all { // what has shrunk may grow again
			if c := &all[i]; c.least > 0 {
				c.width = c.need(rows)
			}
		}
	}
}

// widestOf is the widest column that gets narrower still; -1: none does.
func widestOf(all []column) int {
	widest := -1
	for i, c := range all {
		if c.least > 0 && c.width > c.least && (widest < 0 || c.width > all[widest].width) {
			widest = i
		}
	}
	return widest
}

// cells are the texts of a row, in columns that are that wide.
func (look Look) cells(columns []column, text func(column) string) []string {
	cells := make([]string, len(columns))
	for i, c := range columns {
		cell := text(c)
		if c.middle {
			cell = look.cutMiddle(cell, c.width)
		} else {
			cell = look.cut(cell, c.width)
		}
		blanks := strings.Repeat(" ", max(0, c.width-lettering.Columns(cell)))
		if c.right {
			cells[i] = blanks + cell
		} else {
			cells[i] = cell + blanks
		}
	}
	return cells
}

// margin is where the mark of the chosen row stands.
const margin = 2

// layout chooses the columns, and what is between them: with long titles and wide
// gaps only where nothing has to be cut for that.
func (v View) layout(look Look, width int) (columns []column, gap string) {
	if width == 0 {
		return fit(v.columns(true), v.rows, 0, 2), "  "
	}
	inner := max(1, width-margin)
	if width >= spacious {
		columns = fit(v.columns(true), v.rows, math.MaxInt, 2)
		if total(columns, 2) <= inner {
			return columns, "  "
		}
	}
	columns = fit(v.columns(false), v.rows, inner, 1)
	if scope := &columns[0]; scope.need(v.rows) > scope.width {
		names := make([]string, len(v.rows))
		for i, l := range v.rows {
			names[i] = scope.value(l)
		}
		labels, whole := look.labels(names, scope.width), scope.value
		scope.value = func(l *live.Lock) string { return labels[whole(l)] }
	}
	return columns, " "
}

// table draws the title and the rows from first on, most of them at most.
func (v View) table(look Look, width, first, most int) (title string, lines []string) {
	columns, gap := v.layout(look, width)
	titles := strings.Join(look.cells(columns, func(c column) string { return c.title }), gap)
	if width > 0 {
		titles = look.cut(strings.Repeat(" ", margin)+titles, width)
	}
	for i := first; i < min(first+most, len(v.rows)); i++ {
		l := v.rows[i]
		cells := look.cells(columns, func(c column) string { return c.value(l) })
		row := strings.Join(cells, gap)
		switch {
		case width == 0:
			lines = append(lines, strings.TrimRight(row, " "))
		case i == v.at:
			lines = append(lines, look.paint(fill(look.cut("> "+row, width), width), picked))
		case lettering.Columns(row)+margin > width: // hardly a terminal
			lines = append(lines, look.cut("  "+row, width))
		default:
			for j, c := range columns {
				if c.title == "STATE" {
					cells[j] = look.paint(cells[j], v.stateOf(l).style())
				}
			}
			lines = append(lines, "  "+strings.TrimRight(strings.Join(cells, gap), " "))
		}
	}
	return strings.TrimRight(titles, " "), lines
}
