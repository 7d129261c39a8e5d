package config

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/temporal"
)

const classes = "priorities: {classes: {critical: 90, batch: 20, lowest: 0}}\n"

func TestEmergencyHasCarefulDefaults(t *testing.T) {
	cfg := mustParse(t, file(""))
	require.Equal(t, Emergency{MaxDuration: 24 * time.Hour}, cfg.Emergency)
	require.Equal(t, Approvals{Policy: emergency.Policy{Deadline: 15 * time.Minute}}, cfg.Approvals)
	require.Equal(t, Audit{Keep: 10_000}, cfg.Audit)
}

func TestEmergencyIsWhatTheFileSays(t *testing.T) {
	cfg := mustParse(t, file("emergency: {file: o.yaml, max_duration: 1h, allow_bypass: true}\naudit: {keep: 100, file: /var/a.jsonl}\n"))
	require.Equal(t, Emergency{File: filepath.Join("testdata", "o.yaml"), MaxDuration: time.Hour, AllowBypass: true}, cfg.Emergency)
	require.Equal(t, Audit{Keep: 100, File: "/var/a.jsonl"}, cfg.Audit)
	now := time.Unix(1, 0)
	require.Equal(t, override.Limits{Now: now, MaxDuration: time.Hour, AllowBypass: true}, cfg.Emergency.Limits(now))
}

func TestRulesOfApprovalsFitWhomTheyName(t *testing.T) {
	cfg := mustParse(t, file(classes+`approvals:
  deadline: 5m
  rules:
    - {when: {victim: batch, requestor: critical}, then: force}
    - {when: {victim: lowest, requestor: 7}, then: ask}
    - {when: {victim: {job: nightly-*, priority_below: critical}, requestor: {priority_above: 50}, scope: db/*}, then: deny}
    - {then: ask}
`))
	require.Equal(t, 5*time.Minute, cfg.Approvals.Deadline)
	rules := cfg.Approvals.Rules
	require.Len(t, rules, 4)
	for i, want := range []string{
		"approvals.rules[0] (victim batch, requestor critical: force)",
		"approvals.rules[1] (victim lowest, requestor 7: ask)",
		"approvals.rules[2] (victim job nightly-* below 90, requestor everything above 50, scope db/*: deny)",
		"approvals.rules[3] (all: ask)",
	} {
		require.Equal(t, want, rules[i].Name)
	}
	require.Equal(t, []emergency.Verdict{emergency.Force, emergency.Ask, emergency.Deny, emergency.Ask},
		[]emergency.Verdict{rules[0].Then, rules[1].Then, rules[2].Then, rules[3].Then})

	levels := func(m override.Match) (fit []priority.Level) {
		for level := range priority.Level(200) {
			if m.Fits(override.Subject{Scope: "db/x", Job: "nightly-1"}, level) {
				fit = append(fit, level)
			}
		}
		return fit
	}
	require.Equal(t, []priority.Level{20}, levels(rules[0].Victim))
	require.Equal(t, []priority.Level{90}, levels(rules[0].Requestor))
	require.Equal(t, []priority.Level{0}, levels(rules[1].Victim))
	require.Equal(t, []priority.Level{7}, levels(rules[1].Requestor))
	require.Len(t, levels(rules[2].Victim), 90)
	require.Len(t, levels(rules[2].Requestor), 149)
	require.Len(t, levels(rules[3].Victim), 200)
	require.False(t, rules[2].Victim.Fits(override.Subject{Scope: "web", Job: "nightly-1"}, 0))
	require.False(t, rules[2].Victim.Fits(override.Subject{Scope: "db/x", Job: "hourly"}, 0))
}

func TestEmergencyProblems(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"overrides in the main file": {"overrides: []\n", `2:1 unknown field "overrides"; write them into a file of their own, and its name in emergency: {file: ...}`},
		"operators":                  {"emergency: {operators: []}\n", `2:13 emergency: unknown field "operators"; write them in zookeeper: {operators: [...]}`},
		"directory":                  {"emergency: {file: .}\n", `2:19 emergency.file: "testdata" is a directory; name a file, or what may become one`},
		"duration":                   {"emergency: {max_duration: 1 day}\n", `2:27 emergency.max_duration: "1 day" is not a duration; write "24h"`},
		"no duration":                {"emergency: {max_duration: 0}\n", `2:27 emergency.max_duration: "0" must be positive; write a duration such as "30s", or leave it out`},
		"bypass":                     {"emergency: {allow_bypass: yes}\n", `2:27 emergency.allow_bypass: "yes" is not true or false; write true`},
		"keep":                       {"audit: {keep: 10}\n", `2:15 audit.keep: 10 is less than 100; write how many records are kept, 100 or more`},
		"deadline":                   {"approvals: {deadline: soon}\n", `2:23 approvals.deadline: "soon" is not a duration; write it like "30s", "5m" or "1h30m"`},
		"class":                      {classes + "approvals: {rules: [{when: {victim: batsh, requestor: {priority_above: crit}}, then: force}]}\n", `3:37 approvals.rules[0].when.victim: unknown priority class "batsh"; did you mean "batch"?` + "\n" + `3:72 approvals.rules[0].when.requestor.priority_above: unknown priority class "crit"; did you mean "critical"?`},
		"decision":                   {"approvals: {rules: [{then: forse}]}\n", `2:28 approvals.rules[0].then: "forse" is not possible here; did you mean "force"?`},
		"no decision":                {"approvals: {rules: [{when: {scope: a}}]}\n", `2:21 approvals.rules[0]: then is missing; write then: force, deny or ask`},
		"no bounds":                  {"approvals: {rules: [{when: {victim: {priority_below: 5, priority_above: 4}}, then: ask}]}\n", `2:37 approvals.rules[0].when.victim: no priority is below 5 and above 4; write bounds with a number between them`},
		"below nothing":              {"approvals: {rules: [{when: {victim: {priority_below: 0}}, then: ask}]}\n", `2:37 approvals.rules[0].when.victim: no priority is below 0; write bounds with a number between them`},
		"party of nothing":           {"approvals: {rules: [{when: {victim: {}}, then: ask}]}\n", `2:37 approvals.rules[0].when.victim: the mapping says nothing; write a class such as batch, a number, or {job: nightly-*, priority_below: 50}`},
		"priority in a party":        {"approvals: {rules: [{when: {victim: {priority: 5}}, then: ask}]}\n", `2:38 approvals.rules[0].when.victim: unknown field "priority"; write the number or the class itself, without a mapping`},
		"victim beside when":         {"approvals: {rules: [{victim: 5, then: ask}]}\n", `2:22 approvals.rules[0]: unknown field "victim"; write it under when`},
		"escalation without whom":    {"approvals: {temporal: {escalation: [{after: 5m}]}}\n", `2:37 approvals.temporal.escalation[0]: to is missing; write it like {after: 5m, to: on-call}`},
		"escalation without when":    {"approvals: {temporal: {escalation: [{to: ana}]}}\n", `2:37 approvals.temporal.escalation[0]: after is missing; write it like {after: 5m, to: on-call}`},
		"trust":                      {"approvals: {temporal: {trust: anyone}}\n", `2:31 approvals.temporal.trust: "anyone" is not possible here; write operators or temporal`},
		"namespace of approvals":     {"approvals: {temporal: {namespace: ops}}\n", `2:24 approvals.temporal: unknown field "namespace"; it belongs to the section temporal of the file`},
		"rules are a mapping":        {"approvals: {rules: {then: ask}}\n", `2:20 approvals.rules: a mapping is not a list; write a list like [{when: {victim: batch, requestor: critical}, then: force}]`},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems, _ := parse(t, file(c.text))
			require.ElementsMatch(t, strings.Split(c.want, "\n"), problems)
		})
	}
}

func TestApprovalsAreAskedForInWorkflows(t *testing.T) {
	cfg := mustParse(t, file("approvals: {temporal: {}}\n"))
	require.Equal(t, &TemporalApprovals{TaskQueue: "lockkeeper-approvals", Trusted: TrustOperators}, cfg.Approvals.Temporal)
	cfg = mustParse(t, file("approvals: {deadline: 1h, temporal: {task_queue: ops, trust: temporal, escalation: [{after: 5m, to: on-call}]}}\n"))
	require.Equal(t, &TemporalApprovals{
		TaskQueue: "ops", Trusted: TrustTemporal, Escalation: []temporal.EscalationStep{{AfterMS: 300_000, To: "on-call"}},
	}, cfg.Approvals.Temporal)
	_, problems, warnings := parse(t, file("approvals: {temporal: {escalation: [{after: 15m, to: ana}]}}\n"))
	require.Empty(t, problems)
	require.Equal(t, []string{"2:45 approvals.temporal.escalation[0].after: warning: this step is never reached: the deadline is over by then, after 15m; write less"}, warnings)
}

func TestRuleBehindOneThatFitsAllIsWarnedOf(t *testing.T) {
	_, problems, warnings := parse(t, file("approvals: {rules: [{then: ask}, {when: {scope: a}, then: deny}]}\n"))
	require.Empty(t, problems)
	require.Equal(t, []string{"2:34 approvals.rules[1]: warning: no request gets here: the rule at 2:21 fits all; put this one before it, or remove it"}, warnings)
}

func TestLabelsOfAJobAreThoseOfItsRequests(t *testing.T) {
	cfg := mustParse(t, job("labels: {team: orders, tier: 2, note: ''}\nlocks: [{scope: s}]"))
	labels := map[string]string{"team": "orders", "tier": "2", "note": ""}
	require.Equal(t, labels, cfg.Jobs[0].Labels)
	for _, r := range cfg.Jobs[0].Owned() {
		require.Equal(t, "a", r.Job)
		require.Equal(t, labels, r.Labels)
	}
}

func TestLabelProblems(t *testing.T) {
	_, problems, _ := parse(t, job("labels: {a b: x, c: \"\\n\", d: [x], e: }"))
	require.Equal(t, []string{
		`4:14 jobs[a].labels[a b]: the name "a b" has ' ' in it; write letters, digits, dots, underscores, hyphens and slashes, a letter or digit first`,
		`4:25 jobs[a].labels[c]: the value "\n" has a control character or invalid UTF-8 in it; write printable characters`,
		`4:34 jobs[a].labels[d]: a list cannot stand here; write a text; "" for an empty one`,
		`4:42 jobs[a].labels[e]: has no value; write a text; "" for an empty one`,
	}, problems)
	_, problems, _ = parse(t, job("locks: [{scope: s, labels: {a: b}}]"))
	require.Equal(t, []string{`4:24 jobs[a].locks[0]: unknown field "labels"; they belong to the job, beside locks`}, problems)
}

func TestChangesOfEmergencyAreToldByTheirNames(t *testing.T) {
	from := mustParse(t, file(""))
	to := mustParse(t, file("emergency: {file: o.yaml, max_duration: 1h, allow_bypass: true}\napprovals: {deadline: 1m, rules: [{then: ask}]}\naudit: {keep: 100, file: a}\n"))
	require.Equal(t, strings.Join([]string{
		`~ emergency.file (nothing → "testdata/o.yaml")`,
		`~ emergency.max_duration (24h → 1h)`,
		`~ emergency.allow_bypass (false → true)`,
		`~ approvals (nothing → given)`,
		`~ approvals.deadline (15m → 1m)`,
		`~ approvals.rules`,
		`~ audit.keep (10000 → 100)`,
		`~ audit.file (nothing → "testdata/a")`,
	}, "\n"), Compare(from, to).String())
}
