package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// The margin of the answers: what a paragraph is about stands in front.
const whyMargin = "          "

// manyWaiters is how many of those in line are told in full: more, and nobody
// finds what stands above them.
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
	s := f.state(f.about)
	if f.lock() == nil {
		writeNeverLocked(pg, f)
		return
	}
	pg.paragraph("", "%s: %s", s.Scope, whySummary(s, f.now))
	for i, h := range s.Holders {
		pg.line("")
		if i == manyWaiters {
			pg.paragraph(whyMargin, "%d more hold it; all of them: lockkeeper locks show %s -o wide", len(s.Holders)-i, shellWord(s.Scope))
			break
		}
		writeWhyHolder(pg, f, s, h, i == 0)
	}
	for _, d := range s.Delays {
		pg.line("")
		pg.paragraph(lead("delayed"), "%s", delayWords(s, d))
	}
	for i, prospect := range s.Outlook() {
		pg.line("")
		if i == manyWaiters {
			pg.paragraph(lead("waiting"), "%d more; all of them: lockkeeper locks show %s -o wide", len(s.Waiters)-i, shellWord(s.Scope))
			break
		}
		writeWhyWaiter(pg, s, prospect)
	}
	for i, e := range s.Evicted {
		if i == 0 {
			pg.line("")
		}
		pg.paragraph(map[bool]string{true: lead("before"), false: whyMargin}[i == 0], "%s", evictionWords(e, f.now))
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

// whySummary is the answer in one sentence.
func whySummary(s recipes.LockState, now time.Time) string {
	asOf := ""
	if !now.IsZero() {
		asOf = fmt.Sprintf(" (%s)", clock(now))
	}
	switch {
	case len(s.Holders) == 0 && len(s.Delays) > 0:
		d := s.Delays[0]
		until := fmt.Sprintf("for %s from when somebody asks for it", human(d.LockDelay))
		if !d.Until.IsZero() {
			until = "until about " + when(d.Until, s.At)
		}
		return fmt.Sprintf("free, and delayed %s, %s%s", until, uncleanEnds(s.Delays), asOf)
	case len(s.Holders) == 0 && len(s.Waiters) == 0:
		return "free; nobody holds it or waits for it" + asOf
	case len(s.Holders) == 0:
		return fmt.Sprintf("free; %s is about to get it%s", s.Waiters[0].Owner, asOf)
	}
	text := fmt.Sprintf("held by %s", s.Holders[0].Owner)
	if n := len(s.Holders); n > 1 {
		text = fmt.Sprintf("held by %s together", count(n, "reader"))
	}
	if len(s.Waiters) == 0 {
		return text + ", nobody waits" + asOf
	}
	return fmt.Sprintf("%s, %d waiting%s", text, len(s.Waiters), asOf)
}

func writeWhyHolder(pg page, f *whyFacts, s recipes.LockState, h recipes.Contender, first bool) {
	pg.paragraph(map[bool]string{true: lead("holder"), false: whyMargin}[first], "%s", who(h))
	say := func(format string, args ...any) { pg.paragraph(whyMargin, format, args...) }
	say("%s", place(h)+", token "+h.Token.String())
	say("since %s, %s; %s", short(h.Since, s.At), human(s.At.Sub(h.Since)), leaseWords(s, h))
	if h.Hold != "" {
		say("%s", holdWords(s, h))
	}
	if h.MinRuntimeLeft > 0 {
		say("not asked to go for a higher priority %s", minRuntimeWords(s, h))
	}
	writeWhyDetails(say, h)
	for _, by := range h.PreemptedBy {
		say("%s", askedWords(s, h, by))
	}
	if h.LeaseLeft <= 0 && len(s.Waiters) == 0 {
		say("whoever asks for it now, of whatever priority, gets it after %s", cleanupWords(h))
	}
	for _, e := range f.graph.From(h.ID) {
		say("its work waits for %s (place %d): see lockkeeper locks why %s", e.To.Scope, e.To.Position, e.To.Scope)
	}
}

func writeWhyDetails(say func(string, ...any), c recipes.Contender) {
	if c.Message != "" {
		say("message: %s", c.Message)
	}
	if o := c.Override; o != nil {
		say("changed by override %s of %s: %s", o.ID, o.By, o.Reason)
	}
}

// who names a request.
func who(c recipes.Contender) string {
	words := []string{levelWords(c.Priority)}
	if c.Mode == priority.Shared {
		words = append(words, "shared")
	}
	return c.Owner + "  " + strings.Join(words, ", ")
}

func levelWords(l priority.Level) string {
	if l == priority.Emergency {
		return "emergency priority"
	}
	return fmt.Sprintf("priority %d", l)
}

func place(c recipes.Contender) string { return fmt.Sprintf("host %s, pid %d", c.Host, c.PID) }

// leaseWords says how much of a lease is used.
func leaseWords(s recipes.LockState, h recipes.Contender) string {
	if h.LeaseLeft <= 0 {
		return fmt.Sprintf("its lease of %s is over", human(h.LeaseTimeout))
	}
	used := h.LeaseTimeout - h.LeaseLeft
	return fmt.Sprintf("%d%% of its lease of %s is used, it ends at %s", usedPercent(used, h.LeaseTimeout), human(h.LeaseTimeout), when(s.At.Add(h.LeaseLeft), s.At))
}

func usedPercent(used, whole time.Duration) int64 {
	if whole <= 0 {
		return 100
	}
	return int64(used * 100 / whole)
}

// when writes a time: 12:11:02, in 40s.
func when(t, now time.Time) string { return short(t, now) + ", " + relative(t, now) }

func minRuntimeWords(s recipes.LockState, h recipes.Contender) string {
	if h.MinRuntimeLeft >= h.LeaseLeft {
		return "before its lease is over (min_runtime)"
	}
	return fmt.Sprintf("before %s (min_runtime %s)", when(s.At.Add(h.MinRuntimeLeft), s.At), human(h.MinRuntime))
}

func cleanupWords(h recipes.Contender) string {
	if h.CleanupTimeout <= 0 {
		return "no time to clean up"
	}
	return fmt.Sprintf("at most %s to clean up", human(h.CleanupTimeout))
}

// askedWords says who has asked a holder to go, why, until when it may clean up,
// and what then.
func askedWords(s recipes.LockState, h recipes.Contender, by recipes.Preemptor) string {
	text := fmt.Sprintf("asked to go by %s (%s) at %s", by.Owner, levelWords(by.Priority), when(by.At, s.At))
	if by.Reason == priority.LeaseExpired {
		text += ", because its lease was over"
	}
	if o := by.Override; o != nil {
		text += fmt.Sprintf(", for override %s of %s (%s)", o.ID, o.By, o.Reason)
	}
	switch end := by.At.Add(by.Grace); {
	case by.Grace <= 0:
		text += "; it has no time to clean up"
	case end.After(s.At):
		text += fmt.Sprintf("; it may clean up until %s", when(end, s.At))
	default:
		text += fmt.Sprintf("; its %s to clean up ended at %s", human(by.Grace), when(end, s.At))
	}
	if by.Forceful || by.Reason == priority.LeaseExpired {
		return text + "; then force"
	}
	return text + "; no force: it goes when it is ready"
}

func writeWhyWaiter(pg page, s recipes.LockState, p recipes.Prospect) {
	w := p.Waiter
	pg.paragraph(lead(fmt.Sprintf("waiting %d", w.Position)), "%s%s", who(w), mannerOf(w))
	say := func(format string, args ...any) { pg.paragraph(whyMargin, format, args...) }
	say("%s; since %s, %s%s", place(w), short(w.Joined, s.At), human(s.At.Sub(w.Joined)), patienceOf(w))
	writeWhyDetails(say, w)
	for _, text := range barsOf(s, w) {
		say("%s", text)
	}
	say("next: %s", nextWords(s, p))
}

// mannerOf is how a waiter deals with those in its way.
func mannerOf(w recipes.Contender) string {
	text := ""
	switch {
	case w.Forceful && w.WaitingTimeout != nil:
		text += ", forceful after " + human(*w.WaitingTimeout)
	case w.Forceful:
		text += ", forceful"
	case w.WaitingTimeout != nil:
		text += fmt.Sprintf(", polite, waits %s for a cleanup", human(*w.WaitingTimeout))
	}
	return text
}

// patienceOf is how long it waits in all.
func patienceOf(w recipes.Contender) string {
	if w.AcquireTimeout == nil {
		return ""
	}
	const moment = time.Second // some milliseconds of it were spent before the queue
	if t := *w.AcquireTimeout; t > moment {
		return " of " + human(t.Round(moment))
	}
	return " of " + human(*w.AcquireTimeout)
}

// barsOf says what keeps the first in line from asking those in its way.
func barsOf(s recipes.LockState, w recipes.Contender) []string {
	plan, ok := s.PlanOf(w.ID)
	if !ok || plan.Position != 1 {
		return nil
	}
	var texts []string
	for _, o := range plan.Obstacles {
		h := o.Holder
		if h.LeaseLeft <= 0 {
			continue // nothing keeps it
		}
		switch o.Bar {
		case priority.BarLevel:
			texts = append(texts, fmt.Sprintf("does not preempt %s: its %s is not above %s", h.Owner, levelWords(w.Priority), levelText(h.Priority)))
		case priority.BarNever:
			texts = append(texts, fmt.Sprintf("does not preempt %s: it never preempts", h.Owner))
		case priority.BarDelta:
			texts = append(texts, fmt.Sprintf("does not preempt %s: its %s is not %d above %s (preempt_delta)", h.Owner, levelWords(w.Priority), w.PreemptDelta, levelText(h.Priority)))
		case priority.BarMinRuntime, priority.NoBar: // time lifts it: said with what is next
		}
	}
	return texts
}

// nextWords says what happens to a waiter, in order.
func nextWords(s recipes.LockState, p recipes.Prospect) string {
	w := p.Waiter
	var parts []string
	if w.Position > 1 {
		parts = append(parts, "waits "+behindWords(s, w))
	}
	if p.Overdue > 0 {
		parts = append(parts, fmt.Sprintf("its waiting_timeout ended %s ago and it has not left: somebody is to decide (lockkeeper approvals ls)", human(p.Overdue)))
	}
	for _, ask := range p.Asks {
		parts = append(parts, askingWords(s, p, ask))
	}
	return strings.Join(append(parts, endWords(s, p)), "; ")
}

func behindWords(s recipes.LockState, w recipes.Contender) string {
	before := s.Waiters[:w.Position-1]
	text := fmt.Sprintf("behind %d", len(before))
	if together := !slices.ContainsFunc(before, func(b recipes.Contender) bool { return !w.Mode.Admits(b.Mode) }); together {
		text = fmt.Sprintf("together with the %d before it", len(before))
	}
	return text
}

func askingWords(s recipes.LockState, p recipes.Prospect, ask recipes.ProspectAsk) string {
	verb := "preempts"
	if ask.Reason == priority.LeaseExpired {
		verb = "asks"
	}
	text := fmt.Sprintf("%s %s now", verb, ask.Holder.Owner)
	if ask.After > 0 {
		text = fmt.Sprintf("will %s %s at %s", strings.TrimSuffix(verb, "s"), ask.Holder.Owner, when(s.At.Add(ask.After), s.At))
	}
	if ask.Reason == priority.LeaseExpired {
		text = strings.Replace(text, ask.Holder.Owner, ask.Holder.Owner+" to go", 1) + " (end of its lease)"
	}
	if ask.Reason == priority.Outranked && ask.After > 0 && ask.Holder.MinRuntimeLeft > 0 {
		text += " (end of its min_runtime)"
	}
	if p.Waiter.Forceful || ask.Reason == priority.LeaseExpired {
		text += ", then force"
	}
	return text
}

func endWords(s recipes.LockState, p recipes.Prospect) string {
	at := when(s.At.Add(p.After), s.At)
	switch p.Outcome {
	case recipes.OutcomeGranted:
		if p.After <= 0 {
			return "gets it now"
		}
		return "gets it at " + at + " at the latest"
	case recipes.OutcomeTakesOver:
		if p.After <= 0 {
			return "takes it now"
		}
		return "takes it at " + at + ", unless it is released before"
	case recipes.OutcomeGivesUp:
		return "gives up at " + at + ", unless it is released before (waiting_timeout)"
	case recipes.OutcomeTimesOut:
		return "gives up at " + at + ", unless it is released before (acquire_timeout)"
	case recipes.OutcomeInLine, recipes.OutcomeRefused:
	}
	return "those before it decide how long"
}

// evictionWords says who lost the lock by force.
func evictionWords(e recipes.Eviction, now time.Time) string {
	text := e.Owner + " lost it"
	if !e.At.IsZero() {
		text += " at " + when(e.At, now) + ","
	}
	switch e.Reason {
	case "":
		text += fmt.Sprintf(" broken by %s: %s", e.By, e.Why)
	case recipes.Superseded:
		text += fmt.Sprintf(" to %s, who has adopted its hold", e.By)
	case priority.LeaseExpired:
		text += fmt.Sprintf(" to %s, after its lease and its time to clean up", e.By)
	default:
		text += fmt.Sprintf(" to %s, who outranked it, after its time to clean up", e.By)
	}
	if o := e.Override; o != nil {
		text += fmt.Sprintf("; override %s of %s: %s", o.ID, o.By, o.Reason)
	}
	return text
}

func approvalWords(a recipes.Approval, now time.Time) string {
	text := fmt.Sprintf("%s: %s asks to take %s by force, since %s", a.ID, a.Requestor.Owner, a.Scope, when(a.Opened, now))
	if !a.Until.IsZero() {
		text += "; it waits for the decision until " + when(a.Until, now)
	}
	return text + fmt.Sprintf("; decide with lockkeeper approvals approve|deny %s", a.ID)
}
