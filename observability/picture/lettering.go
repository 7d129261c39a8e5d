package picture

import (
	"fmt"
	"strings"
	"time"
	"unicode"
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
	case columns(r) == 0:
		return 0
	case columns(r) == 2:
		return 1.1
	case unicode.IsUpper(r):
		return 0.7
	}
	return 0.58
}

// fit cuts text so that it is no wider; what is left out is an ellipsis. At most
// its first line is used.
func fit(text string, size, width float64) string {
	text = oneLine(text)
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

func oneLine(text string) string { return strings.Join(strings.Fields(plain(text)), " ") }

// columns is how many columns of a terminal a character takes.
func columns(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0x303e, r >= 0x3041 && r <= 0x4dbf, r >= 0x4e00 && r <= 0xa4cf,
		r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60,
		r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1f64f, r >= 0x1f680 && r <= 0x1f6ff, r >= 0x1f900 && r <= 0x1f9ff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// span writes a duration for people in its two largest units.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	two := func(a time.Duration, unit string, b time.Duration, small string) string {
		if b == 0 {
			return fmt.Sprintf("%d%s", a, unit)
		}
		return fmt.Sprintf("%d%s%d%s", a, unit, b, small)
	}
	switch {
	case d < 0:
		return "0"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Round(100*time.Millisecond).Seconds()), ".0") + "s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return two(d/time.Minute, "m", d%time.Minute/time.Second, "s")
	case d < day:
		return two(d/time.Hour, "h", d%time.Hour/time.Minute, "m")
	}
	return two(d/day, "d", d%day/time.Hour, "h")
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

// count writes a number of things.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
