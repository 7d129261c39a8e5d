package console

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
)

// human writes a duration for people: its two largest units.
func human(d time.Duration) string {
	if d < 0 {
		return "-" + human(-max(d, -math.MaxInt64)) // the least one has no opposite
	}
	if d < time.Second {
		return fmt.Sprintf("%dms", d.Milliseconds())
	}
	return words.Units(d, " ")
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// does is what a request does to its lock, in a sentence.
func does(state string) string {
	if state == "waits" {
		return "waits for"
	}
	return state
}

// count writes how many of something there are.
func count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "s"):
		return thousands(n) + " " + noun + "es"
	}
	return thousands(n) + " " + noun + "s"
}

// thousands writes a number in groups of three digits.
func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// clock writes a time as today's, or with its date.
func clock(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	if t.Year() == now.Year() && t.YearDay() == now.YearDay() {
		return t.Format("15:04:05")
	}
	return t.Format("2006-01-02 15:04:05")
}

// short is enough of an ID to tell it from others.
func short(id string) string {
	const enough = 8
	return id[:min(len(id), enough)]
}
