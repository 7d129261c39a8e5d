package config

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/override"
)

// Whatever the text of an overrides file: no panic, and either valid overrides,
// which go through ZooKeeper unchanged, or problems, each in one line and inside
// of the file.
func FuzzParseOverrides(f *testing.F) {
	for _, text := range []string{
		one("freeze", "match: {scope: db/*}"), one("boost", "match: {job: a, labels: {b: c}}, priority: emergency, forceful: true"), one("hold", "match: {scope: x}, waiting_timeout: 5m"),
		one("preempt-now", "match: {scope: x}, token: 7"), one("extend", "lease_timeout: 1h, cleanup_timeout: 1s, acquire_timeout: 1m"), one("cap", "priority: batch, match: {priority_above: 80}"),
		one("pause", "match: {job: '*'}"), one("bypass", "match: {scope: x}"), "", "overrides:\n", "overrides: []\n", "overrides: [{}]", "version: 1\n", "overrides: {id: a}\n",
		"overrides: &a [{<<: *a}]", "overrides:\n  - &x {id: a, by: ${A}, kind: freeze, until: 2026-11-22T14:00:00Z, reason: ${NO:-r}}\n  - {<<: *x, id: b}\n",
		"overrides: [{id: a, kind: freeze, by: ana, reason: r, until: 2026-11-22 14:00:00}]", "overrides: [{id: \"\\e[31m\", until: now}]\n---\n",
	} {
		f.Add(text)
	}
	cfg, err := Parse(fileName, []byte(file("priorities: {classes: {batch: 10}}\n")), testOptions())
	if err != nil {
		f.Fatal(err)
	}
	defer cfg.Close()
	opts := OverridesOptions{Config: cfg, Env: testOptions().Env, Now: func() time.Time { return noon }}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := ParseOverrides(fileName, []byte(text), opts)
		if err != nil {
			var all *Errors
			require.ErrorAs(t, err, &all)
			require.Nil(t, o)
			require.NotEmpty(t, all.Problems)
			checkProblems(t, text, all.Problems)
			checkProblems(t, text, all.Warnings)
			return
		}
		checkProblems(t, text, o.Warnings)
		names := make(map[string]bool, len(o.All))
		for _, one := range o.All {
			require.NoError(t, one.Validate(override.Limits{Now: noon, MaxDuration: cfg.Emergency.MaxDuration, AllowBypass: cfg.Emergency.AllowBypass}))
			require.False(t, names[one.ID], "twice: %s", one.ID)
			names[one.ID] = true
			data, err := json.Marshal(one)
			require.NoError(t, err)
			var again override.Override
			require.NoError(t, json.Unmarshal(data, &again))
			require.True(t, again.Equal(one), "%s\n%s", one, again)
			require.False(t, strings.ContainsAny(one.ID, " \n\x1b/"))
		}
	})
}
