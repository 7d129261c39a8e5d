package config

import (
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// Approvals says what becomes of polite requests whose holders do not finish
// their cleanup in time.
type Approvals struct {
	// Asked is true when the file has the section: approvals are needed. Without it
	// such a request fails.
	Asked bool

	// Policy says how long a question stays open, by default
	// emergency.DefaultDeadline, and what is decided without asking. The Name of a
	// rule says its path and what it says, for example "approvals.rules[0] (victim
	// batch, requestor critical: force)".
	emergency.Policy

	// Temporal has people asked in workflows. nil: on the board in ZooKeeper.
	Temporal *TemporalApprovals
}

// TemporalApprovals says how people are asked in workflows.
type TemporalApprovals struct {
	// Escalation says who is notified when no one has answered.
	Escalation []temporal.EscalationStep

	// TaskQueue is where daemons work on these workflows. Defaults to
	// temporal.DefaultApprovalQueue.
	TaskQueue string

	// Trusted is who may approve. Defaults to TrustOperators.
	Trusted Trust
}

// A Trust says whose approvals are believed that come by a Temporal server.
type Trust string

// Whose.
const (
	TrustOperators Trust = "operators" // those that an operator has put on record in ZooKeeper
	TrustTemporal  Trust = "temporal"  // those of every user whom the Temporal server lets update the workflow
)

var approvalsShape = shape{
	name:    "approvals",
	example: "write it like {deadline: 15m, rules: [{when: {victim: batch}, then: force}]}",
	keys: []key{
		to("deadline", positive, emergency.DefaultDeadline, "How long people have to decide; then the request fails.",
			func(a *Approvals) *time.Duration { return &a.Deadline }),
		to("rules", of[[]emergency.Rule]{kind: listOf(like(&ruleShape)), read: (*reader).rules}, "",
			"What is decided without asking a person: the first rule that fits.",
			func(a *Approvals) *[]emergency.Rule { return &a.Rules }),
		compared(by("temporal", like(&approvalsTemporalShape), "", "Asks people in workflows of the Temporal server, "+
			"{} with all defaults; without it, on a board in ZooKeeper.", (*reader).approvalsTemporal),
			func(a *Approvals) *TemporalApprovals { return a.Temporal }, nil),
	},
	hints: map[string]string{"timeout": `did you mean "deadline"?`},
}

var approvalsTemporalShape = shape{
	name:    "approvals.temporal",
	example: "write it like {task_queue: lockkeeper-approvals, escalation: [{after: 5m, to: on-call}]}",
	keys: []key{
		to("task_queue", text("write a name such as orders-approvals"), filled(temporal.DefaultApprovalQueue),
			"Where daemons work on the workflows; one of its own for each cluster.",
			func(t *TemporalApprovals) *string { return &t.TaskQueue }),
		to("trust", choice[Trust](TrustOperators, TrustTemporal), TrustOperators,
			"Whose approvals are believed: those that an operator has put on record in ZooKeeper, "+
				"as lockkeeper approvals does, or those of every user whom the Temporal server lets update the workflow.",
			func(t *TemporalApprovals) *Trust { return &t.Trusted }),
		to("escalation", of[[]temporal.EscalationStep]{kind: listOf(like(&escalationShape)), read: (*reader).escalation}, "",
			"Steps to take while there is no decision.",
			func(t *TemporalApprovals) *[]temporal.EscalationStep { return &t.Escalation }),
	},
	hints: map[string]string{
		"queue": `did you mean "task_queue"?`, "address": "it belongs to the section temporal of the file",
		"namespace": "it belongs to the section temporal of the file", "deadline": "write it under approvals",
	},
}

var escalationShape = shape{
	name:    "an escalation",
	example: "write it like {after: 5m, to: on-call}",
	keys: []key{
		needed(by("after", aDuration, "", "How long there has been no answer by then.", (*reader).escalateAfter)),
		needed(to("to", text("write a name"), "",
			"The addressee: the name is in the log, in the audit trail and with the approval.",
			func(e *temporal.EscalationStep) *string { return &e.To })),
	},
	hints: map[string]string{
		"at": `did you mean "after"?`, "in": `did you mean "after"?`, "notify": `did you mean "to"?`,
	},
}

var ruleShape = shape{
	name:    "a rule",
	example: "write it like {when: {victim: batch, requestor: critical}, then: force}",
	keys: []key{
		apart("when", like(&whenShape), "", "Which requests it fits; without it, all."),
		needed(to("then", choice[emergency.Verdict](emergency.Force, emergency.Deny, emergency.Ask), "",
			"force takes the lock, deny lets the request fail, ask leaves it to people.",
			func(r *emergency.Rule) *emergency.Verdict { return &r.Then }), "write then: force, deny or ask"),
	},
	hints: map[string]string{
		"if": `did you mean "when"?`, "victim": "write it under when", "requestor": "write it under when",
		"scope": "write it under when",
	},
}

var partyKind = oneOf(levelKind, kind{what: "class", scalar: ofName}, like(&partyShape))

var whenShape = shape{
	name:    "when",
	example: "write it like {victim: batch, requestor: critical, scope: cluster/*}",
	keys: []key{
		apart("victim", partyKind, "", "Every holder in the way: exactly this priority, or the conditions of a party."),
		apart("requestor", partyKind, "", "The request: exactly this priority, or the conditions of a party."),
		apart("scope", aText, "", "A pattern; * stands for any text, slashes included, ? for one character."),
	},
	hints: map[string]string{
		"holder": `did you mean "victim"?`, "by": `did you mean "requestor"?`, "requester": `did you mean "requestor"?`,
	},
}

// aBound is a priority that something has to be above or below.
var aBound = of[*priority.Level]{
	kind: oneOf(levelKind, kind{what: "class", scalar: ofName}), read: func(r *reader, v value) (*priority.Level, bool) {
		return bound(v, r.priority)
	},
}

var partyShape = shape{
	name:    "a party",
	example: "write a class such as batch, a number, or {job: nightly-*, priority_below: 50}",
	keys: []key{
		to("job", text("write a pattern such as nightly-*"), "",
			"A pattern for the name of the job, or of another owner.", func(m *override.Match) *string { return &m.Job }),
		to("priority_below", aBound, "", "Its priority is lower than this one.",
			func(m *override.Match) **priority.Level { return &m.PriorityBelow }),
		to("priority_above", aBound, "", "Its priority is higher than this one.",
			func(m *override.Match) **priority.Level { return &m.PriorityAbove }),
	},
	hints: map[string]string{
		"priority": "write the number or the class itself, without a mapping", "owner": `did you mean "job"?`,
		"name": `did you mean "job"?`,
	},
}

func (r *reader) rules(v value) (rules []emergency.Rule, ok bool) {
	items, ok := r.items(v, "write a list like [{when: {victim: batch, requestor: critical}, then: force}]")
	var last value // a rule that leaves nothing to those behind it
	for _, item := range items {
		if last.exists() {
			r.warn(item, fmt.Sprintf("no request gets here: the rule at %d:%d fits all", last.line, last.column),
				"put this one before it, or remove it")
		}
		rule, all := r.rule(item)
		if all && !last.exists() {
			last = item
		}
		rules = append(rules, rule)
	}
	return rules, ok
}

// approvalsTemporal reads how people are asked in workflows.
func (r *reader) approvalsTemporal(v value, a *Approvals) {
	t := &TemporalApprovals{}
	if _, ok := r.section(v, &approvalsTemporalShape, t); !ok {
		return
	}
	a.Temporal = t
}

func (r *reader) escalation(v value) (steps []temporal.EscalationStep, ok bool) {
	items, ok := r.items(v, "write a list like [{after: 5m, to: on-call}]")
	for _, item := range items {
		var s temporal.EscalationStep
		if _, ok := r.section(item, &escalationShape, &s); ok {
			steps = append(steps, s)
		}
	}
	return steps, ok
}

func (r *reader) escalateAfter(v value, s *temporal.EscalationStep) {
	after, ok := r.positive(v)
	s.AfterMS = after.Milliseconds()
	if deadline := r.cfg.Approvals.Deadline; ok && after >= deadline {
		r.warn(v,
			fmt.Sprintf("this step is never reached: the deadline is over by then, after %s", words.Duration(deadline)),
			"write less")
	}
}

// rule reads a rule. It reports whether it fits every request.
func (r *reader) rule(v value) (rule emergency.Rule, all bool) {
	o, ok := r.section(v, &ruleShape, &rule)
	if !ok {
		return rule, false
	}
	text := ""
	if when, ok := r.optional(o.get("when"), &whenShape); ok {
		rule.Victim, text = r.party(when, "victim", text)
		rule.Requestor, text = r.party(when, "requestor", text)
		if v := when.get("scope"); v.exists() {
			pattern, _ := r.text(v, whenShape.example)
			rule.Victim.Scope, rule.Requestor.Scope = pattern, pattern
			text += "scope " + pattern + ", "
		}
	}
	all = text == ""
	if all {
		text = "all, "
	}
	rule.Name = fmt.Sprintf("%s (%s: %s)", v.path, text[:len(text)-len(", ")], rule.Then)
	return rule, all && o.exists()
}

// party reads whom one side of a rule fits, and adds it to the text.
func (r *reader) party(when object, side, text string) (override.Match, string) {
	var m override.Match
	v := when.get(side)
	if !when.has(side) {
		return m, text
	}
	if r.isMapping(v) {
		before := r.problems()
		o, ok := r.section(v, &partyShape, &m)
		if !ok {
			return m, text
		}
		if below, above := m.PriorityBelow, m.PriorityAbove; below != nil &&
			(*below == 0 || above != nil && *above+1 >= *below) {
			r.problem(v, "no priority is "+boundsText(m), "write bounds with a number between them")
		}
		if len(o.entries) == 0 && r.problems() == before {
			r.missing(v, "the mapping says nothing", partyShape.example)
		}
		return m, text + side + " " + m.String() + ", "
	}
	rank, ok := r.priority(v)
	if !ok {
		return m, text
	}
	m.PriorityBelow = new(rank.level + 1)
	if rank.level > priority.Default {
		m.PriorityAbove = new(rank.level - 1)
	}
	return m, text + side + " " + v.node.Value + ", "
}

func boundsText(m override.Match) string {
	text := fmt.Sprintf("below %d", *m.PriorityBelow)
	if m.PriorityAbove != nil {
		text += fmt.Sprintf(" and above %d", *m.PriorityAbove)
	}
	return text
}

// bound reads a priority; nil if it is none.
func bound(v value, read func(value) (rank, bool)) (*priority.Level, bool) {
	rank, ok := read(v)
	if !ok {
		return nil, false
	}
	return &rank.level, true
}
