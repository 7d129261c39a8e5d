// Package words writes what several rooms write alike: durations, counts, lists,
// and texts cut at the room that there is for them. It also says which texts people
// can read.
package words

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Count writes 1 lock, 2 locks.
func Count(n int, noun string) string { return CountOf(n, noun, noun+"s") }

// CountOf writes 1 request waits, 2 requests wait.
func CountOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Clip keeps the first most bytes of s, or a few less where they end inside a
// character, and adds an ellipsis if something is left out.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	end := most
	for end > most-utf8.UTFMax && end > 0 && !utf8.RuneStart(s[end]) { // it may be no text at all
		end--
	}
	return s[:end] + "…"
}

// Join writes all, each as text does, with sep between them.
func Join[T any](all []T, sep string, text func(T) string) string {
	texts := make([]string, len(all))
	for i, v := range all {
		texts[i] = text(v)
	}
	return strings.Join(texts, sep)
}

// Few writes a, b and 3 more: no more than the first few.
func Few(all []string, few int) string {
	if len(all) <= few {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:few], ", "), len(all)-few)
}

// HasControl reports whether s contains a character that ZooKeeper refuses in a path or that people cannot read, or
// invalid UTF-8.
func HasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool {
		return r < 0x20 || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 ||
			r == '\u2028' || r == '\u2029'
	})
}
