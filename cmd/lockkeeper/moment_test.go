package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimesOfFlags(t *testing.T) {
	for text, want := range map[string]string{
		"2026-11-21T14:00:00+01:00": "2026-11-21T13:00:00Z",
		"2026-11-21 14:00:00-05:00": "2026-11-21T19:00:00Z",
		"2026-11-21T14:00:00Z":      "2026-11-21T14:00:00Z",
		"2026-11-21 14:00":          "2026-11-21T14:00:00Z",
		"2026-11-21 14:00 UTC":      "2026-11-21T14:00:00Z",
		"2026-11-21 14:00:05":       "2026-11-21T14:00:05Z",
		"2026-11-22":                "2026-11-22T00:00:00Z",
		"14:00":                     "2026-11-21T14:00:00Z",
		"11:59:30":                  "2026-11-22T11:59:30Z", // it is noon: that of tomorrow
		"12:00":                     "2026-11-22T12:00:00Z",
	} {
		var flag moment
		require.NoError(t, flag.Set(text))
		require.Empty(t, flag.problem(), text)
		require.Equal(t, want, flag.after(at(0)).UTC().Format(time.RFC3339), text)
	}
	for text, want := range map[string]string{ // of what is over
		"2026-11-19 14:00": "2026-11-19T14:00:00Z",
		"14:00":            "2026-11-20T14:00:00Z",
		"11:59:30":         "2026-11-21T11:59:30Z",
		"12:00":            "2026-11-21T12:00:00Z",
	} {
		var flag moment
		require.NoError(t, flag.Set(text))
		require.Equal(t, want, flag.before(at(0)).UTC().Format(time.RFC3339), text)
	}
	for _, text := range []string{"", "tomorrow", "25:00", "2026-13-01", "14", "2h"} {
		var flag moment
		require.NoError(t, flag.Set(text))
		require.Contains(t, flag.problem(), "is not a time; write 15:04, ", text)
		require.Equal(t, at(0), flag.or(at(0)), text)
	}
}

func TestTimesInColumnsSayAsMuchAsIsNeeded(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Minute:         "11:59:00",
		11 * time.Hour:       "23:00:00",
		12 * time.Hour:       "11-22 00:00:00",
		-24 * time.Hour:      "11-20 12:00:00",
		299 * 24 * time.Hour: "09-16 12:00:00",
		301 * 24 * time.Hour: "2027-09-18 12:00",
	} {
		require.Equal(t, want, short(at(d), at(0)), d.String())
	}
	require.Equal(t, "2026-11-21 14:00:00 UTC, in 2h", both(at(2*time.Hour), at(0)))
	require.Equal(t, "2026-11-21 11:00:00 UTC, 1h ago", both(at(-time.Hour), at(0)))
}
