package top

import (
	"fmt"
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
	drop   int  // on narrow terminals the highest go first; 0: never
}

// spacious is how wide a terminal is that has room for the long titles.
const spacious = 110

func (v View) columns(width int) []column {
	long := width == 0 || width >= spacious
	title := func(short, full string) string {
		if long {
			return full
		}
		return short
	}
	lease, wait, oldest := title("LEASE", "LEASE LEFT"), title("WAIT", "WAITERS"), title("OLDEST", "OLDEST WAIT")
	return []column{
		{title: "SCOPE", value: func(l *live.Lock) string { return lettering.Line(l.Scope) }, least: 12, middle: true},
		{title: "STATE", value: func(l *live.Lock) string { return v.stateOf(l).String() }, width: 10},
		{title: "HOLDER", value: holderOf, least: 8, drop: 1},
		{title: "SINCE", value: v.heldFor, width: 6, right: true, drop: 2},
		{title: lease, value: leaseLeft, width: max(6, len(lease)), right: true, drop: 3},
		{title: wait, value: func(l *live.Lock) string { return fmt.Sprint(len(l.Waiters)) }, width: max(5, len(wait)), right: true},
		{title: oldest, value: v.oldestWait, width: max(6, len(oldest)), right: true},
		{title: "ROOT BLOCKER", value: rootOf, least: 12, drop: 4},
	}
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

// fit decides how wide the columns are, and which there are. Width 0 is as wide as
// it takes.
func fit(all []column, rows []*live.Lock, width, gap int) []column {
	for i := range all {
		c := &all[i]
		if c.width > 0 && width > 0 {
			continue
		}
		c.width = len(c.title)
		for _, l := range rows {
			c.width = max(c.width, lettering.Columns(c.value(l)))
		}
	}
	if width == 0 {
		return all
	}
	for {
		sum := -gap
		widest := -1
		for i, c := range all {
			sum += c.width + gap
			if c.least > 0 && c.width > c.least && (widest < 0 || c.width > all[widest].width) {
				widest = i
			}
		}
		switch {
		case sum <= width:
			return all
		case widest >= 0:
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
				c.width = len(c.title)
				for _, l := range rows {
					c.width = max(c.width, lettering.Columns(c.value(l)))
				}
			}
		}
	}
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

// between is how many blanks are between columns.
func between(width int) int {
	if width == 0 || width >= spacious {
		return 2
	}
	return 1
}

// margin is where the mark of the chosen row stands.
const margin = 2

// table draws the title and the rows from first on, most of them at most.
func (v View) table(look Look, width, first, most int) (title string, lines []string) {
	gap := strings.Repeat(" ", between(width))
	inner := width
	if width > 0 {
		inner = max(1, width-margin)
	}
	columns := fit(v.columns(width), v.rows, inner, len(gap))
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
