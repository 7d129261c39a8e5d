package jobs

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTailKeepsTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		tail := NewTail(limit)
		var all string
		for _, s := range rapid.SliceOf(rapid.StringOfN(rapid.RuneFrom([]rune("abcdefgh")), 0, 30, -1)).Draw(t, "writes") {
			n, err := io.WriteString(tail, s)
			require.NoError(t, err)
			require.Equal(t, len(s), n)
			all += s
		}
		kept := all[max(0, len(all)-limit):]
		require.Equal(t, kept, tail.String())
		require.EqualValues(t, len(all)-len(kept), tail.Dropped())
	})
}
