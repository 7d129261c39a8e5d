package picture

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/observability/lettering"
)

// A canvas is an SVG document as it is written. Everything but the names of
// elements and attributes is escaped.
type canvas struct {
	b    bytes.Buffer
	id   string // what the identifiers of this picture begin with
	open []string
}

// newCanvas begins a picture. about makes its identifiers different from those
// of other pictures in the same page.
func newCanvas(o Options, width, height float64, about, title, description string) *canvas {
	h := fnv.New32a()
	_, _ = io.WriteString(h, about+o.Variant)
	c := &canvas{id: fmt.Sprintf("lk%08x", h.Sum32())}
	role := "img"
	if o.Links != nil {
		role = "group" // what is inside of an img cannot be reached
	}
	c.begin("svg", "xmlns", "http://www.w3.org/2000/svg", "class", "lk-picture",
		"width", width, "height", height, "viewBox", "0 0 "+number(width)+" "+number(height),
		"role", role, "aria-labelledby", c.id+"-t "+c.id+"-d")
	c.text("title", title, "id", c.id+"-t")
	c.text("desc", description, "id", c.id+"-d")
	if o.Standalone {
		c.b.WriteString("<style>\n" + Stylesheet() + "</style>\n") // ours, and without anything to escape
	}
	c.empty("rect", "class", "lk-bg", "width", width, "height", height)
	return c
}

// headed writes the heading, and what is to be known beside it.
func (c *canvas) headed(o Options, title, beside string, width float64) {
	if !o.Untitled {
		c.text("text", fit(title, 15, width-2*margin), "class", "lk-text lk-title", "x", margin, "y", 26)
	}
	c.text("text", fit(beside, 12, width-2*margin), "class", "lk-muted", "x", margin, "y", 21+o.heading())
}

// flush ends the picture and writes it.
func (c *canvas) flush(w io.Writer) error {
	for len(c.open) > 0 {
		c.end()
	}
	_, err := c.b.WriteTo(w)
	return err
}

// begin opens an element; attributes are names and values in turn.
func (c *canvas) begin(name string, attributes ...any) {
	c.tag(name, attributes)
	c.b.WriteString(">")
	c.open = append(c.open, name)
	if len(c.open) < 3 { // only the outer structure has lines of its own
		c.b.WriteString("\n")
	}
}

func (c *canvas) end() {
	last := len(c.open) - 1
	c.b.WriteString("</" + c.open[last] + ">")
	c.open = c.open[:last]
	c.newline()
}

// empty writes an element with nothing in it.
func (c *canvas) empty(name string, attributes ...any) {
	c.tag(name, attributes)
	c.b.WriteString("/>")
	c.newline()
}

// text writes an element with text in it.
func (c *canvas) text(name, text string, attributes ...any) {
	c.tag(name, attributes)
	c.b.WriteString(">")
	c.escape(text)
	c.b.WriteString("</" + name + ">")
	c.newline()
}

// titled writes an element that says more when it is pointed at.
func (c *canvas) titled(title, name string, attributes ...any) {
	c.tag(name, attributes)
	c.b.WriteString("><title>")
	c.escape(title)
	c.b.WriteString("</title></" + name + ">")
	c.newline()
}

// link opens an element for a request or a lock: a link if it leads anywhere.
func (c *canvas) link(o Options, id, class string) {
	if address := o.link(id); address != "" {
		c.begin("a", "href", address, "class", class)
		return
	}
	c.begin("g", "class", class)
}

func (c *canvas) newline() {
	if len(c.open) < 3 {
		c.b.WriteString("\n")
	}
}

func (c *canvas) tag(name string, attributes []any) {
	c.b.WriteString("<" + name)
	for i := 0; i+1 < len(attributes); i += 2 {
		c.b.WriteString(" " + attributes[i].(string) + `="`)
		switch v := attributes[i+1].(type) {
		case float64:
			c.b.WriteString(number(v))
		case int:
			c.b.WriteString(strconv.Itoa(v))
		case string:
			c.escape(v)
		}
		c.b.WriteString(`"`)
	}
}

// escape writes text so that it stays text. What XML cannot contain becomes
// U+FFFD, and so does what would only confuse: see lettering.Plain.
func (c *canvas) escape(text string) {
	_ = xml.EscapeText(&c.b, []byte(lettering.Plain(text))) // a buffer takes everything
}

// number writes a coordinate: no finer than a tenth of a pixel.
func number(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		v = 0
	}
	text := strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	if text == "-0" {
		return "0"
	}
	return text
}

// path builds the outline of a form.
type path struct{ strings.Builder }

func (p *path) to(command string, numbers ...float64) *path {
	p.WriteString(command)
	for i, v := range numbers {
		if i > 0 {
			p.WriteString(" ")
		}
		p.WriteString(number(v))
	}
	return p
}

// polygon is a closed form with these corners.
func polygon(corners ...float64) string {
	var p path
	p.to("M", corners[:2]...)
	for i := 2; i+1 < len(corners); i += 2 {
		p.to("L", corners[i:i+2]...)
	}
	return p.to("Z").String()
}
