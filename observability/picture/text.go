package picture

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/observability/lettering"
	"github.com/lockkeeper/lockkeeper/observability/live"
)

// TextOptions say how a timeline is written. The zero value is good for a file.
type TextOptions struct {
	// Width in columns. Defaults to 80; less than 40 is 40.
	Width int

	// Now is until when that which goes on is drawn, see Options.
	Now time.Time

	// ASCII uses nothing but ASCII for the drawing. Names stay as they are.
	ASCII bool

	// Colour paints bars with the escape sequences of terminals.
	Colour bool

	// Rows is how many requests are drawn. Defaults to 100.
	Rows int
}

// TimelineText writes what TimelineSVG draws for a terminal: a line for each
// request, and what happened between them below. No line is wider than the
// width, and whatever strangers have written cannot do anything to the terminal.
func TimelineText(w io.Writer, t live.Timeline, o TextOptions) error {
	p := &printout{
		story: tell(t, o.Now, cmp.Or(max(o.Rows, 0), usualRows)), o: o,
		width: max(cmp.Or(max(o.Width, 0), 80), 40), signs: &unicodeSigns,
	}
	if o.ASCII {
		p.signs = &asciiSigns
	}
	p.write()
	_, err := io.WriteString(w, p.b.String())
	return err
}

// signs are the characters of a drawing.
type signs struct {
	waits, holds, leaves, none    rune
	asked, taken, cut, goes, came rune
	ellipsis, dot, arrow, dash    string
}

var (
	unicodeSigns = signs{'░', '█', '▒', ' ', '!', '✗', '✗', '▶', '◀', "…", "·", "→", "–"}
	asciiSigns   = signs{'.', '#', '%', ' ', '!', 'X', 'X', '>', '<', "..", "-", "->", "-"}
)

// A printout is a timeline while it is written.
type printout struct {
	story
	o     TextOptions
	width int
	signs *signs
	b     strings.Builder

	label, level, chart int // columns
}

func (p *printout) write() {
	p.line(p.Scope)
	when, what := period(p.From, p.To), p.summary()
	if line := when + " " + p.signs.dot + " " + what; lettering.Columns(line) <= p.width {
		p.line(line)
	} else {
		p.line(when)
		p.line(what)
	}
	p.b.WriteString("\n")
	if len(p.rows) == 0 {
		p.line("No requests for this lock in this time.")
		return
	}
	p.measure()
	p.b.WriteString(strings.TrimRight(strings.Repeat(" ", p.label+p.level+3)+p.scale(), " ") + "\n")
	for i, r := range p.rows {
		name := lettering.Cut(lettering.Line(r.Owner), p.label, p.signs.ellipsis)
		fmt.Fprintf(&p.b, "%s%s %*s  ", name, strings.Repeat(" ", p.label-lettering.Columns(name)), p.level, levelOf(r))
		p.b.WriteString(p.paint(p.bar(i, r)) + "\n")
	}
	if p.more > 0 {
		p.line("and " + words.CountOf(p.more, "more request", "more requests"))
	}
	p.notes()
	p.legend()
}

// measure decides how wide the columns are.
func (p *printout) measure() {
	for _, r := range p.rows {
		p.label = max(p.label, lettering.Columns(lettering.Line(r.Owner)))
		p.level = max(p.level, lettering.Columns(levelOf(r)))
	}
	p.label = max(min(p.label, p.width/4), 4)
	p.chart = p.width - p.label - p.level - 3
}

func (p *printout) axis() axis { return newAxis(p.From, p.To, 0, float64(p.chart)) }

// scale is the line above the rows: a label stands at the right of its moment.
func (p *printout) scale() string {
	line := []rune(strings.Repeat(" ", p.chart))
	free := 0
	for _, t := range p.axis().ticks(12) {
		at, label := p.column(t.at), []rune("|"+t.label)
		if at < free || at+len(label) > p.chart {
			continue
		}
		copy(line[at:], label)
		free = at + len(label) + 1
	}
	return string(line)
}

// column is the one that shows a time.
func (p *printout) column(t time.Time) int { return min(int(p.axis().at(t)), p.chart-1) }

// bar draws a request.
func (p *printout) bar(i int, r live.Row) []rune {
	line := []rune(strings.Repeat(string(p.signs.none), p.chart))
	spells := p.spells(r)
	for _, s := range spells {
		sign := map[live.SpellKind]rune{live.SpellHolding: p.signs.holds, live.SpellLeaving: p.signs.leaves}[s.Kind]
		sign = cmp.Or(sign, p.signs.waits)
		from, to := p.column(s.From), p.column(p.until(s))
		if to > from && !goesOn(s) {
			to-- // that column belongs to what comes next
		}
		for at := from; at <= to; at++ {
			// What is short is not painted over by what waits beside it.
			if sign != p.signs.waits || line[at] == p.signs.none {
				line[at] = sign
			}
		}
	}
	for _, a := range p.acts {
		if a.to == i && a.Kind == live.MarkPreempt {
			line[p.column(a.At)] = p.signs.asked
		}
	}
	first, last := spells[0], spells[len(spells)-1]
	switch {
	case last.End == live.EndTaken || last.End == live.EndLost:
		line[p.column(p.until(last))] = p.signs.cut
	case goesOn(last):
		line[p.column(p.now)] = p.signs.goes
	}
	if first.From.Before(p.From) {
		line[0] = p.signs.came
	}
	return line
}

// paint colours a bar.
func (p *printout) paint(line []rune) string {
	text := strings.TrimRight(string(line), " ")
	if !p.o.Colour {
		return text
	}
	var b strings.Builder
	last := ""
	for _, r := range text {
		colour := map[rune]string{
			p.signs.waits: "33", p.signs.holds: "34", p.signs.leaves: "35", p.signs.asked: "1;31", p.signs.cut: "1;31",
		}[r]
		if colour != last {
			b.WriteString("\x1b[0m")
			if colour != "" {
				b.WriteString("\x1b[" + colour + "m")
			}
			last = colour
		}
		b.WriteRune(r)
	}
	if last != "" {
		b.WriteString("\x1b[0m")
	}
	return b.String()
}

// notes writes what happened, the last of it if there is much.
func (p *printout) notes() {
	acts := slices.DeleteFunc(slices.Clone(p.acts), func(a act) bool { return a.number == 0 })
	if len(acts) == 0 {
		return
	}
	p.b.WriteString("\n")
	if n := len(acts) - manyNotes; n > 0 {
		p.line("and " + words.CountOf(n, "more before these", "more before these"))
		acts = acts[n:]
	}
	for _, a := range acts {
		text := p.words(a)
		if p.o.ASCII {
			text = strings.ReplaceAll(text, "·", "-")
		}
		p.fold(clock(a.At)+"  ", text)
	}
}

func (p *printout) legend() {
	p.b.WriteString("\n")
	entries := []string{string(p.signs.waits) + " waits", string(p.signs.holds) + " holds", string(p.signs.leaves) +
		" preempted, still holds"}
	seen := func(is func(live.Spell) bool) bool {
		return slices.ContainsFunc(p.rows, func(r live.Row) bool { return slices.ContainsFunc(p.spells(r), is) })
	}
	if slices.ContainsFunc(p.acts, func(a act) bool { return a.Kind == live.MarkPreempt && a.to >= 0 }) {
		entries = append(entries, string(p.signs.asked)+" is preempted")
	}
	if seen(func(s live.Spell) bool { return s.End == live.EndTaken || s.End == live.EndLost }) {
		entries = append(entries, string(p.signs.cut)+" lost or taken away")
	}
	if seen(goesOn) {
		entries = append(entries, string(p.signs.goes)+" goes on")
	}
	line := ""
	for _, e := range entries {
		if line != "" && lettering.Columns(line)+3+lettering.Columns(e) > p.width {
			p.line(line)
			line = ""
		}
		if line != "" {
			line += "   "
		}
		line += e
	}
	p.line(line)
	if p.Known.After(p.From) && p.column(p.Known) > 0 {
		p.fold("", "Before "+clock(p.Known)+" there is no history, except of requests that were there then.")
	}
}

// line writes a line, cut where the page ends.
func (p *printout) line(text string) {
	text = lettering.Plain(strings.ReplaceAll(text, "\n", " "))
	if p.o.ASCII {
		text = strings.NewReplacer("·", "-", "–", "-").Replace(text)
	}
	p.b.WriteString(strings.TrimRight(lettering.Cut(text, p.width, p.signs.ellipsis), " ") + "\n")
}

// fold writes text behind a lead; what does not fit goes on below.
func (p *printout) fold(lead, text string) {
	room := p.width - len(lead)
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && lettering.Columns(line)+1+lettering.Columns(word) > room {
			p.line(lead + line)
			lead, line = strings.Repeat(" ", len(lead)), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	p.line(lead + line)
}
