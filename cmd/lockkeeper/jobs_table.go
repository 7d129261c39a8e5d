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

// writeJobs writes one line for each job, and below the table why some are
// paused.
func writeJobs(w io.Writer, listed []views.Job, now time.Time, wide bool) {
	head := []any{
		"JOB", "STATE", "NEXT (UTC)", "IN", "LAST", "ENDED (UTC)", "AGO", "WHERE", "FAILURES", "SCHEDULE", "LOCKS",
	}
	if wide {
		head = append(head, "RUNNING ON", "RAN", "FAILED", "PREEMPTED", "LOST", "INTERRUPTED", "SKIPPED")
	}
	row(w, head...)
	for _, v := range listed {
		cells := []any{v.Name, jobState(v, now)}
		cells = append(cells, nextCells(v, now)...)
		cells = append(cells, lastCells(v, now)...)
		cells = append(cells, orNone(v.Failures), scheduleOf(v), orDash(v.Locks))
		if wide {
			c := v.Counts
			cells = append(cells, orDash(runners(v.Runs)), c.Ran, c.Failed, c.Preempted, c.Lost, c.Interrupted, c.AllSkipped())
		}
		row(w, cells...)
	}
	lead := "\n"
	for _, v := range listed {
		if v.Paused != nil {
			line(w, "%s%s is paused %s", lead, v.Name, pauseWords(*v.Paused, now))
			lead = ""
		}
		for _, text := range runWords(v.Runs, now) {
			line(w, "%s%s is %s", lead, v.Name, text)
			lead = ""
		}
		if len(v.Definitions) > 0 {
			line(w, "%s%s has %d definitions, and each tick runs one of them: %s; give each team a root or a name prefix",
				lead, v.Name, len(v.Definitions), strings.Join(definers(v.Definitions, now), ", "))
			lead = ""
		}
	}
}

// definers says who has which definition.
func definers(all []views.Definition, now time.Time) []string {
	words := make([]string, len(all))
	for i, d := range all {
		words[i] = fmt.Sprintf("%s of %s pid %d (%s ago)", d.Fingerprint, d.Host, d.PID, human(now.Sub(d.Seen)))
	}
	return words
}

// runWords says of each run that does not work what it does, since when, and
// for whom it waits.
func runWords(runs []views.Run, now time.Time) (words []string) {
	for _, r := range runs {
		if r.Request != nil {
			words = append(words, fmt.Sprintf("%s %s %s", r.State, human(now.Sub(r.Since())), r.Request.Words(now)))
		}
	}
	return words
}

// sinceOf is since when a job is in its state, of its runs that live.
func sinceOf(v views.Job) (since time.Time, runs int) {
	for _, r := range v.Runs {
		if !r.Alive {
			continue
		}
		runs++
		if (r.State == "" || r.State == v.State) && (since.IsZero() || r.Since().Before(since)) {
			since = r.Since()
		}
	}
	return since, runs
}

// writeClocks says below the table which jobs stand still because a clock was ahead,
// and whose clocks are wrong.
func writeClocks(w io.Writer, listed []views.Job, here time.Duration, now time.Time) {
	lead := "\n"
	say := func(format string, args ...any) {
		line(w, lead+format, args...)
		lead = ""
	}
	for _, v := range listed {
		if v.DecidedUntil != nil {
			say("%s", stoppedWords(v, now))
		} else if len(v.LeftOut) > 0 {
			say("%s", leftOutWords(v, now))
		}
	}
	for _, host := range clocksOff(listed) {
		say("%s", host)
	}
	if here != 0 {
		say("%s", clockWords("this machine's clock is", here))
	}
}

// stoppedWords says why no tick of a job runs, and what to do.
func stoppedWords(v views.Job, now time.Time) string {
	return fmt.Sprintf("%s is stopped until %s, %s more: a daemon whose clock was ahead has decided its ticks up to "+
		"then; set that clock right, then: lockkeeper jobs rewind %s --reason R",
		v.Name, clock(*v.DecidedUntil), human(v.DecidedUntil.Sub(now)), live.ShellWord(v.Name))
}

// leftOutWords says which ticks of a job are skipped when they come, and what to do if
// these are too many.
func leftOutWords(v views.Job, now time.Time) string {
	first, last := v.LeftOut[0].After, v.LeftOut[len(v.LeftOut)-1].Until
	return fmt.Sprintf("%s skips ticks from %s up to %s, %s more: a clock that was ahead has run them, or may have; "+
		"if it went wrong later than that: lockkeeper jobs rewind %s --since TIME --reason R",
		v.Name, clock(first), clock(last), human(last.Sub(now)), live.ShellWord(v.Name))
}

// clocksOff says which daemons had wrong clocks when they ran something last.
func clocksOff(listed []views.Job) (all []string) {
	type sight struct {
		at time.Time
		by time.Duration
	}
	seen := map[string]sight{}
	see := func(host string, pid int, at time.Time, ms int64) {
		who := fmt.Sprintf("%s, pid %d", host, pid)
		if host != "" && at.After(seen[who].at) {
			seen[who] = sight{at, time.Duration(ms) * time.Millisecond}
		}
	}
	for _, v := range listed {
		if t := v.Last; t != nil && t.StartedAt != nil {
			see(t.Host, t.PID, *t.StartedAt, t.ClockAhead)
		}
		for _, r := range v.Runs {
			see(r.Host, r.PID, r.StartedAt, r.ClockAhead)
		}
	}
	for _, who := range slices.Sorted(maps.Keys(seen)) {
		by, way := seen[who].by, "ahead of"
		if by < 0 {
			by, way = -by, "behind"
		}
		if by != 0 {
			all = append(all, fmt.Sprintf("the clock of the daemon on %s was %s %s ZooKeeper's at %s; set it right",
				who, human(by), way, clock(seen[who].at)))
		}
	}
	return all
}

func jobState(v views.Job, now time.Time) string {
	state := v.State
	since, runs := sinceOf(v)
	switch {
	case state == "idle" && v.By == "temporal":
		state = v.By
	case runs > 0:
		state += " " + human(now.Sub(since))
		if n := len(v.Runs); n > 1 {
			state += fmt.Sprintf(" (%d)", n)
		}
		if n := len(v.Waiting); n > 0 {
			state += fmt.Sprintf(", %d waiting", n)
		}
		if v.Paused != nil {
			state += ", paused"
		}
	case state == "waiting" && len(v.Waiting) > 1:
		state += fmt.Sprintf(" (%d)", len(v.Waiting))
	}
	return state
}

func nextCells(v views.Job, now time.Time) []any {
	if v.Next == nil {
		return []any{"-", "-"}
	}
	return []any{short(*v.Next, now), human(v.Next.Sub(now))}
}

// lastCells are the outcome, when and how long ago it was, and where. A run
// whose process has died has no end yet: a daemon notices at the next tick.
func lastCells(v views.Job, now time.Time) []any {
	for _, r := range v.Runs {
		if !r.Alive {
			return []any{"interrupted", "-", "-", r.Host}
		}
	}
	if v.Last == nil {
		return []any{"-", "-", "-", "-"}
	}
	ended := v.Last.EndedAt
	return []any{v.Last.Outcome, short(ended, now), human(now.Sub(ended)), cmp.Or(v.Last.Host, "-")}
}

func scheduleOf(v views.Job) string {
	if v.Schedule == nil {
		return "-"
	}
	if v.Timezone == nil {
		return *v.Schedule
	}
	return *v.Schedule + " " + *v.Timezone
}

func runners(runs []views.Run) []string {
	names := make([]string, len(runs))
	for i, r := range runs {
		names[i] = fmt.Sprintf("%s pid %d", r.Host, r.PID)
	}
	return names
}

func orNone[N int | int64](n N) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// pauseWords says how long, by whom and why.
func pauseWords(v views.Pause, now time.Time) string {
	until := "until somebody resumes it"
	if v.Until != nil {
		until = fmt.Sprintf("until %s, %s more", clock(*v.Until), human(v.Until.Sub(now)))
	}
	text := fmt.Sprintf("%s; by %s %s", until, cmp.Or(v.By, "unknown"), relative(v.Since, now))
	if v.Reason != "" {
		text += ": " + v.Reason
	}
	return text
}

func plural(n int, what string) string {
	if n == 1 {
		return what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
