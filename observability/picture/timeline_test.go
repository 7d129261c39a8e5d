package picture_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/picture"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

var update = flag.Bool("update", false, "write the pictures that are compared with anew, to be looked at")

// golden compares a picture with the file of that name, byte for byte.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "the picture has changed; look at it, and write it anew with go test ./observability/picture -update")
}

func TestTimeline(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, picture.TimelineSVG(&b, contention(), picture.Options{Standalone: true}))
	golden(t, "timeline.svg", b.Bytes())
}

func TestTimelineAsText(t *testing.T) {
	for name, o := range map[string]picture.TextOptions{
		"timeline.80.txt": {}, "timeline.120.txt": {Width: 120}, "timeline.40.ascii.txt": {Width: 40, ASCII: true}, "timeline.80.colour.txt": {Colour: true},
	} {
		var b bytes.Buffer
		require.NoError(t, picture.TimelineText(&b, contention(), o))
		golden(t, name, b.Bytes())
	}
}

func TestTimelineIsReadToThoseWhoCannotSeeIt(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, picture.TimelineSVG(&b, contention(), picture.Options{}))
	svg := b.String()
	id := regexp.MustCompile(`aria-labelledby="(\w+)-t (\w+)-d"`).FindStringSubmatch(svg)
	require.NotNil(t, id)
	require.Contains(t, svg, `role="img"`)
	require.Contains(t, svg, `<title id="`+id[1]+`-t">Timeline of lock shop/orders</title>`)
	description := regexp.MustCompile(`(?s)<desc id="` + id[2] + `-d">(.*?)</desc>`).FindStringSubmatch(svg)
	require.NotNil(t, description)
	require.Contains(t, description[1], "8 requests, 3 preemptions; at the end 1 holds and 2 wait.")
	require.Contains(t, description[1], "hotfix preempts compact (priority 90 over 20) · released after 1.2s · hotfix holds at once")
	require.NotContains(t, svg, "<style", "that is the page's")

	b.Reset()
	other := contention()
	other.Scope = "another"
	require.NoError(t, picture.TimelineSVG(&b, other, picture.Options{Links: func(id string) string { return "/requests/" + id }}))
	require.NotContains(t, b.String(), id[1], "two pictures in a page have different identifiers")
	require.Contains(t, b.String(), `role="group"`, "links can be reached")
	require.Equal(t, 8, strings.Count(b.String(), `<a href="/requests/`))
}

func TestDeltasOfAPreemption(t *testing.T) {
	line := contention()
	line.Rows[0].Spells[1].From = at(4.25) // it was cut off when it was asked
	line.Rows[2].Spells[1].From = at(5.5)
	var b bytes.Buffer
	require.NoError(t, picture.TimelineText(&b, line, picture.TextOptions{Width: 200}))
	require.Contains(t, b.String(), "12:00:04.000  hotfix preempts compact (priority 90 over 20) · noticed after 250ms · released after 1.2s · hotfix holds 300ms later\n")
	require.Contains(t, b.String(), "migration preempts compact (priority 90 over 20) · evicted after 2s · migration holds at once\n")
	require.Contains(t, b.String(), "ana preempts migration (priority emergency over 90) · migration still holds after 1.5s\n")
}

func TestTimelineOfThousandsIsBounded(t *testing.T) {
	line := live.Timeline{Scope: "busy", From: at(0), To: at(5000), Known: at(0)}
	for i := range 5000 {
		id, begin := strconv.Itoa(i), float64(i)
		line.Rows = append(line.Rows, request(id, "job "+id, 1, waits(begin-3, begin, live.EndGranted), holds(lock.Token(i+1), begin, begin+1, live.EndReleased)))
		line.Marks = append(line.Marks, live.Mark{At: at(begin), Kind: live.MarkHandover, From: strconv.Itoa(i - 1), To: id})
	}
	line.Rows[10].Spells[1] = holds(11, 10, 11, live.EndPreempted)
	line.Marks = append(line.Marks, live.Mark{At: at(10.5), Kind: live.MarkPreempt, From: "11", To: "10"})
	line.Rows[700].Spells = append(line.Rows[700].Spells[:1], holds(701, 700, 0, ""))

	var b bytes.Buffer
	require.NoError(t, picture.TimelineSVG(&b, line, picture.Options{Standalone: true}))
	svg := b.String()
	require.Less(t, len(svg), 150_000)
	require.Contains(t, svg, "and 4900 more requests")
	for _, owner := range []string{"job 4999", "job 10", "job 11", "job 700"} {
		require.Contains(t, svg, ">"+owner+"</text>", "the newest, who was preempted, and who holds now")
	}
	require.NotContains(t, svg, ">job 12</text>")

	b.Reset()
	require.NoError(t, picture.TimelineSVG(&b, line, picture.Options{Rows: 1000}))
	require.Less(t, b.Len(), 1_000_000)
	b.Reset()
	require.NoError(t, picture.TimelineText(&b, line, picture.TextOptions{}))
	require.Less(t, b.Len(), 50_000)
	require.Contains(t, b.String(), "and 4900 more requests")
}

func TestAxisHasSensibleTimes(t *testing.T) {
	for length, want := range map[time.Duration][]string{
		80 * time.Millisecond: {"12:00:00.000", "12:00:00.020", "12:00:00.080"},
		10 * time.Second:      {"12:00:00", "12:00:02", "12:00:10"},
		25 * time.Minute:      {"12:00", "12:05", "12:25"},
		30 * time.Hour:        {"12:00", "Mar 2", "18:00"},
		21 * 24 * time.Hour:   {"Mar 5", "Mar 9", "Mar 21"},
	} {
		var b bytes.Buffer
		line := live.Timeline{Scope: "s", From: noon, To: noon.Add(length), Rows: []live.Row{request("a", "a", 1, spell(live.SpellHolding, 1, 0, 0, ""))}}
		require.NoError(t, picture.TimelineSVG(&b, line, picture.Options{}))
		for _, label := range want {
			require.Contains(t, b.String(), ">"+label+"</text>", length)
		}
		require.LessOrEqual(t, strings.Count(b.String(), `class="lk-line"`), 10, length)
	}
}

func TestEmptyTimeline(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, picture.TimelineSVG(&b, live.Timeline{Scope: "s"}, picture.Options{}))
	require.Contains(t, b.String(), "No requests for this lock in this time.")
	b.Reset()
	require.NoError(t, picture.TimelineText(&b, live.Timeline{Scope: "s"}, picture.TextOptions{}))
	require.Contains(t, b.String(), "No requests for this lock in this time.")
}
