package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/views"
)

// writeHistory writes one line for each tick, the oldest first, then what goes
// on now, then the totals.
func writeHistory(w io.Writer, v views.History, now time.Time, wide bool) {
	head := []any{"SCHEDULED (UTC)", "STARTED", "WAITED", "TOOK", "OUTCOME", "WHERE", "TOKEN", "ATTEMPTS", "REASON"}
	if wide {
		head = append(head, "PREEMPTED", "PID", "RUN", "TRACE")
	}
	row(w, head...)
	for _, t := range v.History {
		started, waited, took := "-", "-", "-"
		if t.StartedAt != nil && t.Outcome != "skipped" {
			started, waited, took = short(*t.StartedAt, now), orNoTime(t.Waited), orNoTime(t.Took)
		}
		cells := []any{
			scheduledCell(t, now), started, waited, took, outcomeCell(t), cmp.Or(t.Host, "-"), orNoToken(t), orNone(t.Attempts),
			reasonCell(t),
		}
		if wide {
			cells = append(cells, orNone(t.Preemptions), orNone(t.PID), cmp.Or(t.ID, "-"), cmp.Or(t.Trace, "-"))
		}
		row(w, cells...)
	}
	for _, r := range v.Runs {
		outcome, waited, took := cmp.Or(r.State, live.Running), "-", human(now.Sub(r.StartedAt))
		switch {
		case !r.Alive:
			outcome, took = "interrupted", "-"
		case r.State == live.Waiting || r.State == live.Delayed || r.State == live.Frozen:
			waited, took = human(now.Sub(r.Since())), "-"
		}
		why := requestWords(r.RequestedBy, r.RequestedReason)
		if r.Request != nil {
			why = append([]string{r.Request.Words(now)}, why...)
		}
		scheduled := "by hand"
		if r.Scheduled != nil {
			scheduled = short(*r.Scheduled, now)
		}
		cells := []any{
			scheduled, short(r.StartedAt, now), waited, took, outcome, r.Host, "-", "-", cmp.Or(strings.Join(why, "; "), "-"),
		}
		if wide {
			cells = append(cells, "-", r.PID, r.ID, "-")
		}
		row(w, cells...)
	}
	for _, t := range v.Waiting {
		row(w, short(t, now), "-", "-", "-", "waiting", "-", "-", "-", "for the end of the run before it")
	}
	line(w, "")
	if v.Paused != nil {
		line(w, "paused %s", pauseWords(*v.Paused, now))
	}
	line(w, "%s", totals(v.Counts, v.Failures))
}

func scheduledCell(t views.Tick, now time.Time) string {
	switch {
	case t.Scheduled == nil && t.First == nil:
		return "by hand"
	case t.First != nil && t.Scheduled != nil && !t.First.Equal(*t.Scheduled):
		return short(*t.First, now) + " to " + short(*t.Scheduled, now)
	case t.Scheduled == nil:
		return short(*t.First, now)
	}
	return short(*t.Scheduled, now)
}

func outcomeCell(t views.Tick) string {
	if t.Count > 1 {
		return fmt.Sprintf("%s %d", t.Outcome, t.Count)
	}
	return t.Outcome
}

func orNoTime(milliseconds int64) string {
	return human(time.Duration(milliseconds) * time.Millisecond)
}

func orNoToken(t views.Tick) string {
	if t.Token == 0 {
		return "-"
	}
	return t.Token.String()
}

// reasonCell is the first line of why it ended so, or who wanted it.
func reasonCell(t views.Tick) string {
	var why []string
	if t.Reason != "" {
		reason := firstLine(t.Reason)
		if t.Detail != "" {
			reason += ": " + firstLine(t.Detail)
		}
		why = append(why, reason)
	}
	why = append(why, requestWords(t.RequestedBy, t.RequestedReason)...)
	return cmp.Or(strings.Join(why, "; "), "-")
}

func requestWords(by, reason string) []string {
	switch {
	case by == "" && reason == "":
		return nil
	case reason == "":
		return []string{"asked for by " + by}
	}
	return []string{fmt.Sprintf("%s: %s", cmp.Or(by, "asked for"), reason)}
}

// totals says how often a job has ended in which way.
func totals(c views.TickCounts, failures int) string {
	var parts []string
	for _, part := range []struct {
		n    int64
		what string
	}{
		{c.Ran, "ran"},
		{c.Failed, "failed"},
		{c.Preempted, "preempted"},
		{c.Lost, "lost"},
		{c.Interrupted, "interrupted"},
		{c.AllSkipped(), "skipped"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	if len(parts) == 0 {
		return "no tick has ended yet"
	}
	text := "since its first tick: " + strings.Join(parts, ", ")
	if len(c.Skipped) > 0 {
		reasons := slices.SortedFunc(maps.Keys(c.Skipped), func(a, b string) int {
			return cmp.Or(cmp.Compare(c.Skipped[b], c.Skipped[a]), strings.Compare(a, b))
		})
		for i, reason := range reasons {
			reasons[i] = fmt.Sprintf("%s %d", reason, c.Skipped[reason])
		}
		text += " (" + strings.Join(reasons, ", ") + ")"
	}
	if failures > 0 {
		text += fmt.Sprintf("; the last %s failed", plural(failures, "run"))
	}
	return text
}
