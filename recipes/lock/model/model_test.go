package model

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProtocolKeepsItsPromisesInEveryState(t *testing.T) {
	t.Parallel()
	for _, c := range Bounded() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			var limits Limits
			if testing.Short() {
				limits.States = 10_000
			}
			r := c.Explore(limits)
			require.Empty(t, r.Violation, strings.Join(r.Trace, "\n"))
			require.True(t, r.Complete || testing.Short())
			t.Logf("%d states, %d deep, %s", r.States, r.Depth, r.Took)
		})
	}
}

// A model that finds nothing wrong without a guard proves nothing with it.
func TestEachGuardIsMissed(t *testing.T) {
	t.Parallel()
	for i, m := range Mutations() {
		if testing.Short() && i%4 != 0 {
			continue // all of them take half a minute of processor time
		}
		t.Run(Without(m.Without...).String(), func(t *testing.T) {
			t.Parallel()
			if m.Redundant != "" {
				require.Empty(t, m.Config)
				return
			}
			c, ok := Find(m.Config)
			require.True(t, ok, m.Config)
			limits := Limits{States: 500_000}
			if testing.Short() {
				limits.States = 40_000
			}
			r := c.ExploreAs(Without(m.Without...), limits)
			if testing.Short() && r.Violation == "" && !r.Complete {
				return // further away than a short run looks
			}
			require.NotEmpty(t, r.Violation)
			require.NotEmpty(t, r.Trace)
			t.Logf("%s: %s: %s (%d states, %d steps)", c.Name, r.Kind, r.Violation, r.States, len(r.Trace))
		})
	}
}

// What misses a guard must find nothing where nothing is missing.
func TestNarrowConfigurationsAreFineWithAllGuards(t *testing.T) {
	t.Parallel()
	limit := 40_000
	if testing.Short() {
		limit = 2_000
	}
	for _, c := range Narrow() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			r := c.Explore(Limits{States: limit})
			require.Empty(t, r.Violation, strings.Join(r.Trace, "\n"))
			t.Logf("%d states, complete: %t", r.States, r.Complete)
		})
	}
}

func TestEveryGuardHasAMutation(t *testing.T) {
	t.Parallel()
	missed := make(map[Guard]bool)
	for _, m := range Mutations() {
		for _, g := range m.Without {
			missed[g] = true
		}
	}
	for _, g := range Guards() {
		require.True(t, missed[g], g.String())
		require.NotEmpty(t, g.String())
	}
}
