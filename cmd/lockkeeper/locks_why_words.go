package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes/inspect"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// The margin of the answers: what a paragraph is about stands in front.
const whyMargin = "          "

// manyWaiters is how many waiters are shown in full: more would hide what stands
// above them.
const manyWaiters = 20

// lead returns a word that a paragraph begins with.
func lead(word string) string { return fmt.Sprintf("%-*s ", len(whyMargin)-1, word) }

// writeWhy says it in words.
func writeWhy(pg page, f *whyFacts) {
	if f.isJob() {
		writeWhyJob(pg, f)
	} else {
		writeWhyLock(pg, f)
	}
	writeCircles(pg, f)
	for _, o := range f.inForce() {
		pg.line("")
		pg.paragraph(lead("override"), "%s", o.Summary(f.now))
	}
	for _, a := range f.open() {
		pg.line("")
		pg.paragraph(lead("approval"), "%s", approvalWords(a, f.now))
	}
	for _, text := range f.unread {
		pg.line("")
		pg.paragraph(lead("unknown"), "%s", text)
	}
}

func writeWhyLock(pg page, f *whyFacts) {
	s, frozen := f.state(f.about), f.frozenFor()
	if f.lock() == nil && len(frozen) == 0 {
		writeNeverLocked(pg, f)
		return
	}
	pg.paragraph("", "%s: %s", s.Scope, live.Words{State: s, Frozen: len(frozen)}.Summary(f.now))
	for i, h := range s.Holders {
		pg.line("")
		if i == manyWaiters {
			pg.paragraph(whyMargin,
				"%d more hold it; all of them: lockkeeper locks show %s -o wide", len(s.Holders)-i, live.ShellWord(s.Scope))
			break
		}
		writeWhyHolder(pg, f, s, h, i == 0)
	}
	for _, d := range s.Delays {
		pg.line("")
		pg.paragraph(lead("delayed"), "%s", live.Words{State: s}.Delay(d))
	}
	for i, prospect := range inspect.Outlook(s) {
		pg.line("")
		if i == manyWaiters {
			pg.paragraph(lead("waiting"),
				"%d more; all of them: lockkeeper locks show %s -o wide", len(s.Waiters)-i, live.ShellWord(s.Scope))
			break
		}
		writeWhyWaiter(pg, s, prospect)
	}
	writeFrozen(pg, f, frozen)
	for i, e := range s.Evicted {
		if i == 0 {
			pg.line("")
		}
		pg.paragraph(map[bool]string{true: lead("before"), false: whyMargin}[i == 0], "%s",
			live.Words{State: lock.State{At: f.now}}.Eviction(e))
	}
	if s.Damage != "" {
		pg.line("")
		pg.paragraph(lead("damaged"), "%s", s.Damage)
	}
	if len(s.Foreign) > 0 {
		pg.line("")
		pg.paragraph(lead("ignored"), "nodes that are no requests: %s", strings.Join(s.Foreign, ", "))
	}
}

// writeNeverLocked says that there is no such lock, and what may be meant.
func writeNeverLocked(pg page, f *whyFacts) {
	asOf := ""
	if !f.now.IsZero() {
		asOf = fmt.Sprintf(" (%s)", clock(f.now))
	}
	pg.paragraph("", "%s: free; it was never locked, and no job of that name has run%s", f.about, asOf)
	pg.line("")
	if near := f.near(); len(near) > 0 {
		pg.paragraph(lead("spelling"), "did you mean %s?", strings.Join(near, ", or "))
	}
	pg.paragraph(whyMargin, "all locks: lockkeeper locks ls; all jobs: lockkeeper jobs ls")
}

// near returns the locks and owners of requests that may be meant.
func (f *whyFacts) near() []string {
	const few = 3
	var near []string
	add := func(name string) {
		if len(near) < few && !slices.Contains(near, name) && alike(name, f.about) {
			near = append(near, name)
		}
	}
	for _, s := range f.states {
		add(s.Scope)
	}
	for _, n := range f.graph.Nodes() {
		add(n.Owner)
	}
	return near
}

// alike reports whether one name is part of the other, or is it with two
// letters wrong.
func alike(name, typed string) bool {
	const enough, wrong = 3, 2
	if len(typed) >= enough && (strings.Contains(name, typed) || strings.Contains(typed, name)) {
		return true
	}
	return distance(name, typed) <= min(wrong, len(typed)/enough)
}

// distance is how many letters have to be changed, put in or left out to make b
// of a.
func distance(a, b string) int {
	from, to := []rune(a), []rune(b)
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range from {
		before := row[0]
		row[0] = i + 1
		for j, y := range to {
			cost := before
			if x != y {
				cost = 1 + min(before, row[j], row[j+1])
			}
			before, row[j+1] = row[j+1], cost
		}
	}
	return row[len(to)]
}

func writeWhyHolder(pg page, f *whyFacts, s lock.State, h lock.Contender, first bool) {
	pg.paragraph(map[bool]string{true: lead("holder"), false: whyMargin}[first], "%s", live.Who(h))
	say := func(format string, args ...any) { pg.paragraph(whyMargin, format, args...) }
	say("%s", live.Place(h)+", token "+h.Token.String())
	say("since %s, %s; %s", short(h.Since, s.At), human(s.At.Sub(h.Since)), live.Words{State: s}.Lease(h))
	if live.HolderState(h) == live.CleaningUp {
		say("it is cleaning up")
	}
	if h.Hold != "" {
		say("%s", live.Words{State: s}.Hold(h))
	}
	if until := (live.Words{State: s}).Protected(h); until != "" {
		say("not preempted for a higher priority %s", until)
	}
	writeWhyDetails(say, h)
	for _, by := range h.PreemptedBy {
		say("%s", live.Words{State: s}.Asked(h, by))
	}
	if h.LeaseLeft <= 0 && len(s.Waiters) == 0 {
		say("the next request, of whatever priority, gets it after %s", live.CleanupWords(h))
	}
	for _, e := range f.graph.From(h.ID) {
		say("its work waits for %s (place %d): see lockkeeper locks why %s", e.To.Scope, e.To.Position, e.To.Scope)
	}
}

func writeWhyDetails(say func(string, ...any), c lock.Contender) {
	if c.Message != "" {
		say("message: %s", c.Message)
	}
	if o := c.Override; o != nil {
		say("changed by override %s of %s: %s", o.ID, o.By, o.Reason)
	}
}

func writeWhyWaiter(pg page, s lock.State, p inspect.Prospect) {
	w := p.Waiter
	pg.paragraph(lead(fmt.Sprintf("%s %d", live.WaiterState(s, w), w.Position)), "%s%s", live.Who(w), live.MannerOf(w))
	say := func(format string, args ...any) { pg.paragraph(whyMargin, format, args...) }
	say("%s; since %s, %s%s", live.Place(w), short(w.Joined, s.At), human(s.At.Sub(w.Joined)), live.PatienceOf(w))
	writeWhyDetails(say, w)
	for _, text := range (live.Words{State: s}).Bars(w) {
		say("%s", text)
	}
	say("next: %s", live.Words{State: s}.Next(p))
}

func approvalWords(a opstore.Approval, now time.Time) string {
	text := fmt.Sprintf("%s: %s asks to take %s by force, since %s",
		a.ID, a.Requestor.Owner, a.Scope, when(a.Opened, now))
	if !a.Until.IsZero() {
		text += "; it waits for the decision until " + when(a.Until, now)
	}
	return text + fmt.Sprintf("; decide with lockkeeper approvals approve|deny %s", a.ID)
}
