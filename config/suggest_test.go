package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestNearestNameIsSuggested(t *testing.T) {
	known := []string{"scope", "mode", "priority", "lease_timeout", "cleanup_timeout", "waiting_timeout", "acquire_timeout", "forceful", "message"}
	for written, want := range map[string]string{
		"leese":           "lease_timeout",
		"lease":           "lease_timeout",
		"lease-timeout":   "lease_timeout",
		"leaseTimeout":    "lease_timeout",
		"cleanup":         "cleanup_timeout",
		"wating_timeout":  "waiting_timeout",
		"waiting_timeuot": "waiting_timeout",
		"Scope":           "scope",
		"scpoe":           "scope",
		"priorty":         "priority",
		"forcefull":       "forceful",
		"messgae":         "message",
		"prio":            "priority",
		"colour":          "",
		"x":               "",
		"":                "",
	} {
		got, _ := newSuggester().nearest(written, known)
		require.Equal(t, want, got, "written %q", written)
	}
}

func TestSuggestionsHaveABudget(t *testing.T) {
	s := newSuggester()
	known := make([]string, 100_000)
	for i := range known {
		known[i] = "aaaaaaaa"
	}
	_, ok := s.nearest("aaaaaaab", known)
	require.True(t, ok)
	_, ok = s.nearest("aaaaaaab", known)
	require.False(t, ok, "the budget was spent by the first")
	_, ok = newSuggester().nearest(strings.Repeat("a", 1_000_000), known)
	require.False(t, ok)
}

func TestDistanceIsSymmetricAndZeroOnlyForEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-d]{0,8}`)
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		d := distance(a, b)
		require.Equal(t, d, distance(b, a))
		require.Equal(t, a == b, d == 0)
		require.LessOrEqual(t, d, max(len(a), len(b)))
	})
}
