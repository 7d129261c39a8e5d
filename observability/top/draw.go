package top

import (
	"fmt"
	"math"
	"strings"

	"github.com/lockkeeper/lockkeeper/observability/lettering"
	"github.com/lockkeeper/lockkeeper/observability/live"
)

// Draw returns the lines of the screen, from the top: no more than there is room
// for, none wider.
func (v View) Draw(look Look) []string {
	if v.width == 0 || v.height == 0 {
		return nil
	}
	var lines []string
	if v.page == list {
		lines = v.drawList(look)
	} else {
		lines = v.drawBody(look)
	}
	if len(lines) > v.height {
		lines = lines[:v.height]
	}
	return lines
}

// Text is a snapshot for those who have no terminal: all locks, by scope, as wide
// as it takes.
func Text(s *live.Snapshot) string {
	v := View{order: ByScope}.See(s)
	lines := Look{}.lines(0, v.heading()...)
	lines = append(lines, Look{}.lines(0, v.totals()...)...)
	if len(v.rows) > 0 {
		title, rows := v.table(Look{}, 0, 0, math.MaxInt-1)
		lines = append(append(lines, "", title), rows...)
	}
	return strings.Join(lines, "\n") + "\n"
}

// head is above the table.
func (v View) head(look Look) []string {
	lines := look.lines(v.width, v.heading()...)
	return append(lines, look.lines(v.width, v.totals()...)...)
}

// room is how many rows of the table there is room for.
func (v View) room() int {
	const around = 2 // the title and the last line
	return max(1, v.height-len(v.head(Look{}))-around)
}

func (v View) drawList(look Look) []string {
	lines := v.head(look)
	room := v.room()
	title, rows := v.table(look, v.width, v.first, room)
	lines = append(lines, look.paint(title, strong))
	lines = append(lines, rows...)
	if len(v.rows) == 0 {
		lines = append(lines, look.cut(v.nothing(), v.width))
	}
	return v.finish(lines, v.foot(look))
}

// nothing says why there are no rows.
func (v View) nothing() string {
	switch {
	case v.seen != nil && len(v.seen.Locks) > 0:
		return fmt.Sprintf("No lock, holder or waiter has %q in its name. Esc: all", lettering.Line(v.filter))
	case v.seen == nil || !v.seen.Complete:
		return ""
	}
	return "There are no locks under this root. A lock is listed from its first use on."
}

// finish puts the last line where it belongs.
func (v View) finish(lines []string, last string) []string {
	if len(lines) >= v.height {
		lines = lines[:v.height-1]
	}
	for len(lines) < v.height-1 {
		lines = append(lines, "")
	}
	return append(lines, last)
}

// foot is the last line: what is shown, and what can be done.
func (v View) foot(look Look) string {
	if v.typing {
		return v.typed(look)
	}
	order := "by " + v.order.String()
	if v.backward {
		order += ", reversed"
	}
	phrases := []phrase{{order, usual}}
	if v.filter != "" {
		phrases = []phrase{{fmt.Sprintf("/%s: %d of %d", v.filter, len(v.rows), len(v.seenLocks())), strong}, {order, usual}}
	}
	if room := v.room(); len(v.rows) > room {
		phrases = append(phrases,
			phrase{fmt.Sprintf("%d-%d of %d", v.first+1, min(v.first+room, len(v.rows)), len(v.rows)), usual})
	}
	return v.hints(look, phrases, "q quit", "? help", "Enter open", "/ filter", "s sort", "r reverse")
}

// hints is one line: phrases, and as many hints as fit behind them.
func (v View) hints(look Look, phrases []phrase, hints ...string) string {
	for _, h := range hints {
		phrases = append(phrases, phrase{h, faint})
	}
	lines := look.lines(v.width, phrases...)
	if len(lines) == 0 {
		return ""
	}
	return lines[0]
}

// typed is the line on which the filter is typed. Its end is always to be seen.
func (v View) typed(look Look) string {
	text := "/" + lettering.Plain(v.filter)
	for lettering.Columns(text) > v.width-1 && len(text) > 1 {
		r := []rune(text)
		text = "/" + string(r[2:])
	}
	cursor := look.sign("▏", "_")
	if lettering.Columns(text)+1 > v.width {
		cursor = ""
	}
	line := look.paint(text, strong) + cursor
	hint := fmt.Sprintf("  %d of %d  Enter keep  Esc clear", len(v.rows), len(v.seenLocks()))
	if lettering.Columns(text+cursor+hint) <= v.width {
		line += look.paint(hint, faint)
	}
	return line
}

func (v View) seenLocks() []live.Lock {
	if v.seen == nil {
		return nil
	}
	return v.seen.Locks
}
