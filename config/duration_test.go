package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lockkeeper/lockkeeper/internal/words"
)

func TestMeantDurations(t *testing.T) {
	for text, want := range map[string]string{
		"30":            "30s",
		"30 seconds":    "30s",
		"1 second":      "1s",
		"5min":          "5m",
		"5 MINUTES":     "5m",
		"1 hour 30 min": "1h30m",
		"1h, 30m":       "1h30m",
		"2 days":        "48h",
		"1w":            "168h",
		"500 msec":      "500ms",
		"30_seconds":    "30s",
		"soon":          "",
		"":              "",
		"1 fortnight":   "",
		"1h 30":         "",
		"1.5 days":      "",
		"PT30S":         "",
		"99999999999w":  "",
	} {
		require.Equal(t, want, meantDuration(text), "%q", text)
	}
}

func TestFormattedDurationsAreShortAndReadTheSame(t *testing.T) {
	require.Equal(t, "10m", words.Duration(10*time.Minute))
	require.Equal(t, "2h", words.Duration(2*time.Hour))
	require.Equal(t, "0s", words.Duration(0))
	require.Equal(t, "1h0m5s", words.Duration(time.Hour+5*time.Second))
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64().Draw(t, "d"))
		back, what, _ := parseDuration(words.Duration(d))
		require.Empty(t, what)
		require.Equal(t, d, back)
	})
}
