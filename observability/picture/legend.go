package picture

import (
	"strings"

	"github.com/lockkeeper/lockkeeper/observability/live"
)

// An entry of a legend is a sign and what it means.
type entry struct {
	sign func(c *canvas, x, y float64) // in a box of signWidth, in the middle of y
	text string
}

const (
	signWidth  = 24.0
	legendLine = 20.0
)

// spread returns where the entries of a legend stand: on lines as wide as there
// is room.
func spread(entries []entry, width float64) (places [][2]float64, height float64) {
	x, y := margin, 0.0
	for _, e := range entries {
		wide := signWidth + 7 + textWidth(e.text, 11) + 18
		if x > margin && x+wide > width-margin+18 {
			x, y = margin, y+legendLine
		}
		places = append(places, [2]float64{x, y})
		x += wide
	}
	return places, y + legendLine
}

func legendHeight(entries []entry, width float64) float64 {
	_, height := spread(entries, width)
	return height
}

func (c *canvas) drawLegend(entries []entry, top, width float64) {
	places, _ := spread(entries, width)
	for i, e := range entries {
		x, y := places[i][0], top+places[i][1]
		e.sign(c, x, y)
		c.text("text", e.text, "class", "lk-muted lk-small", "x", x+signWidth+7, "y", y+4)
	}
}

// entries are those of what there is in the picture.
func (g *gantt) entries() []entry {
	entries := []entry{
		bar("waits", lookOf(live.SpellWaiting)), bar("holds the lock", lookOf(live.SpellHolding)),
		bar("preempted, still holds it", lookOf(live.SpellLeaving)),
	}
	var asks, takes, hands, cut, goes bool
	for _, a := range g.acts {
		switch a.Kind {
		case live.MarkHandover:
			hands = hands || a.from >= 0 && a.to >= 0
		case live.MarkPreempt:
			asks = asks || a.to >= 0
		case live.MarkTakeover, live.MarkBreak:
			takes = takes || a.to >= 0
		}
	}
	for _, r := range g.rows {
		for _, p := range g.spells(r) {
			cut = cut || p.End == live.EndLost || p.End == live.EndTaken
			goes = goes || goesOn(p)
		}
	}
	if asks {
		entries = append(entries, entry{arrow("lk-ask", 4.5), "preempts"})
	}
	if takes {
		entries = append(entries, entry{arrow("lk-ask lk-take", 6), "takes the lock away"})
	}
	if hands {
		entries = append(entries, entry{func(c *canvas, x, y float64) {
			c.empty("path", "class", "lk-hand", "d", new(path).to("M", x+2, y).to("H", x+22).String())
			c.empty("circle", "class", "lk-hand-fill", "cx", x+2, "cy", y, "r", 3)
			c.empty("circle", "class", "lk-hand-open", "cx", x+22, "cy", y, "r", 3)
		}, "hands the lock over"})
	}
	if cut {
		entries = append(entries, entry{func(c *canvas, x, y float64) {
			c.empty("path", "class", "lk-end",
				"d", new(path).to("M", x+8, y-4).to("L", x+16, y+4).to("M", x+8, y+4).to("L", x+16, y-4).String())
		}, "lost, or taken away"})
	}
	if goes {
		entries = append(entries, entry{func(c *canvas, x, y float64) {
			c.empty("path", "class", "lk-holding", "d", polygon(x+8, y-holdHeight/2, x+8, y+holdHeight/2, x+8+tip, y))
		}, "goes on"})
	}
	if g.blank() {
		entries = append(entries, entry{func(c *canvas, x, y float64) {
			c.empty("rect", "class", "lk-line", "fill", "url(#"+c.id+"u)", "x", x, "y", y-7, "width", signWidth, "height", 14)
		}, "no history"})
	}
	return entries
}

func bar(text string, l look) entry {
	return entry{func(c *canvas, x, y float64) {
		attributes := []any{"class", l.class, "x", x, "y", y - l.height/2, "width", signWidth, "height", l.height}
		if l.pattern != "" {
			attributes = append(attributes, "fill", "url(#"+c.id+l.pattern+")")
		}
		c.empty("rect", attributes...)
	}, text}
}

func arrow(class string, size float64) func(c *canvas, x, y float64) {
	return func(c *canvas, x, y float64) {
		c.empty("path", "class", class, "d", new(path).to("M", x+1, y).to("H", x+21-size).String())
		c.empty("path", "class", "lk-ask-fill", "d", polygon(x+22-size*1.7, y-size, x+22-size*1.7, y+size, x+22, y))
	}
}

// wrap breaks text into at most three lines.
func wrap(text string, size, width float64) []string {
	const most = 3
	var lines []string
	line := ""
	words := strings.Fields(text)
	for i, word := range words {
		longer := strings.TrimSpace(line + " " + word)
		if line == "" || textWidth(longer, size) <= width {
			line = longer
			continue
		}
		if len(lines) == most-1 {
			return append(lines, fit(line+" "+strings.Join(words[i:], " "), size, width))
		}
		lines = append(lines, fit(line, size, width))
		line = word
	}
	return append(lines, fit(line, size, width))
}
