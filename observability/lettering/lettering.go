package lettering

import (
	"strings"
	"unicode"
)

// Plain replaces what is no text: controls, escape sequences, marks that change
// the direction of text, private and invisible characters. Line ends stay.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r < ' ', r >= 0x7f && r <= 0x9f, // controls
			// format
			r == 0xad, r == 0x61c, r == 0xfeff, r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e,
			r >= 0x2060 && r <= 0x206f,
			r >= 0xe000 && r <= 0xf8ff, r >= 0xfff0 && r <= 0xffff, r >= 0xe0000: // private, special, tags
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// Line is Plain on one line, with single blanks between words.
func Line(text string) string { return strings.Join(strings.Fields(Plain(text)), " ") }

// Columns is how many columns of a terminal a text takes.
func Columns(text string) int {
	n := 0
	for _, r := range text {
		n += ColumnsOf(r)
	}
	return n
}

// ColumnsOf is how many columns of a terminal a character takes: two for those of
// East Asia and for pictures, none for accents.
func ColumnsOf(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}

// wide are the characters that take two columns.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x1100, 0x115f, 1},
		{0x231a, 0x231b, 1},
		{0x23e9, 0x23ec, 1},
		{0x23f0, 0x23f3, 3},
		{0x25fd, 0x25fe, 1},
		{0x2614, 0x2615, 1},
		{0x2648, 0x2653, 1},
		{0x267f, 0x2693, 20},
		{0x26a1, 0x26aa, 9},
		{0x26ab, 0x26bd, 18},
		{0x26be, 0x26c4, 6},
		{0x26c5, 0x26ce, 9},
		{0x26d4, 0x26ea, 22},
		{0x26f2, 0x26f3, 1},
		{0x26f5, 0x26fa, 5},
		{0x26fd, 0x2705, 8},
		{0x270a, 0x270b, 1},
		{0x2728, 0x274c, 36},
		{0x274e, 0x2753, 5},
		{0x2754, 0x2755, 1},
		{0x2757, 0x2795, 62},
		{0x2796, 0x2797, 1},
		{0x27b0, 0x27bf, 15},
		{0x2b1b, 0x2b1c, 1},
		{0x2b50, 0x2b55, 5},
		{0x2e80, 0x303e, 1},
		{0x3041, 0x4dbf, 1},
		{0x4e00, 0xa4cf, 1},
		{0xa960, 0xa97c, 1},
		{0xac00, 0xd7a3, 1},
		{0xf900, 0xfaff, 1},
		{0xfe30, 0xfe6f, 1},
		{0xff00, 0xff60, 1},
		{0xffe0, 0xffe6, 1},
	},
	R32: []unicode.Range32{
		{0x16fe0, 0x18cff, 1},
		{0x1aff0, 0x1b2fb, 1},
		{0x1f004, 0x1f0cf, 203},
		{0x1f18e, 0x1f18e, 1},
		{0x1f191, 0x1f19a, 1},
		{0x1f200, 0x1f64f, 1},
		{0x1f680, 0x1f6ff, 1},
		{0x1f7e0, 0x1f7f0, 1},
		{0x1f90c, 0x1f9ff, 1},
		{0x1fa70, 0x1faff, 1},
		{0x20000, 0x3fffd, 1},
	},
}

// Cut cuts a text so that it takes no more columns; the ellipsis says that it did.
func Cut(text string, columns int, ellipsis string) string {
	if Columns(text) <= columns && len(text) <= 8*columns { // a heap of accents takes no column
		return text
	}
	left := columns - Columns(ellipsis)
	if left < 0 {
		return ""
	}
	end := 0
	for i, r := range text {
		if left -= ColumnsOf(r); left < 0 || i > 4*columns {
			break
		}
		end = i + len(string(r))
	}
	return text[:end] + ellipsis
}

// Fold breaks a text into lines between words, or within one that is too long.
func Fold(text string, columns int) []string {
	columns = max(columns, 2)
	var lines []string
	line, used := "", 0
	for word := range strings.FieldsSeq(Plain(text)) {
		n := Columns(word)
		if line != "" && used+1+n <= columns {
			line, used = line+" "+word, used+1+n
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for Columns(word) > columns {
			head := Cut(word, columns, "")
			if head == "" {
				break
			}
			lines = append(lines, head)
			word = word[len(head):]
		}
		line, used = word, Columns(word)
	}
	return append(lines, line)
}
