package words

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestCountsArePlural(t *testing.T) {
	t.Parallel()
	require.Equal(t, "0 locks, 1 lock, 2 locks", strings.Join([]string{Count(0, "lock"), Count(1, "lock"), Count(2, "lock")}, ", "))
	require.Equal(t, "1 request waits, 2 requests wait", CountOf(1, "request waits", "requests wait")+", "+CountOf(2, "request waits", "requests wait"))
}

func TestTextIsClippedBetweenCharacters(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "abcd": "abcd", "abcde": "abcd…", "abcö": "abc…", "ab€": "ab…", "a😀b": "a…", "😀": "😀", "😀😀": "😀…",
		"abc\xbf\xbf": "ab…",
	} {
		require.Equal(t, want, Clip(text, 4), text)
	}
	// what is no text is clipped all the same
	require.Equal(t, "…", Clip("\xbf\xbf\xbf\xbf\xbf", 4))
	require.Equal(t, "\xbf…", Clip("\xbf\xbf\xbf\xbf\xbf\xbf", 5))
	require.Equal(t, "…", Clip("\xbf\xbf", 0))
}

func TestClippedTextIsTheBeginningOfIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text, most := rapid.String().Draw(t, "text"), rapid.IntRange(0, 40).Draw(t, "most")
		clipped := Clip(text, most)
		if len(text) <= most {
			require.Equal(t, text, clipped)
			return
		}
		kept, cut := strings.CutSuffix(clipped, "…")
		require.True(t, cut)
		require.True(t, strings.HasPrefix(text, kept))
		require.LessOrEqual(t, len(kept), most)
		require.Greater(t, len(kept)+utf8.UTFMax, most)
		require.True(t, utf8.ValidString(kept))
	})
}

func TestListsAreJoined(t *testing.T) {
	t.Parallel()
	upper := func(s string) string { return strings.ToUpper(s) }
	require.Empty(t, Join(nil, ", ", upper))
	require.Equal(t, "A; B", Join([]string{"a", "b"}, "; ", upper))
	require.Equal(t, "a, b", Few([]string{"a", "b"}, 2))
	require.Equal(t, "a, b and 2 more", Few([]string{"a", "b", "c", "d"}, 2))
	require.Empty(t, Few(nil, 2))
}

func TestDurationsAreWrittenInTwoUnits(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		time.Second: "1s", 59*time.Second + 999*time.Millisecond: "59s", time.Minute: "1m", 6*time.Minute + 12*time.Second: "6m 12s",
		time.Hour: "1h", time.Hour + 59*time.Second: "1h", 3*time.Hour + 5*time.Minute: "3h 5m", day - 1: "23h 59m", day: "1d", 4*day + 2*time.Hour: "4d 2h",
	} {
		require.Equal(t, want, Units(d, " "))
	}
	require.Equal(t, "6m12s", Units(6*time.Minute+12*time.Second, ""))
}
