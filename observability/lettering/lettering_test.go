package lettering

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestNothingButTextIsLeft(t *testing.T) {
	require.Equal(t, "\uFFFD[2Jkey", Plain("\x1b[2Jkey"))
	require.Equal(t, "\uFFFD31mred\uFFFD", Plain("\u009b31mred\u0007"))
	require.Equal(t, "gpj\uFFFDexe", Plain("gpj\u202eexe"))
	require.Equal(t, "a b", Line(" a \n b"))
}

func TestColumnsAreThoseOfTerminals(t *testing.T) {
	for text, columns := range map[string]int{
		"": 0, "abc": 3, "é": 1, "e\u0301": 1, "鎖": 2, "ロック": 6, "잠금": 4, "🔒": 2, "⚡": 2, "…": 1, "·": 1, "▼": 1, "ü": 1,
	} {
		require.Equal(t, columns, Columns(text), text)
	}
}

func TestCutAndFoldedTextFits(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z鎖🔒\x{301} ]{0,60}`))
	rapid.Check(t, func(t *rapid.T) {
		line := Line(text.Draw(t, "text"))
		width := rapid.IntRange(2, 30).Draw(t, "width")
		require.LessOrEqual(t, Columns(Cut(line, width, "…")), width)
		folded := Fold(line, width)
		for _, l := range folded {
			require.LessOrEqual(t, Columns(l), width)
		}
		blank := func(s string) string {
			return strings.Map(func(r rune) rune {
				if unicode.IsSpace(r) {
					return -1
				}
				return r
			}, s)
		}
		require.Equal(t, blank(line), blank(strings.Join(folded, "")), "no text is lost")
	})
}
