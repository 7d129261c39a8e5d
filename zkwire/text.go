package zkwire

import (
	"strings"
	"unicode/utf8"
)

// text is a string as Java understands its bytes: where they are not UTF-8,
// each longest beginning of a character, or else each byte, is U+FFFD, and so
// is each encoded surrogate. Go would count every byte.
func text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var s strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			n = subpart(b)
		}
		s.WriteRune(r)
		b = b[n:]
	}
	return s.String()
}

// subpart returns the length of the longest beginning of a character that b
// has, at least 1.
func subpart(b []byte) int {
	low, high, length := byte(0x80), byte(0xbf), 0
	switch lead := b[0]; {
	case 0xc2 <= lead && lead <= 0xdf:
		length = 2
	case 0xe0 <= lead && lead <= 0xef:
		length = 3
		if lead == 0xe0 {
			low = 0xa0
		}
	case 0xf0 <= lead && lead <= 0xf4:
		length = 4
		if lead == 0xf0 {
			low = 0x90
		}
		if lead == 0xf4 {
			high = 0x8f
		}
	}
	n := 1
	for n < length && n < len(b) && low <= b[n] && b[n] <= high {
		low, high = 0x80, 0xbf
		n++
	}
	return n
}
