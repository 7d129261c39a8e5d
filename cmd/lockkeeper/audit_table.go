package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// auditViews are records as they are stored: with all that they say.
func auditViews(records []opstore.AuditRecord) []json.RawMessage {
	views := make([]json.RawMessage, 0, len(records))
	for _, r := range records {
		views = append(views, r.Line())
	}
	return views
}

// writeAudit writes one line for each record, the oldest first.
func writeAudit(pg page, records []opstore.AuditRecord, now time.Time) {
	g := auditGrid(pg, true)
	for _, r := range records {
		auditRow(g, r, now)
	}
	g.draw()
}

func auditGrid(pg page, head bool) *grid {
	if !pg.wide {
		g := pg.grid(1, 2)
		g.last = pg.width / 2
		if head {
			g.row("WHEN (UTC)", "WHO", "SCOPE/JOB", "WHAT")
		}
		return g
	}
	g := pg.grid(2, 3, 4)
	if head {
		g.row("SEQ", "WHEN (UTC)", "WHO", "AS", "SCOPE/JOB", "FROM", "ACT", "WHAT")
	}
	return g
}

func auditRow(g *grid, r opstore.AuditRecord, now time.Time) {
	when, scope, what := short(r.At, now), cmp.Or(r.Scope, r.Job, "-"), auditWhat(r)
	if !g.pg.wide {
		g.row(when, r.By, scope, what)
		return
	}
	g.row(r.Seq, when, r.By, cmp.Or(r.Identity, "-"), scope, fmt.Sprintf("%s pid %d", r.Host, r.PID),
		shortAct(r.Act), what)
}

// shortAct is enough of a name to tell acts from each other.
func shortAct(act string) string {
	const enough = 26
	return act[:min(len(act), enough)]
}

// auditWhat says in one sentence what was done to whom, why, and how it ended.
func auditWhat(r opstore.AuditRecord) string {
	text := auditDeed(r)
	if r.Override != "" && !strings.HasPrefix(string(r.Action), "override.") {
		text += fmt.Sprintf(", for override %s", r.Override)
	}
	if r.Approval != "" && !strings.HasPrefix(string(r.Action), "approval.") {
		text += fmt.Sprintf(", approved (%s)", r.Approval)
	}
	if why := auditWhy(r); why != "" {
		text += ": " + why
	}
	if change := auditChange(r); change != "" {
		text += "; " + change
	}
	if r.Result == opstore.AuditFailed && strings.HasPrefix(r.Error, "not needed: ") {
		text += "; " + r.Error
	} else if r.Result == opstore.AuditFailed {
		text += "; failed: " + cmp.Or(r.Error, "nothing has changed")
	} else if r.Error != "" {
		text += "; " + r.Error
	}
	return text
}

// auditDeed is the verb and its object.
func auditDeed(r opstore.AuditRecord) string {
	whom := cmp.Or(auditParties(r.Victims), "no holder")
	intent, failed := r.Phase == opstore.AuditIntent, r.Result == opstore.AuditFailed
	switch r.Action {
	case opstore.AuditPreempt:
		return tense(intent, false, "ask", "asked") + " " + whom + " to go"
	case opstore.AuditPreempted:
		return whom + " was preempted"
	case opstore.AuditTakeover:
		return tense(intent, failed, "take", "took") + " the lock from " + whom
	case opstore.AuditLost:
		return fmt.Sprintf("%s lost the lock (%s)", whom, cmp.Or(r.After["lost"], "taken"))
	case opstore.AuditBreak:
		return tense(intent, failed, "break", "broke") + " the lock of " + whom
	case opstore.AuditOverrideApply:
		return tense(intent, failed, "apply", "applied") + " override " + r.Override
	case opstore.AuditOverrideClear:
		return tense(intent, failed, "clear", "cleared") + " override " + r.Override
	case opstore.AuditOverrideExpire:
		return "override " + r.Override + " has ended"
	case opstore.AuditOverrideAct:
		return auditOverrideAct(r)
	case opstore.AuditApprovalOpen:
		return fmt.Sprintf("asked for approval %s to take the lock from %s", r.Approval, whom)
	case opstore.AuditApprovalEscalate:
		return fmt.Sprintf("waits for approval %s to take the lock from %s; %s is notified",
			r.Approval, whom, cmp.Or(r.After["escalated_to"], "somebody"))
	case opstore.AuditApprovalDecide:
		return tense(intent, failed, "decide", "decided") + " about approval " + r.Approval
	case opstore.AuditJobPause:
		return tense(intent, failed, "pause", "paused") + " the job"
	case opstore.AuditJobResume:
		return tense(intent, failed, "resume", "resumed") + " the job"
	case opstore.AuditJobRewind:
		return tense(intent, failed, "set back", "set back") + " the ticks of the job"
	case opstore.AuditJobRun:
		return tense(intent, failed, "start", "started") + " the job by hand" // its history says how it ended
	}
	return fmt.Sprintf("%s (%s)", r.Action, r.Phase)
}

// auditOverrideAct is what an override does by itself.
func auditOverrideAct(r opstore.AuditRecord) string {
	on := "override " + r.Override
	if r.Phase == opstore.AuditIntent {
		on += " is about to act"
	} else {
		on += " has acted"
	}
	if r.Requestor != nil && r.Requestor.Owner != r.By {
		on += " on " + r.Requestor.Owner
	}
	if len(r.Victims) > 0 {
		on += ", against " + auditParties(r.Victims)
	}
	return on
}

// tense is a verb, before or after it is done.
func tense(intent, failed bool, verb, done string) string {
	switch {
	case intent:
		return "is about to " + verb
	case failed:
		return "did not " + verb
	}
	return done
}

func auditParties(all []opstore.AuditParty) string {
	names := make([]string, len(all))
	for i, v := range all {
		names[i] = fmt.Sprintf("%s (%s", v.Owner, auditLevel(v.Priority))
		if v.Token != 0 {
			names[i] += ", token " + v.Token.String()
		}
		names[i] += ")"
	}
	return strings.Join(names, " and ")
}

func auditLevel(level priority.Level) string {
	if level == priority.Emergency {
		return "emergency"
	}
	return fmt.Sprintf("priority %d", level)
}

// auditWhy is the reason, in words if it is one of the rulebook's.
func auditWhy(r opstore.AuditRecord) string {
	switch r.Reason {
	case "outranked":
		if r.Requestor != nil {
			return fmt.Sprintf("%s outranks it (%s)", r.Requestor.Owner, auditLevel(r.Requestor.Priority))
		}
		return "it is outranked"
	case "lease":
		return "its lease is over"
	}
	return r.Reason
}

// auditChange is what was before and is after, for what has changed so.
func auditChange(r opstore.AuditRecord) string {
	var parts []string
	for _, name := range sortedNames(r.Before, r.After) {
		was, had := r.Before[name]
		is, has := r.After[name]
		if r.Action == opstore.AuditLost && name == "lost" {
			continue // said already
		}
		if words, ok := auditFlags[flagOf{name, is}]; ok && is != was {
			parts = append(parts, words)
			continue
		}
		was, is = auditValue(name, was), auditValue(name, is)
		switch {
		case name == "grace" && is == "0s":
			parts = append(parts, "no time to clean up")
		case name == "grace" && has:
			parts = append(parts, is+" to clean up")
		case had && has:
			parts = append(parts, fmt.Sprintf("%s %s instead of %s", name, is, was))
		case has:
			parts = append(parts, name+" "+is)
		case had:
			parts = append(parts, name+" was "+was)
		}
	}
	return strings.Join(parts, ", ")
}

type flagOf struct{ name, is string }

// auditFlags is what a flag means that has become true or false.
var auditFlags = map[flagOf]string{
	{"bypass", "true"}:    "without the lock",
	{"bypass", "false"}:   "with the lock again",
	{"forceful", "true"}:  "by force",
	{"forceful", "false"}: "not by force",
	{"frozen", "true"}:    "out of the queue",
	{"frozen", "false"}:   "back in the queue",
}

// auditValue is a stored value as people read it.
func auditValue(name, value string) string {
	if n, err := strconv.ParseInt(value, 10, 64); err == nil && name == "priority" &&
		priority.Level(n) == priority.Emergency {
		return "emergency"
	}
	if d, err := time.ParseDuration(value); err == nil && value != "0" {
		return human(d)
	}
	return value
}
