package picture

import (
	"strconv"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/observability/live"
)

// lines draws who asks whom and who gives the lock to whom, over the bars.
func (g *gantt) lines() {
	drawn := 0
	for _, a := range g.acts {
		if drawn == manyActs {
			return
		}
		switch {
		case a.Kind == live.MarkHandover && a.from >= 0 && a.to >= 0:
			g.handover(a)
		case a.Kind != live.MarkHandover && a.to >= 0:
			g.demand(a)
		default:
			continue
		}
		drawn++
	}
}

func (g *gantt) handover(a act) {
	x, y1, y2 := g.at(a.At), g.middle(a.from), g.middle(a.to)
	d := new(path).to("M", x, y1).to("V", y2).String()
	g.empty("path", "class", "lk-halo", "d", d)
	g.titled(clock(a.At)+" "+g.words(a), "path", "class", "lk-hand", "d", d)
	g.empty("circle", "class", "lk-hand-fill", "cx", x, "cy", y1, "r", 3)
	g.empty("circle", "class", "lk-hand-open", "cx", x, "cy", y2, "r", 3)
}

// demand draws an arrow from who asks, takes or breaks to who has the lock. Who
// is no request acts from above.
func (g *gantt) demand(a act) {
	from := g.top - 2
	if a.from >= 0 {
		from = g.middle(a.from)
	}
	x := g.free(g.at(a.At), from)
	down := 1.0 // the direction
	if from > g.middle(a.to) {
		down = -1
	}
	to := g.middle(a.to) - down*holdHeight/2
	class, size := "lk-ask", 4.5
	if a.Kind != live.MarkPreempt {
		class, size = "lk-ask lk-take", 6
	}
	d := new(path).to("M", x, from).to("V", to-down*size).String()
	g.empty("path", "class", "lk-halo", "d", d)
	g.titled(clock(a.At)+" "+g.words(a), "path", "class", class, "d", d)
	g.empty("path", "class", "lk-ask-fill", "d", polygon(x-size, to-down*size*1.7, x+size, to-down*size*1.7, x, to))
	if a.number > 0 && a.number <= manyNotes {
		g.badge(x, from, a.number)
		if a.from >= 0 {
			g.badged[a.from] = append(g.badged[a.from], x)
		}
	}
}

// free returns the place next to x where there is no badge yet.
func (g *gantt) free(x, y float64) float64 {
	for range 20 {
		spot := [2]int{int(x / badge / 2), int(y)}
		if !g.badges[spot] {
			g.badges[spot] = true
			break
		}
		if x += 2*badge + 1; x > g.left+g.width {
			return g.left + g.width
		}
	}
	return x
}

func (c *canvas) badge(x, y float64, n int) {
	c.empty("circle", "class", "lk-ask-fill", "cx", x, "cy", y, "r", badge)
	c.text("text", strconv.Itoa(n), "class", "lk-on-ask lk-number", "x", x, "y", y+3.5)
}

// footnotes writes what happened, and what is not drawn.
func (g *gantt) footnotes() {
	y := g.bottom + 8
	if g.more > 0 {
		y += noteHeight
		g.text("text", "and "+words.CountOf(g.more, "more request", "more requests"), "class", "lk-muted",
			"x", margin, "y", y-4)
	}
	y += 10
	for _, n := range g.notes {
		g.badge(margin+badge, y+noteHeight/2-0.5, n.number)
		for _, line := range n.lines {
			g.text("text", line, "class", "lk-text lk-small", "x", margin+2*badge+8, "y", y+12)
			y += noteHeight
		}
		y += 2
	}
	if n := g.unnoted(); n > 0 {
		g.text("text", "and "+strconv.Itoa(n)+" more of these", "class", "lk-muted lk-small",
			"x", margin+2*badge+8, "y", y+12)
	}
}
