package picture_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/picture"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/inspect"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

var (
	elements   = strings.Fields("svg title desc style defs pattern rect path circle text g a")
	attributes = strings.Fields("xmlns class width height viewBox role aria-labelledby id patternUnits x y d fill cx cy r rx href")
)

// harmless requires that an SVG is well-formed and contains nothing but what
// pictures are made of, whatever was written into it.
func harmless(t require.TestingT, svg []byte, links bool) {
	require.True(t, utf8.Valid(svg))
	d := xml.NewDecoder(bytes.NewReader(svg))
	depth := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err, "it is not well-formed")
		switch e := token.(type) {
		case xml.StartElement:
			depth++
			require.Equal(t, "http://www.w3.org/2000/svg", e.Name.Space)
			require.Contains(t, elements, e.Name.Local)
			require.Equal(t, depth == 1, e.Name.Local == "svg")
			for _, a := range e.Attr {
				require.Contains(t, attributes, a.Name.Local)
				if a.Name.Local == "href" {
					require.True(t, links, "there is no link")
					require.Regexp(t, `^(/|https?:)`, a.Value)
				}
			}
		case xml.EndElement:
			depth--
		case xml.CharData:
			for _, r := range string(e) {
				require.False(t, unicode.IsControl(r) && r != '\n', "%U", r)
				require.False(t, r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069, "%U turns the text around", r)
			}
		default:
			require.Fail(t, "neither comments nor instructions", "%T", token)
		}
	}
	require.Zero(t, depth)
}

// quiet requires that text does nothing to a terminal, and fits on it.
func quiet(t require.TestingT, text string, width int) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		n := 0
		for _, r := range line {
			require.False(t, unicode.IsControl(r), "%U in %q", r, line)
			if !unicode.In(r, unicode.Mn, unicode.Me) {
				n++
			}
		}
		require.LessOrEqual(t, n, width, line)
	}
}

// nasty are texts that strangers may write.
func nasty() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{
			"", "compact", `"><script>alert(1)</script>`, "</text></svg><script>", "]]>", "<!-- -->", "&amp;&#x0;&lol;", "\x00\x1b[2J\x07", "\xff\xfe",
			"\u202egnp.exe", "a\u0301\u0301\u0301", "名前の長い仕事", strings.Repeat("long ", 300), "javascript:alert(1)", "x' onload='alert(1)", "\ufffe\uffff", "line\nline", "🔒",
		}),
		rapid.String(),
	)
}

func moment() *rapid.Generator[time.Time] {
	return rapid.OneOf(
		rapid.Custom(func(t *rapid.T) time.Time { return at(rapid.Float64Range(-100, 100).Draw(t, "seconds")) }),
		rapid.SampledFrom([]time.Time{{}, noon, noon, time.Unix(0, 0), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}),
	)
}

func anyTimeline() *rapid.Generator[live.Timeline] {
	return rapid.Custom(func(t *rapid.T) live.Timeline {
		line := live.Timeline{
			Scope: nasty().Draw(t, "scope"), From: moment().Draw(t, "from"), To: moment().Draw(t, "to"), Known: moment().Draw(t, "known"),
		}
		ids := []string{"", "operator"}
		for range rapid.IntRange(0, 8).Draw(t, "rows") {
			r := live.Row{
				ID: nasty().Draw(t, "id"), Owner: nasty().Draw(t, "owner"), Host: nasty().Draw(t, "host"), Message: nasty().Draw(t, "message"),
				PID: rapid.Int().Draw(t, "pid"), Priority: priority.Level(rapid.Int32().Draw(t, "priority")), Mode: rapid.SampledFrom([]priority.Mode{priority.Exclusive, priority.Shared}).Draw(t, "mode"),
			}
			ids = append(ids, r.ID)
			for range rapid.IntRange(0, 4).Draw(t, "spells") {
				r.Spells = append(r.Spells, live.Spell{
					Kind: rapid.SampledFrom([]live.SpellKind{live.SpellWaiting, live.SpellHolding, live.SpellLeaving, "<b>"}).Draw(t, "kind"),
					From: moment().Draw(t, "begins"), To: moment().Draw(t, "ends"), Token: lock.Token(rapid.Int64().Draw(t, "token")),
					End: rapid.SampledFrom([]live.SpellEnd{"", live.EndGranted, live.EndTaken, live.EndLost, live.EndLeft, live.EndReleased, `"/><script>`}).Draw(t, "end"),
				})
			}
			line.Rows = append(line.Rows, r)
		}
		for range rapid.IntRange(0, 6).Draw(t, "marks") {
			line.Marks = append(line.Marks, live.Mark{
				At: moment().Draw(t, "at"), From: rapid.SampledFrom(ids).Draw(t, "who"), To: rapid.SampledFrom(ids).Draw(t, "whom"), Text: nasty().Draw(t, "text"),
				Kind: rapid.SampledFrom([]live.MarkKind{live.MarkPreempt, live.MarkTakeover, live.MarkBreak, live.MarkHandover, "<i>"}).Draw(t, "mark"),
			})
		}
		return line
	})
}

func TestTimelineOfAnythingIsHarmless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := anyTimeline().Draw(t, "timeline")
		links := rapid.Bool().Draw(t, "links")
		o := picture.Options{Standalone: rapid.Bool().Draw(t, "standalone"), Width: rapid.IntRange(-1, 2000).Draw(t, "width"), Now: moment().Draw(t, "now"), Rows: rapid.IntRange(0, 5).Draw(t, "limit")}
		if links {
			o.Links = func(id string) string {
				return rapid.SampledFrom([]string{"", id, "/locks/" + id, "javascript:alert(1)", "https://x/?" + id}).Draw(t, "link")
			}
		}
		var b bytes.Buffer
		require.NoError(t, picture.TimelineSVG(&b, line, o))
		if !links {
			harmless(t, b.Bytes(), false)
		} else {
			require.NotContains(t, b.String(), `href="javascript:`)
		}

		width := rapid.IntRange(0, 200).Draw(t, "columns")
		b.Reset()
		require.NoError(t, picture.TimelineText(&b, line, picture.TextOptions{Width: width, ASCII: rapid.Bool().Draw(t, "ascii"), Now: o.Now, Rows: o.Rows}))
		quiet(t, b.String(), max(40, width, map[bool]int{true: 80}[width == 0]))
	})
}

func TestGraphAndHeatOfAnythingAreHarmless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g live.Graph
		ids := []string{"none"}
		for i := range rapid.IntRange(0, 30).Draw(t, "nodes") {
			n := live.GraphNode{
				ID: fmt.Sprint(i, nasty().Draw(t, "id")), Label: nasty().Draw(t, "label"), Scope: nasty().Draw(t, "scope"),
				Owner: nasty().Draw(t, "owner"), State: rapid.SampledFrom([]string{"holds", "waits", "<b>"}).Draw(t, "state"),
			}
			ids = append(ids, n.ID)
			g.Nodes = append(g.Nodes, n)
		}
		one := rapid.SampledFrom(ids)
		for range rapid.IntRange(0, 60).Draw(t, "edges") {
			g.Edges = append(g.Edges, live.GraphEdge{
				From: one.Draw(t, "from"), To: one.Draw(t, "to"), Deadlock: rapid.Bool().Draw(t, "deadlock"),
				Why: rapid.SampledFrom([]inspect.WaitReason{inspect.WaitHeld, inspect.WaitAhead, inspect.WaitUnder, "<b>"}).Draw(t, "why"),
			})
		}
		g.Circles = rapid.SliceOfN(rapid.SliceOfN(one, 0, 5), 0, 3).Draw(t, "circles")
		svg := drawnGraphOf(t, g, picture.Options{Standalone: true})
		harmless(t, []byte(svg), false)
		require.Equal(t, svg, drawnGraphOf(t, g, picture.Options{Standalone: true}), "the same again")

		h := live.Heat{From: moment().Draw(t, "begin"), Slice: priority.Millis(rapid.Int64().Draw(t, "slice"))}
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			r := live.HeatRow{Scope: nasty().Draw(t, "row")}
			for range rapid.IntRange(0, 200).Draw(t, "slices") {
				r.Waited = append(r.Waited, priority.Millis(rapid.Int64Range(-1, 1e15).Draw(t, "waited")))
			}
			h.Rows = append(h.Rows, r)
		}
		var b bytes.Buffer
		require.NoError(t, picture.HeatSVG(&b, h, picture.Options{}))
		harmless(t, b.Bytes(), false)
	})
}

func drawnGraphOf(t require.TestingT, g live.Graph, o picture.Options) string {
	var b bytes.Buffer
	require.NoError(t, picture.GraphSVG(&b, g, o))
	return b.String()
}

// FuzzTimeline draws what any server may answer in the place of a console.
func FuzzTimeline(f *testing.F) {
	seed, err := json.Marshal(contention())
	require.NoError(f, err)
	f.Add(seed, 80)
	f.Add([]byte(`{"scope":"</title><script>","rows":[{"spells":[{"kind":"holding"}]}],"marks":[{"kind":"break"}]}`), 40)
	f.Fuzz(func(t *testing.T, data []byte, width int) {
		var line live.Timeline
		if json.Unmarshal(data, &line) != nil {
			return
		}
		var b bytes.Buffer
		require.NoError(t, picture.TimelineSVG(&b, line, picture.Options{Width: width % 3000}))
		harmless(t, b.Bytes(), false)
		b.Reset()
		require.NoError(t, picture.TimelineText(&b, line, picture.TextOptions{Width: width % 300}))
		quiet(t, b.String(), 300)
	})
}

// The colours in which text stands on something, and lines on the background.
func TestColoursHaveContrast(t *testing.T) {
	for scheme, rules := range schemes(t) {
		fill := func(class, property string) string {
			for line := range strings.Lines(rules) {
				if body, ok := strings.CutPrefix(line, "."+class+" { "); ok {
					for rule := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(body), "}"), ";") {
						if value, ok := strings.CutPrefix(strings.TrimSpace(rule), property+": "); ok {
							return strings.TrimSpace(value)
						}
					}
				}
			}
			require.Fail(t, "no such rule", class)
			return ""
		}
		bg, band := fill("lk-bg", "fill"), fill("lk-band", "fill")
		for _, back := range []string{bg, band} {
			for _, class := range []string{"lk-text", "lk-muted"} {
				require.GreaterOrEqual(t, contrast(t, fill(class, "fill"), back), 4.5, "%s %s", scheme, class)
			}
			for _, class := range []string{"lk-ask", "lk-hand", "lk-end", "lk-alarm", "lk-edge", "lk-holding", "lk-waiting", "lk-leaving"} {
				require.GreaterOrEqual(t, contrast(t, fill(class, "stroke"), back), 3.0, "%s %s", scheme, class)
			}
		}
		require.GreaterOrEqual(t, contrast(t, fill("lk-on-holding", "fill"), fill("lk-holding", "fill")), 4.5, scheme)
		require.GreaterOrEqual(t, contrast(t, fill("lk-on-ask", "fill"), fill("lk-ask-fill", "fill")), 4.5, scheme)
		require.GreaterOrEqual(t, contrast(t, fill("lk-on-alarm", "fill"), fill("lk-alarm-fill", "fill")), 4.5, scheme)
		for i := 1; i <= 6; i++ {
			require.GreaterOrEqual(t, contrast(t, fill(fmt.Sprintf("lk-on-heat-%d", i), "fill"), fill(fmt.Sprintf("lk-heat-%d", i), "fill")), 4.5, "%s heat %d", scheme, i)
		}
	}
}

// schemes are the rules for light and dark.
func schemes(t *testing.T) map[string]string {
	t.Helper()
	light, rest, ok := strings.Cut(picture.Stylesheet(), "@media (prefers-color-scheme: dark) {\n")
	require.True(t, ok)
	dark, _, ok := strings.Cut(rest, "\n}\n")
	require.True(t, ok)
	return map[string]string{"light": light, "dark": dark}
}

func TestStylesheetHasARuleForEachClass(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, picture.TimelineSVG(&b, contention(), picture.Options{}))
	require.NoError(t, picture.HeatSVG(&b, heat(), picture.Options{}))
	b.WriteString(drawnGraphOf(t, traffic(), picture.Options{}))
	var classes []string
	for _, part := range strings.Split(b.String(), `class="`)[1:] {
		classes = append(classes, strings.Fields(part[:strings.Index(part, `"`)])...)
	}
	slices.Sort(classes)
	for _, class := range slices.Compact(classes) {
		if class != "lk-row" { // for those who have rules of their own
			require.Regexp(t, `\.`+class+`[ ,]`, picture.Stylesheet())
		}
	}
	require.NotContains(t, b.String(), "style=")
}
