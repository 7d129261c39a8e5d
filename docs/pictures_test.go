package docs

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The picture at the top of the README is a run of the demo: make pictures.
func TestPictureOfTheReadmeShowsAPreemption(t *testing.T) {
	t.Parallel()
	const name = "pictures/timeline.svg"
	readme := read(t, "../README.md")
	require.Regexp(t, `!\[Timeline[^\]]{40,}\]\(docs/`+name+`\)`, readme[:strings.Index(readme, "## ")], "at the top, with words for those who cannot see it")

	svg := read(t, name)
	require.Less(t, len(svg), 60_000)
	shapes, texts := standalone(t, svg)
	for class, what := range map[string]string{
		"lk-waiting": "waits", "lk-holding": "holds", "lk-leaving": "preempted, still holds", "lk-ask": "asks", "lk-hand": "hands over",
	} {
		require.Positive(t, shapes[class], what)
	}
	all := strings.Join(texts, "\n")
	require.Regexp(t, `hotfix preempts compact \(priority 90 over 20\) · released after \d+ms · hotfix holds at once`, all)
	require.Contains(t, texts, "waits", "a legend")
	for _, forbidden := range []string{"no history", "lost", "taken", "evicted", "gone", "still holds after"} {
		require.NotContains(t, all, forbidden, "another run is a better example")
	}
}

// standalone requires that an SVG is a file of its own, which loads nothing and does
// nothing, and returns its shapes by class, and what it says.
func standalone(t *testing.T, svg string) (shapes map[string]int, texts []string) {
	t.Helper()
	require.True(t, strings.HasPrefix(svg, `<svg xmlns="http://www.w3.org/2000/svg" `))
	shapes = map[string]int{}
	allowed := strings.Fields("svg title desc style defs pattern rect path circle text g")
	elsewhere := regexp.MustCompile(`(?i)url\([^#]|@import|javascript:|expression\(`)
	require.NotRegexp(t, elsewhere, svg)
	d := xml.NewDecoder(strings.NewReader(svg))
	in := ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return shapes, texts
		}
		require.NoError(t, err)
		switch e := token.(type) {
		case xml.StartElement:
			in = e.Name.Local
			require.Contains(t, allowed, in)
			for _, a := range e.Attr {
				require.NotRegexp(t, `^(on|href|src|style$)`, strings.ToLower(a.Name.Local))
				if a.Name.Local == "class" {
					for class := range strings.FieldsSeq(a.Value) {
						shapes[class]++
					}
				}
			}
		case xml.EndElement:
			in = ""
		case xml.CharData:
			switch in {
			case "style":
				require.Contains(t, string(e), "prefers-color-scheme: dark")
				shapes["style"]++
			case "text", "desc":
				texts = append(texts, string(e))
			}
		case xml.Comment, xml.ProcInst, xml.Directive:
			require.Fail(t, "there is more than a picture in it")
		}
	}
}
