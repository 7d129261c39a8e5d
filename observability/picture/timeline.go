package picture

import (
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/observability/lettering"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/priority"
)

// TimelineSVG draws what happened to one lock: a row for each request, with the
// time in which it waited, held the lock, and left because it was asked to;
// arrows from who asked to who was asked, lines from who gave the lock to who got
// it; and notes below, with the times between asking, going and the next holder.
// Links are those of requests.
func TimelineSVG(w io.Writer, t live.Timeline, o Options) error {
	g := newGantt(tell(t, o.Now, o.rows(usualRows)), o)
	g.draw()
	return g.flush(w)
}

const (
	usualRows = 100
	manyActs  = 200 // how many arrows and lines are drawn
	manyNotes = 12
)

// Measures of a timeline, in pixels.
const (
	margin     = 16.0
	rowHeight  = 26.0
	holdHeight = 16.0
	waitHeight = 10.0
	noteHeight = 16.0
	badge      = 7.5 // radius
	tip        = 7.0 // of what goes on beyond the edge
)

// A gantt is a timeline while it is drawn.
type gantt struct {
	*canvas
	story
	axis
	o Options

	labels, levels float64 // widths of the columns
	top, bottom    float64 // of the rows
	notes          []note
	legend         []entry
	legendAt       float64
	badges         map[[2]int]bool   // where there is one already
	badged         map[int][]float64 // by row: where
}

// A note is an act in words, in lines.
type note struct {
	act
	lines []string
}

func newGantt(s story, o Options) *gantt {
	g := &gantt{story: s, o: o, badges: map[[2]int]bool{}, badged: map[int][]float64{}}
	width := o.width()
	for _, r := range s.rows {
		g.labels = max(g.labels, textWidth(lettering.Line(r.Owner), 13))
		g.levels = max(g.levels, textWidth(levelOf(r), 11))
	}
	g.labels = min(max(g.labels, 40), width*0.24)
	left := margin + g.labels + g.levels + 24
	g.axis = newAxis(s.From, s.To, left, width-left-margin-tip)
	g.top = 56 + o.heading()
	g.bottom = g.top + rowHeight*float64(max(len(s.rows), 1))
	y := g.bottom + 8
	if s.more > 0 {
		y += noteHeight
	}
	y += 10
	for _, a := range s.acts {
		if a.number == 0 || a.number > manyNotes {
			continue
		}
		n := note{a, wrap(clock(a.At)+"  "+s.words(a), 11, width-2*margin-2*badge-8)}
		g.notes = append(g.notes, n)
		y += noteHeight*float64(len(n.lines)) + 2
	}
	if g.unnoted() > 0 {
		y += noteHeight
	}
	g.legend = g.entries()
	g.legendAt = y + 14
	height := g.legendAt + legendHeight(g.legend, width) + 4
	title := "Timeline of lock " + s.Scope
	g.canvas = newCanvas(o, width, height, "timeline "+s.Scope, title, g.description())
	return g
}

// unnoted is how many acts would have had a note if there were room.
func (g *gantt) unnoted() int {
	n := 0
	for _, a := range g.acts {
		if a.number > manyNotes {
			n++
		}
	}
	return n
}

func (g *gantt) description() string {
	lines := []string{period(g.From, g.To) + ": " + g.summary() + "."}
	for _, n := range g.notes {
		lines = append(lines, clock(n.At)+" "+g.words(n.act)+".")
	}
	return strings.Join(lines, "\n")
}

func (g *gantt) draw() {
	width := g.o.width()
	g.headed(g.o, g.Scope, period(g.From, g.To)+"  ·  "+g.summary(), width)
	for i := range g.rows {
		if i%2 == 1 {
			g.empty("rect", "class", "lk-band", "x", 0, "y", g.top+rowHeight*float64(i), "width", width, "height", rowHeight)
		}
	}
	g.scale()
	if len(g.rows) == 0 {
		g.text("text",
			"No requests for this lock in this time.", "class", "lk-muted", "x", margin, "y", g.top+rowHeight*0.65)
	}
	g.patterns()
	g.unknown()
	for i, r := range g.rows {
		g.row(i, r)
	}
	g.lines()
	for i, r := range g.rows { // over the lines, so that they can be read
		for _, p := range g.spells(r) {
			g.inscription(i, p)
		}
	}
	g.footnotes()
	g.drawLegend(g.legend, g.legendAt, width)
}

// scale draws the axis and its lines.
func (g *gantt) scale() {
	if len(g.rows) > 0 {
		g.text("text", "priority", "class", "lk-muted lk-small lk-right", "x", g.left-12, "y", g.top-8)
	}
	for _, t := range g.ticks(86) {
		x := g.at(t.at)
		g.empty("path", "class", "lk-line", "d", new(path).to("M", x, g.top-4).to("V", g.bottom).String())
		class := "lk-muted lk-small lk-middle"
		if t.day {
			class = "lk-text lk-small lk-middle"
		}
		g.text("text", t.label, "class", class,
			"x", min(max(x, g.left+textWidth(t.label, 11)/2-2), g.o.width()-textWidth(t.label, 11)/2-4), "y", g.top-8)
	}
}

// patterns defines the fillings. They differ in form, not in colour alone.
func (c *canvas) patterns() {
	c.begin("defs")
	pattern := func(id, back, line, class string, size float64) {
		c.begin("pattern", "id", c.id+id, "width", size, "height", size, "patternUnits", "userSpaceOnUse")
		c.empty("rect", "class", back, "width", size, "height", size)
		c.empty("path", "class", class, "d", line, "fill", "none")
		c.end()
	}
	pattern("w", "lk-waiting-back", "M-1 7L7 -1M-1 1L1 -1M5 7L7 5", "lk-waiting-line", 6)
	pattern("l", "lk-leaving-back", "M2.5 0V5", "lk-leaving-line", 5)
	pattern("u", "lk-bg", "M-2 10L10 -2M-2 2L2 -2M6 10L10 6", "lk-unknown", 8)
	c.end()
}

// unknown draws the time of which nothing is known.
func (g *gantt) unknown() {
	if !g.blank() {
		return
	}
	end := g.at(g.Known)
	g.titled("no history before "+clock(g.Known)+" UTC, except of requests that were there then", "rect",
		"fill", "url(#"+g.id+"u)", "x", g.left, "y", g.top, "width", end-g.left, "height", g.bottom-g.top)
}

func (g *gantt) blank() bool { return g.Known.After(g.From) && g.at(g.Known)-g.left >= 2 }

// row draws one request.
func (g *gantt) row(i int, r live.Row) {
	y := g.middle(i)
	g.link(g.o, r.ID, "lk-row")
	g.text("title", about(r))
	g.text("text", fitMiddle(r.Owner, 13, g.labels), "class", "lk-text lk-owner", "x", margin, "y", y+4)
	g.text("text", levelOf(r), "class", "lk-muted lk-small lk-right", "x", g.left-12, "y", y+4)
	for _, p := range g.spells(r) {
		g.spell(y, p)
	}
	g.end()
}

func (g *gantt) middle(row int) float64 { return g.top + rowHeight*(float64(row)+0.5) }

func (g *gantt) spell(y float64, p live.Spell) {
	end := g.until(p)
	x1, x2 := g.at(p.From), g.at(end)
	x2 = max(x2, x1+2)
	look := lookOf(p.Kind)
	half := look.height / 2
	attributes := []any{"class", look.class, "x", x1, "y", y - half, "width", x2 - x1, "height", look.height}
	if look.pattern != "" {
		attributes = append(attributes, "fill", "url(#"+g.id+look.pattern+")")
	}
	g.titled(spellWords(p, end), "rect", attributes...)
	if p.From.Before(g.From) {
		g.empty("path", "class", look.edge, "d", polygon(x1, y-half, x1, y+half, x1-tip+1, y))
	}
	if goesOn(p) {
		g.empty("path", "class", look.edge, "d", polygon(x2, y-half, x2, y+half, x2+tip, y))
	}
	switch p.End {
	case live.EndTaken, live.EndLost:
		g.empty("path", "class", "lk-end",
			"d", new(path).to("M", x2-4, y-4).to("L", x2+4, y+4).to("M", x2-4, y+4).to("L", x2+4, y-4).String())
	case live.EndLeft, live.EndUnknown, live.EndGone:
		g.empty("path", "class", look.edge, "d", new(path).to("M", x2, y-half-3).to("V", y+half+3).String())
	case live.EndGranted, live.EndReleased, live.EndPreempted, live.EndLeaseExpired:
	}
}

// inscription writes into a bar what fits there.
func (g *gantt) inscription(row int, p live.Spell) {
	end := g.until(p)
	x1, x2 := g.at(p.From), g.at(end)
	for _, x := range g.badged[row] {
		if x > x1-badge && x < x2+badge { // what is on the longer side of it
			if x-x1 > x2-x {
				x2 = x - badge
			} else {
				x1 = x + badge
			}
		}
	}
	class := "lk-halo-text lk-small lk-middle"
	texts := []string{span(end.Sub(p.From))}
	if p.Kind == live.SpellHolding {
		class = "lk-on-holding lk-small lk-middle"
		if p.Token > 0 {
			texts = []string{"token " + p.Token.String(), p.Token.String()}
		}
	}
	for _, text := range texts {
		if textWidth(text, 11)+6 <= x2-x1 {
			g.text("text", text, "class", class, "x", (x1+x2)/2, "y", g.middle(row)+4)
			return
		}
	}
}

// A look is how a kind of spells is drawn.
type look struct {
	class, edge string
	pattern     string // "" for a full colour
	height      float64
}

func lookOf(kind live.SpellKind) look {
	switch kind {
	case live.SpellHolding:
		return look{"lk-holding", "lk-holding", "", holdHeight}
	case live.SpellLeaving:
		return look{"lk-leaving", "lk-leaving-edge", "l", holdHeight}
	case live.SpellWaiting:
	}
	return look{"lk-waiting", "lk-waiting-edge", "w", waitHeight}
}

// about says all of a request, for those who point at it.
func about(r live.Row) string {
	text := r.Owner + "\npriority " + level(r.Priority) + ", " + r.Mode.String() + "\nhost " + r.Host + ", pid " +
		strconv.Itoa(r.PID)
	if r.Message != "" {
		text += "\n" + r.Message
	}
	return text + "\nid " + r.ID
}

func spellWords(p live.Spell, end time.Time) string {
	text := map[live.SpellKind]string{
		live.SpellWaiting: "waits", live.SpellHolding: "holds", live.SpellLeaving: "preempted, still holds",
	}[p.Kind]
	if p.Token > 0 {
		text += ", token " + p.Token.String()
	}
	if goesOn(p) {
		return text + "\nsince " + clock(p.From) + " UTC, " + span(end.Sub(p.From)) + ", and goes on"
	}
	text += "\n" + clock(p.From) + " – " + clock(end) + " UTC, " + span(end.Sub(p.From))
	if p.End != "" {
		text += "\nends: " + strings.ReplaceAll(string(p.End), "_", " ")
	}
	return text
}

// levelOf is the column of priorities.
func levelOf(r live.Row) string {
	if r.Mode == priority.Shared {
		return level(r.Priority) + " shared"
	}
	return level(r.Priority)
}
