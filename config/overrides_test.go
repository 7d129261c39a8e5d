package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
)

const overridesName = "testdata/o.yaml"

// noon is the time at which the overrides of the tests are read.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func overridesOptions(t *testing.T, main string) OverridesOptions {
	t.Helper()
	return OverridesOptions{Config: mustParse(t, file(main)), Env: testOptions().Env, Now: func() time.Time { return noon }}
}

// parseOverrides returns the overrides that a text stands for, and everything
// that is wrong with it, without the name of the file.
func parseOverrides(t *testing.T, text string, main string) (all []override.Override, problems, warnings []string) {
	t.Helper()
	o, err := ParseOverrides(overridesName, []byte(text), overridesOptions(t, main))
	if err == nil {
		if strings.TrimSpace(text) != "" && !strings.HasPrefix(text, "#") {
			require.NoError(t, overridesBySchema(t, text), "what is read is valid by the schema: %s", text)
		}
		return o.All, nil, texts(o.Warnings)
	}
	var broken *Errors
	require.ErrorAs(t, err, &broken)
	require.Nil(t, o)
	require.NotEmpty(t, broken.Problems)
	return nil, texts(broken.Problems), texts(broken.Warnings)
}

// one makes a file of one override, whose further settings stand in line 2
// from column 72 on.
func one(kind, settings string) string {
	return "overrides:\n  - {id: a, by: ana, reason: disk, until: 2026-11-22T14:00:00Z, kind: " + kind + ", " + settings + "}\n"
}

func TestOverridesAreWhatTheFileSays(t *testing.T) {
	all, problems, warnings := parseOverrides(t, `
overrides:
  - id: INC-1
    kind: boost
    match: {scope: db/*, job: "nightly-?", labels: {team: orders, n: 5}, priority_below: critical, priority_above: lowest}
    until: 2026-11-22T14:00:00Z
    by: ana
    reason: disk full
    priority: emergency
    forceful: true
    waiting_timeout: 0
  - {id: INC-2, kind: cap, until: "2026-11-22T15:00:00+01:00", by: "${A}", reason: r, priority: batch, forceful: false, waiting_timeout: 1m, match: {priority_above: 80, priority_below: emergency}}
  - {id: INC-3, kind: freeze, until: 2026-11-22T14:00:00.5Z, by: b, reason: r}
  - {id: INC-4, kind: hold, until: 2026-11-22T14:00:00Z, by: b, reason: r, match: {scope: db/orders}, waiting_timeout: 30s}
  - {id: INC-5, kind: preempt-now, until: 2026-11-22T14:00:00Z, by: b, reason: r, match: {scope: db/orders}, token: 9223372036854775807}
  - {id: INC-6, kind: pause, until: 2026-11-22T14:00:00Z, by: b, reason: r, match: {job: report-*}}
  - {id: INC-7, kind: extend, until: 2026-11-22T14:00:00Z, by: b, reason: r, waiting_timeout: 1m, lease_timeout: 1h, cleanup_timeout: 2m, acquire_timeout: 3h}
  - {id: INC-8, kind: bypass, until: 2026-11-22T14:00:00Z, by: b, reason: r, match: {job: report-*}}
`, classes+"emergency: {allow_bypass: true}\n")
	require.Empty(t, problems)
	require.Equal(t, []string{
		`12:149 overrides[1].match: warning: "INC-2" (cap) concerns every request of every job at that priority: match has neither scope nor job nor labels; leave it if that is meant`,
		`13:5 overrides[2]: warning: "INC-3" (freeze) concerns every request of every job: match has neither scope nor job nor labels; leave it if that is meant`,
		`16:90 overrides[5].match.job: warning: "report-*" fits no job of testdata/f.yaml; leave it if others have it`,
		`17:5 overrides[6]: warning: "INC-7" (extend) concerns every request of every job: match has neither scope nor job nor labels; leave it if that is meant`,
		`18:91 overrides[7].match.job: warning: "report-*" fits no job of testdata/f.yaml; leave it if others have it`,
		`5:31 overrides[0].match.job: warning: "nightly-?" fits no job of testdata/f.yaml; leave it if others have it`,
	}, sorted(warnings))
	until := noon.Add(2 * time.Hour)
	level := func(n priority.Level) *priority.Level { return &n }
	for i, want := range []override.Override{
		{
			ID: "INC-1", Kind: override.Boost, Until: until, By: "ana", Reason: "disk full", Priority: level(priority.Emergency), Forceful: new(true), WaitingTimeout: new(time.Duration(0)),
			Match: override.Match{Scope: "db/*", Job: "nightly-?", Labels: map[string]string{"team": "orders", "n": "5"}, PriorityBelow: level(90), PriorityAbove: level(0)},
		},
		{
			ID: "INC-2", Kind: override.Cap, Until: until, By: "alpha", Reason: "r", Priority: level(20), Forceful: new(false), WaitingTimeout: new(time.Minute),
			Match: override.Match{PriorityAbove: level(80), PriorityBelow: level(priority.Emergency)},
		},
		{ID: "INC-3", Kind: override.Freeze, Until: until.Add(500 * time.Millisecond), By: "b", Reason: "r"},
		{ID: "INC-4", Kind: override.Hold, Until: until, By: "b", Reason: "r", Match: override.Match{Scope: "db/orders"}, WaitingTimeout: new(30 * time.Second)},
		{ID: "INC-5", Kind: override.PreemptNow, Until: until, By: "b", Reason: "r", Match: override.Match{Scope: "db/orders"}, Token: 1<<63 - 1},
		{ID: "INC-6", Kind: override.Pause, Until: until, By: "b", Reason: "r", Match: override.Match{Job: "report-*"}},
		{
			ID: "INC-7", Kind: override.Extend, Until: until, By: "b", Reason: "r",
			WaitingTimeout: new(time.Minute), LeaseTimeout: new(time.Hour), CleanupTimeout: new(2 * time.Minute), AcquireTimeout: new(3 * time.Hour),
		},
		{ID: "INC-8", Kind: override.Bypass, Until: until, By: "b", Reason: "r", Match: override.Match{Job: "report-*"}},
	} {
		require.True(t, want.Equal(all[i]), "want %s\n got %s", want, all[i])
	}
	require.Len(t, all, 8)
}

func TestFileThatSaysNothingHasNoOverrides(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "{}", "overrides:\n", "overrides: []\n"} {
		all, problems, warnings := parseOverrides(t, text, "")
		require.Empty(t, problems, text)
		require.Empty(t, warnings, text)
		require.Empty(t, all, text)
	}
}

func TestOverridesProblems(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing is said": {"overrides: [{}]", `1:13 overrides[0]: id is missing; write a name such as "INC-4411"
1:13 overrides[0]: by is missing; write who says so
1:13 overrides[0]: reason is missing; write why
1:13 overrides[0]: until is missing; write when it ends, 2026-11-23T12:00:00Z at most
1:13 overrides[0]: kind is missing; write one of boost, cap, freeze, hold, preempt-now, pause, extend, bypass`},
		"a list":           {"- {}", `1:1 a list is not a mapping; ` + overridesExample},
		"a mapping":        {"overrides: {a: b}", `1:12 overrides: a mapping is not a list; ` + overridesExample},
		"the main file":    {"version: 1\njobs: {}\n", "1:1 unknown field \"version\"; remove it, this file has none\n2:1 unknown field \"jobs\"; they belong to the main file"},
		"kind":             {one("freze", "match: {scope: db}"), `2:71 overrides[0].kind: "freze" is not possible here; did you mean "freeze"?`},
		"kind and more":    {one("freze", "priority: crtical"), `2:71 overrides[0].kind: "freze" is not possible here; did you mean "freeze"?` + "\n" + `2:88 overrides[0].priority: unknown priority class "crtical"; did you mean "critical"?`},
		"class":            {one("boost", "priority: crtical"), `2:88 overrides[0].priority: unknown priority class "crtical"; did you mean "critical"?`},
		"emergency number": {one("boost", "priority: 2147483647"), `2:88 overrides[0].priority: 2147483647 is the emergency priority; write emergency if that is meant`},
		"cap at emergency": {one("cap", "priority: emergency"), `2:86 overrides[0].priority: emergency is the highest and lowers nothing; write a lower one`},
		"boost of nothing": {one("boost", "match: {scope: a}"), `2:71 overrides[0].kind: boost changes nothing without any of priority, forceful, waiting_timeout; write one`},
		"forceful":         {one("cap", "forceful: no"), `2:86 overrides[0].forceful: "no" is not true or false; write false`},
		"duration":         {one("extend", "lease_timeout: 1 hour"), `2:94 overrides[0].lease_timeout: "1 hour" is not a duration; write "1h"`},
		"not of the kind":  {one("freeze", "lease_timeout: 1h, token: 5"), "2:94 overrides[0].lease_timeout: freeze has none; remove it, or use extend\n2:105 overrides[0].token: freeze has none; remove it, or use preempt-now"},
		"no token":         {one("preempt-now", "match: {scope: a}, token: 0"), `2:110 overrides[0].token: 0 is less than 1; write the token of the holder, a number`},
		"wildcard":         {one("hold", "match: {scope: a*}"), `2:92 overrides[0].match.scope: "a*" has a wildcard in it, and hold takes one lock; write one scope`},
		"no scope":         {one("hold", "match: {job: a}"), "2:84 overrides[0].match: scope is missing; write the scope whose lock is meant, without wildcards\n2:90 overrides[0].match.job: hold takes the lock of one scope, from any holder; remove it"},
		"no match":         {one("hold", "match: "), "2:84 overrides[0].match: has no value; write it like {scope: db/*, priority_below: 80}"},
		"bypass":           {one("bypass", "match: {scope: a}"), `2:71 overrides[0].kind: bypass is not allowed: work would run without its lock; set emergency.allow_bypass: true in the configuration, or use another kind`},
		"strange scope":    {one("freeze", "match: {scope: /a}"), `2:94 overrides[0].match.scope: "/a" fits no scope: none begins or ends with a slash; write it like cluster/*`},
		"no scope at all":  {one("freeze", "match: {scope: 'a/ b'}"), `2:94 overrides[0].match.scope: "a/ b" has white space at the ends of its part " b"; write "a/b"`},
		"labels":           {one("freeze", "match: {labels: {a b: c, d: \"\\n\"}}"), `2:96 overrides[0].match.labels[a b]: the name "a b" has ' ' in it; write letters, digits, dots, underscores, hyphens and slashes, a letter or digit first` + "\n" + `2:107 overrides[0].match.labels[d]: the value "\n" has a control character or invalid UTF-8 in it; write printable characters`},
		"no labels":        {one("freeze", "match: {labels: {}}"), `2:95 overrides[0].match.labels: there are no labels; write it like {team: orders}, or remove it`},
		"bounds":           {one("freeze", "match: {priority_below: batch, priority_above: 30}"), `2:126 overrides[0].match.priority_above: no priority is above 30 and below 20; write a lower one`},
		"beside match":     {one("freeze", "scope: a"), `2:79 overrides[0]: unknown field "scope"; write it under match`},
		"twice":            {"overrides:\n  - &a {id: x, kind: freeze, until: 2026-11-22T14:00:00Z, by: a, reason: b}\n  - {id: x, kind: pause, until: 2026-11-22T14:00:00Z, by: a, reason: b}\n", `3:10 overrides[1].id: there is an override "x" already, at 2:13; write another id`},
		"bad ids":          {"overrides:\n  - {id: [], kind: freeze, until: 2026-11-22T14:00:00Z, by: a, reason: b}\n  - {id: , kind: pause, until: 2026-11-22T14:00:00Z, by: a, reason: b}\n", "2:10 overrides[0].id: a list cannot stand here; write a name such as INC-4411\n3:10 overrides[1].id: has no value; write a name such as INC-4411"},
		"syntax":           {"overrides:\n  - {id: a, kind: freeze\n", "2:5 not YAML: what opens here is not closed, as seen at 3:1; write \"}\" at its end"},
		"too far":          {strings.Replace(one("freeze", "match: {}"), "22T14", "24T14", 1), `2:43 overrides[0].until: 2026-11-24T14:00:00Z is 50h ahead, and emergency.max_duration is 24h; write 2026-11-23T12:00:00Z or earlier`},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems, _ := parseOverrides(t, c.text, classes)
			require.Equal(t, sorted(strings.Split(c.want, "\n")), sorted(problems))
		})
	}
}

func TestMomentsWithoutZoneAreRefusedWithWhatToWrite(t *testing.T) {
	for text, want := range map[string]string{
		"2026-11-22":                `"2026-11-22" is a whole day: it has no time and no time zone; write when it ends, for example 2026-11-22T14:00:00Z`,
		"2026-11-22T14:00:00":       `"2026-11-22T14:00:00" has no time zone; write 2026-11-22T14:00:00Z if that is meant`,
		"2026-11-22 14:00":          `"2026-11-22 14:00" has no time zone; write 2026-11-22T14:00:00Z if that is meant`,
		"2026-11-22 14:00:00Z":      `"2026-11-22 14:00:00Z" is not written as RFC 3339 has it; write 2026-11-22T14:00:00Z if that is meant`,
		"2026-11-22 14:00:00+01:00": `"2026-11-22 14:00:00+01:00" is not written as RFC 3339 has it; write 2026-11-22T13:00:00Z if that is meant`,
		"'14:00'":                   `"14:00" has no day and no time zone; write 2026-11-22T14:00:00Z if that is meant`,
		"'11:00'":                   `"11:00" has no day and no time zone; write 2026-11-23T11:00:00Z if that is meant`,
		"2h":                        `"2h" is a duration, not the moment when it ends; write 2026-11-22T14:00:00Z if that is meant`,
		"tomorrow":                  `"tomorrow" is not a moment; write when it ends, for example 2026-11-22T14:00:00Z`,
		"1763816400":                `"1763816400" is not a moment; write when it ends, for example 2026-11-22T14:00:00Z`,
		"[]":                        `a list cannot stand here; write when it ends, for example 2026-11-22T14:00:00Z`,
	} {
		_, problems, _ := parseOverrides(t, "overrides: [{id: a, by: b, reason: c, kind: freeze, until: "+text+"}]", "")
		require.Equal(t, []string{"1:60 overrides[0].until: " + want}, problems)
	}
}

func TestOverridesThatHaveEndedAreWarnedOfAndLeftOut(t *testing.T) {
	text := strings.Replace(one("freeze", "match: {scope: a}"), "T14:00:00Z", "T12:00:00Z", 1)
	all, problems, warnings := parseOverrides(t, text, "")
	require.Empty(t, problems)
	require.Empty(t, all)
	require.Equal(t, []string{`2:43 overrides[0].until: warning: "a" has ended: it does nothing any more; remove it`}, warnings)
}

func TestPatternsThatMatchNothingAreWarnedOf(t *testing.T) {
	main := "scopes: {db/orders: {}, db/users: {}}\njobs: {nightly: {schedule: manual, run: [x], locks: [{scope: db/orders}]}}\n"
	_, _, warnings := parseOverrides(t, one("freeze", "match: {scope: db/order, job: nihgtly}"), main)
	require.Equal(t, []string{
		`2:94 overrides[0].match.scope: warning: "db/order" fits no scope of testdata/f.yaml; did you mean "db/orders"?`,
		`2:109 overrides[0].match.job: warning: "nihgtly" fits no job of testdata/f.yaml; did you mean "nightly"?`,
	}, warnings)
	_, _, warnings = parseOverrides(t, one("freeze", "match: {scope: db/*, job: n?ghtly}"), main)
	require.Empty(t, warnings)
}

func TestMissingFileHasNoOverridesAndAWarning(t *testing.T) {
	name := filepath.Join(t.TempDir(), "o.yaml")
	o, err := LoadOverrides(name, OverridesOptions{})
	require.NoError(t, err)
	require.Empty(t, o.All)
	require.Len(t, o.Warnings, 1)
	require.Equal(t, name+": warning: the file is not there: no override of a file is in force; write it when there is an emergency", o.Warnings[0].String())
}

func TestFileThatCannotBeReadIsAnError(t *testing.T) {
	_, err := LoadOverrides(t.TempDir(), OverridesOptions{})
	require.ErrorContains(t, err, "the file cannot be read: is a directory; name a file that this user can read")
}

func TestOverridesNeedNoMainFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "o.yaml")
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	require.NoError(t, os.WriteFile(name, []byte("overrides: [{id: a, kind: pause, by: b, reason: c, until: "+until+"}]"), 0o600))
	o, err := LoadOverrides(name, OverridesOptions{})
	require.NoError(t, err)
	require.Len(t, o.All, 1)
	require.Equal(t, name, o.File)
}

func TestTooManyOverridesAreRefused(t *testing.T) {
	_, problems, _ := parseOverrides(t, "overrides: ["+strings.Repeat("{}, ", maxOverrides+1)+"]", "")
	require.Equal(t, []string{"1:12 overrides: the list has 1001 overrides, more than 1000; remove those that have ended"}, problems)
}
