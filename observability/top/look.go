package top

import (
	"strings"

	"github.com/lockkeeper/lockkeeper/observability/lettering"
)

// A Look says what the terminal can do. The zero value writes nothing but text.
type Look struct {
	Attributes bool // bold, reverse
	Colour     bool // needs Attributes
	ASCII      bool // draws with nothing but ASCII; names stay as they are
}

// A style is what a piece of text is like.
type style int

const (
	usual style = iota
	strong
	faint
	alarm  // somebody has to look at it
	notice // it moves, or does not yet
	picked // the chosen row
)

// paint styles a text, which is harmless and fits already.
func (l Look) paint(text string, s style) string {
	if text == "" || !l.Attributes || s == usual {
		return text
	}
	code := map[style]string{strong: "1", faint: "2", alarm: "1", picked: "7"}[s]
	if l.Colour {
		switch s {
		case alarm:
			code = "1;31"
		case notice:
			code = "35"
		case usual, strong, faint, picked:
		}
	}
	if code == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (l Look) ellipsis() string { return l.sign("…", "~") }
func (l Look) dot() string      { return l.sign(" · ", " | ") }

func (l Look) sign(text, ascii string) string {
	if l.ASCII {
		return ascii
	}
	return text
}

// cut fits what strangers have written into columns.
func (l Look) cut(text string, columns int) string {
	return lettering.Cut(text, columns, l.ellipsis())
}

// cutMiddle is cut for scopes, whose ends tell more than their middles.
func (l Look) cutMiddle(text string, columns int) string {
	const least = 12
	if columns < least || lettering.Columns(text) <= columns {
		return l.cut(text, columns)
	}
	room := columns - lettering.Columns(l.ellipsis())
	end := lastColumns(text, room/2)
	return lettering.Cut(text[:len(text)-len(end)], room-lettering.Columns(end), "") + l.ellipsis() + end
}

// fill adds blanks behind a text.
func fill(text string, columns int) string {
	return text + strings.Repeat(" ", max(0, columns-lettering.Columns(text)))
}

// A phrase is a piece of a line.
type phrase struct {
	text  string
	style style
}

// lines puts phrases side by side, as many as fit; 0 columns are as many as it takes.
func (l Look) lines(columns int, phrases ...phrase) []string {
	var out []string
	line, used := "", 0
	for _, p := range phrases {
		if p.text == "" {
			continue
		}
		text := lettering.Line(p.text)
		if columns > 0 {
			text = l.cut(text, columns)
		}
		n, gap := lettering.Columns(text), lettering.Columns(l.dot())
		switch {
		case line == "":
			line, used = l.paint(text, p.style), n
		case columns == 0 || used+gap+n <= columns:
			line, used = line+l.paint(l.dot(), faint)+l.paint(text, p.style), used+gap+n
		default:
			out = append(out, line)
			line, used = l.paint(text, p.style), n
		}
	}
	if line != "" {
		out = append(out, line)
	}
	return out
}
