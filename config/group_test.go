package config

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/group"
)

// groupOf makes a file of the settings of one group, which stand in line 3 from
// column 32 on.
func groupOf(settings string) string {
	return "version: 1\ngroups:\n  - {name: g, locks: [l1, l2], " + settings + "}\n"
}

func TestGroupsHaveDefaultsAndNeedNoJobs(t *testing.T) {
	cfg := mustParse(t, "version: 1\ngroups: [{name: g, locks: 3}, {name: h, locks: [x]}]\n")

	require.Empty(t, cfg.Jobs)
	require.Equal(t, []group.Spec{
		{Name: "g", Locks: []string{"g_0", "g_1", "g_2"}, Holders: 1, Strategy: "balanced", CleanupTimeout: 10 * time.Second, Debounce: 100 * time.Millisecond},
		{Name: "h", Locks: []string{"x"}, Holders: 1, Strategy: "balanced", CleanupTimeout: 10 * time.Second, Debounce: 100 * time.Millisecond},
	}, cfg.Groups)
}

func TestSettingsOfAGroup(t *testing.T) {
	cfg := mustParse(t, groupOf("holders: 2, strategy: weighted, cleanup_timeout: 1m, debounce: 1s, max_moves: 5, limit: 7, participants: [a, b], weights: {a: 2, b: 0.5}, pins: {l1: a}, zones: {a: x}"))

	require.Equal(t, []group.Spec{{
		Name: "g", Locks: []string{"l1", "l2"}, Holders: 2, Strategy: "weighted", CleanupTimeout: time.Minute, Debounce: time.Second, MaxMoves: 5, Limit: 7,
		Participants: []string{"a", "b"}, Weights: map[string]float64{"a": 2, "b": 0.5}, Pins: map[string]string{"l1": "a"}, Zones: map[string]string{"a": "x"},
	}}, cfg.Groups)
}

func TestAGroupCanHaveAStrategyOfTheProgram(t *testing.T) {
	opts := testOptions()
	opts.Strategies = []string{"nearest"}
	cfg, err := Parse(fileName, []byte(groupOf("strategy: nearest")), opts)
	require.NoError(t, err)
	require.Equal(t, "nearest", cfg.Groups[0].Strategy)
}

func TestEverythingWrongWithAGroupIsSaidAtOnce(t *testing.T) {
	_, problems, _ := parse(t, `version: 1
groups:
  - name: bad name
    locks: 0
    holders: 0
    strategy: ballanced
    cleanup_timeout: 0s
    debounce: 2h
    max_moves: -1
    limit: -1
    partitions: 3
  - name: g
    locks: [l1, l2, l1, ""]
    participants: [a, a]
    weights: {a: -1}
  - name: g
    locks: [lock_1, lock_2]
    holders: 3
    participants: [alpha, beta]
    weights: {gamma: 2, alpha: heavy, beta: "2"}
    pins: {lock_3: alpha, lock_1: gamm, lock_2: alhpa}
    zones: {betta: x, alpha: ""}
  - {}
  - name: h
    locks: twelve
`)
	require.Equal(t, strings.Split(strings.TrimSpace(`
3:11 groups[0].name: "bad name" contains ' '; write only letters, digits, dots, underscores and hyphens
4:12 groups[0].locks: 0 is less than 1; write how many, for example 12, or a list of names
5:14 groups[0].holders: 0 is less than 1; write how many participants hold each lock at the same time, 1 or more
6:15 groups[0].strategy: "ballanced" is not possible here; did you mean "balanced"?
7:22 groups[0].cleanup_timeout: "0s" must be positive; write a duration such as "30s", or leave it out
8:15 groups[0].debounce: 2h is too long; write 1h or less
9:16 groups[0].max_moves: -1 is less than 0; write how many locks may move in one round, or 0 for no limit
10:12 groups[0].limit: -1 is less than 0; write how many locks a participant holds at most, or 0 for no limit
11:5 groups[0]: unknown field "partitions"; did you mean "locks"?
13:21 groups[1].locks[2]: "l1" stands here for the second time, first at 13:13; remove or rename one of them
13:25 groups[1].locks[3]: "" is empty; write the name of a lock
14:23 groups[1].participants[1]: "a" stands here for the second time, first at 14:20; remove or rename one of them
15:18 groups[1].weights[a]: "-1" is out of range; write 0 to 1000000000
16:11 groups[2].name: there is a group "g" already, at 12:11; write another name
18:14 groups[2].holders: 3 is more than the 2 participants that may join; write 2 or less
20:15 groups[2].weights[gamma]: there is no participant "gamma"; add it to participants
20:32 groups[2].weights[alpha]: "heavy" is not a number; write a number such as 2 or 0.5
20:45 groups[2].weights[beta]: "2" is not a number; write a number such as 2 or 0.5
21:12 groups[2].pins[lock_3]: there is no lock "lock_3"; did you mean "lock_1"?
21:35 groups[2].pins[lock_1]: there is no participant "gamm"; add it to participants
21:49 groups[2].pins[lock_2]: there is no participant "alhpa"; did you mean "alpha"?
22:13 groups[2].zones[betta]: there is no participant "betta"; did you mean "beta"?
22:30 groups[2].zones[alpha]: "" is empty; write the name of a zone
23:5 groups[3]: name is missing; write for example name: lock-group
23:5 groups[3]: locks is missing; write how many, for example 12, or a list of names
25:12 groups[4].locks: "twelve" is not a whole number; write how many, for example 12, or a list of names
`), "\n"), problems)
}

func TestGroupsWithoutSense(t *testing.T) {
	for text, want := range map[string]string{
		"groups: []\n":                                                              "2:9 groups: the list is empty; remove it, or write a list like [{name: lock-group, locks: 12}]",
		"groups: {lock-group: {locks: 12}}\n":                                       "2:9 groups: a mapping is not a list; write a list like [{name: lock-group, locks: 12}]",
		"groups:\n":                                                                 "2:8 groups: has no value; write a list like [{name: lock-group, locks: 12}]",
		"groups: [{name: g, locks: []}]\n":                                          "2:27 groups[0].locks: the list is empty; write how many, for example 12, or a list of names",
		"groups: [{name: g, locks: 999999}]\n":                                      "2:27 groups[0].locks: 999999 is more than 100000; write how many, for example 12, or a list of names",
		"groups: [{name: g, locks: [\"a\\tb\"]}]\n":                                 "2:28 groups[0].locks[0]: lock \"a\\tb\" contains a control character or invalid UTF-8; write printable characters",
		"groups: [{name: g, locks: 100000}]\n":                                      "2:10 groups[0]: 100000 locks with 1 holders each could need 5554426 bytes in one node of ZooKeeper, which takes 1000000; split the group, or shorten the names",
		"groups: [{name: g, locks: 2, participants: []}]\n":                         "2:44 groups[0].participants: the list is empty; write a list such as [host1, host2], or leave it out to let any participant join",
		"groups: [{name: g, locks: 2, participants: [a], pins: {g_0: b}}]\n":        "2:61 groups[0].pins[g_0]: there is no participant \"b\"; did you mean \"a\"?",
		"groups: [{name: g, locks: 2, weights: {\" a\": 1}, strategy: weighted}]\n": "2:40 groups[0].weights[ a]: participant \" a\" has white space at its ends",
		"groups: [{name: g, locks: 2, participants: [/a]}]\n":                       "2:45 groups[0].participants[0]: participant \"/a\" begins with a slash; write \"a\"",
		// One mistake is reported once, without its consequences.
		"groups: [{name: g, locks: twelve, pins: {g_0: a}}]\n":                  `2:27 groups[0].locks: "twelve" is not a whole number; write how many, for example 12, or a list of names`,
		"groups: [{name: g, locks: 1, participants: [a, a], pins: {g_0: b}}]\n": `2:48 groups[0].participants[1]: "a" stands here for the second time, first at 2:45; remove or rename one of them`,
	} {
		_, problems, _ := parse(t, "version: 1\n"+text)
		require.Equal(t, []string{want}, problems, text)
	}
}

func TestWhatAStrategyDoesNotLookAtIsAWarning(t *testing.T) {
	for settings, want := range map[string][]string{
		"weights: {a: 2}":                   {"3:41 groups[0].weights: warning: the strategy balanced does not look at weights; remove them, or write strategy: weighted"},
		"strategy: sticky, weights: {a: 2}": {"3:59 groups[0].weights: warning: the strategy sticky does not look at weights; remove them, or write strategy: weighted"},
		"strategy: mod, weights: {a: 2}, pins: {l1: a}, zones: {a: x}": {
			"3:56 groups[0].weights: warning: the strategy mod does not look at weights; remove them, or write strategy: weighted",
			"3:70 groups[0].pins: warning: the strategy mod does not look at pins; remove them, or write strategy: balanced",
			"3:86 groups[0].zones: warning: the strategy mod does not look at zones; remove them, or write strategy: balanced",
		},
		"zones: {a: x}": {"3:39 groups[0].zones: warning: with one holder a lock there is nothing to spread over zones; remove them, or write holders: 2 or more"},
		"strategy: rendezvous, weights: {a: 2}, pins: {l1: a}":                          nil,
		"strategy: weighted, weights: {a: 2}, pins: {l1: a}, holders: 2, zones: {a: x}": nil,
	} {
		_, problems, warnings := parse(t, groupOf(settings))
		require.Empty(t, problems)
		require.Equal(t, want, warnings, settings)
	}
}

func TestAFileWithGroupsThatIsTornDoesNotSpeakOfWhatSeemsToBeMissing(t *testing.T) {
	_, problems, _ := parse(t, "version: 1\ngroups:\n  - name: g\n    locks: [a, b\n  - name: h\n    locks: 2\n")
	require.NotEmpty(t, problems)
	for _, problem := range problems {
		require.NotContains(t, problem, "missing")
	}
}
