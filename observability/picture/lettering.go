package picture

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/observability/lettering"
)

// textWidth estimates how wide text is in a usual sans-serif font. It is rather
// too wide than too narrow.
func textWidth(text string, size float64) float64 {
	var em float64
	for _, r := range text {
		em += letterWidth(r)
	}
	return em * size
}

func letterWidth(r rune) float64 {
	switch {
	case strings.ContainsRune("iljtf.,:;'|!()[]/\\ I", r):
		return 0.34
	case strings.ContainsRune("mwMW@%", r):
		return 0.92
	case r >= '0' && r <= '9':
		return 0.6
	case lettering.ColumnsOf(r) == 0:
		return 0
	case lettering.ColumnsOf(r) == 2:
		return 1.1
	case unicode.IsUpper(r):
		return 0.7
	}
	return 0.58
}

// fit cuts text so that it is no wider; what is left out is an ellipsis. At most
// its first line is used.
func fit(text string, size, width float64) string {
	text = lettering.Line(text)
	if textWidth(text, size) <= width {
		return text
	}
	left := width - textWidth("…", size)
	end := 0
	for i, r := range text {
		if left -= letterWidth(r) * size; left < 0 {
			break
		}
		end = i + len(string(r))
	}
	if end == 0 {
		return "…"
	}
	return strings.TrimRight(text[:end], " ") + "…"
}

// fitMiddle cuts the name of a lock or of who asks for it so that it is no wider.
// What is left out is in the middle: names that begin alike tell apart by their ends.
func fitMiddle(name string, size, width float64) string {
	name = lettering.Line(name)
	if textWidth(name, size) <= width {
		return name
	}
	letters := []rune(name)
	room := width - textWidth("…", size)
	end, left := len(letters), room*0.6
	for ; end > 0; end-- {
		if left -= letterWidth(letters[end-1]) * size; left < 0 {
			break
		}
	}
	for end < len(letters) && letterWidth(letters[end]) == 0 { // what stands on a letter that is gone
		end++
	}
	begin, left := 0, room-textWidth(string(letters[end:]), size)
	for ; begin < end; begin++ {
		if left -= letterWidth(letters[begin]) * size; left < 0 {
			break
		}
	}
	return strings.TrimRight(string(letters[:begin]), " ") + "…" + strings.TrimLeft(string(letters[end:]), " ")
}

// span writes a duration for people in its two largest units.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Round(100*time.Millisecond).Seconds()), ".0") + "s"
	}
	return words.Units(d, "")
}

// clock writes a time of day: with milliseconds.
func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// period says from when to when.
func period(from, to time.Time) string {
	from, to = from.UTC(), to.UTC()
	layout := "15:04:05"
	if to.Sub(from) < 5*time.Second {
		layout = "15:04:05.000"
	}
	if from.Format(time.DateOnly) == to.Format(time.DateOnly) {
		return from.Format(time.DateOnly+" "+layout) + " – " + to.Format(layout) + " UTC"
	}
	return from.Format(time.DateOnly+" "+layout) + " – " + to.Format(time.DateOnly+" "+layout) + " UTC"
}
