package main

import (
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes/inspect"
)

// writeWhyJob says what each request of a job waits for, to the end.
func writeWhyJob(pg page, f *whyFacts) {
	requests := f.requests()
	frozen := f.frozenOf()
	if len(requests) == 0 && len(frozen) > 0 {
		pg.paragraph("", "%s: frozen, out of the queue of %s (%s)", f.about, words.Count(len(frozen), "lock"), clock(f.now))
		writeFrozen(pg, f, frozen)
		if f.ticks != nil {
			pg.line("")
			pg.paragraph(lead("job"), "%s", f.ticksWords())
		}
		return
	}
	if len(requests) == 0 {
		pg.paragraph("", "%s: holds no lock and waits for none (%s)", f.about, clock(f.now))
		pg.line("")
		if f.ticks == nil {
			pg.paragraph(lead("job"), "how it fared cannot be read: see below")
			return
		}
		pg.paragraph(lead("job"), "%s", f.ticksWords())
		if view := newJobView(nil, *f.ticks, nil, f.now); view.DecidedUntil != nil {
			pg.paragraph(whyMargin, "%s", stoppedWords(view, f.now))
		} else if len(view.LeftOut) > 0 {
			pg.paragraph(whyMargin, "%s", leftOutWords(view, f.now))
		}
		if f.mayBeFrozen() {
			pg.paragraph(whyMargin, "it runs and is in no queue: a freeze, see below, keeps requests out until it ends")
		}
		pg.paragraph(whyMargin, "see: lockkeeper jobs history %s", f.about)
		return
	}
	var waits, holds int
	for _, n := range requests {
		if n.Holds {
			holds++
		} else {
			waits++
		}
	}
	pg.paragraph("", "%s: waits for %s, holds %s (%s)",
		f.about, words.Count(waits, "lock"), words.Count(holds, "lock"), clock(f.now))
	for i, n := range requests {
		pg.line("")
		if i == manyWaiters {
			pg.paragraph(lead("more"),
				"%d more of its requests; all of them: lockkeeper locks why %s -o json", len(requests)-i, live.ShellWord(f.about))
			break
		}
		writeChain(pg, f, n)
	}
	writeFrozen(pg, f, frozen)
}

// writeFrozen says which requests wait outside of the queue, and for what.
func writeFrozen(pg page, f *whyFacts, frozen []live.Request) {
	for i, r := range frozen {
		pg.line("")
		if i == manyWaiters {
			pg.paragraph(lead("frozen"),
				"%d more; all of them: lockkeeper locks why %s -o json", len(frozen)-i, live.ShellWord(f.about))
			break
		}
		pg.paragraph(lead("frozen"), "%s, host %s, pid %d", r.Owner, r.Host, r.PID)
		pg.paragraph(whyMargin, "since %s, %s; %s", short(r.Since, f.now), human(f.now.Sub(r.Since)), r.Words(f.now))
	}
}

// ticksWords says how a job fared that is not there now.
func (f *whyFacts) ticksWords() string {
	s := *f.ticks
	words := nowWords(newJobView(nil, s, f.jobRequests(), f.now), f.now)
	if last := s.Latest(); last != nil {
		if last.Reason != "" {
			words += fmt.Sprintf(" (%s)", last.Reason)
		}
	}
	return words
}

// writeChain says what a request waits for, and what that waits for.
func writeChain(pg page, f *whyFacts, n inspect.WaitNode) {
	s := f.state(n.Scope)
	if n.Holds {
		pg.paragraph(lead("holds"), "%s%s, %s, token %s", n.Scope, f.at(n), live.LevelWords(n.Priority), n.Token)
		pg.paragraph(whyMargin, "since %s, %s; %s",
			short(n.Since, s.At), human(s.At.Sub(n.Since)), live.Words{State: s}.Lease(n.Contender))
		for _, by := range n.PreemptedBy {
			pg.paragraph(whyMargin, "%s", live.Words{State: s}.Asked(n.Contender, by))
		}
		return
	}
	pg.paragraph(lead("waits"),
		"for %s%s as number %d, %s%s, since %s, %s%s", n.Scope, f.at(n), n.Position, live.LevelWords(n.Priority),
		live.MannerOf(n.Contender), short(n.Joined, s.At), human(s.At.Sub(n.Joined)), live.PatienceOf(n.Contender))
	for _, text := range (live.Words{State: s}).Bars(n.Contender) {
		pg.paragraph(whyMargin, "%s", text)
	}
	pg.paragraph(whyMargin, "next: %s", live.Words{State: s}.Next(f.prospect(n)))
	writeObstacles(pg, f, n, whyMargin, map[string]bool{n.ID: true})
}

// writeObstacles goes on with those in the way of a request; seen have been
// told.
func writeObstacles(pg page, f *whyFacts, n inspect.WaitNode, margin string, seen map[string]bool) {
	for _, e := range f.graph.From(n.ID) {
		s := f.state(e.To.Scope)
		switch e.Why {
		case inspect.WaitHeld:
			pg.paragraph(margin, "held by %s (%s, %s, token %s) since %s; %s", e.To.Owner, live.LevelWords(e.To.Priority),
				live.Place(e.To.Contender), e.To.Token, short(e.To.Since, s.At), live.Words{State: s}.Lease(e.To.Contender))
		case inspect.WaitAhead:
			pg.paragraph(margin, "behind %s (%s), number %d", e.To.Owner, live.LevelWords(e.To.Priority), e.To.Position)
			continue // its holder is printed beside it
		case inspect.WaitUnder:
			pg.paragraph(margin,
				"whose work itself waits for %s as number %d, since %s", e.To.Scope, e.To.Position, short(e.To.Joined, s.At))
		}
		if seen[e.To.ID] {
			pg.paragraph(margin+"  ", "and so on, in a cycle")
			continue
		}
		seen[e.To.ID] = true
		writeObstacles(pg, f, e.To, margin+"  ", seen)
	}
}

// writeCircles says who waits for each other, and what ends it.
func writeCircles(pg page, f *whyFacts) {
	for _, c := range f.circles() {
		pg.line("")
		what := "cycle"
		if c.Deadlock() {
			what = "deadlock"
		}
		pg.paragraph(lead(what), "%s", circleSummary(c))
		for i, e := range c.Edges {
			if e.Why == inspect.WaitUnder {
				continue
			}
			waits := fmt.Sprintf("waits for %s since %s", e.From.Scope, short(e.From.Joined, f.now))
			if before := c.Edges[(i+len(c.Edges)-1)%len(c.Edges)]; before.Why == inspect.WaitUnder {
				waits = fmt.Sprintf("holds %s (token %s) and %s", before.From.Scope, before.From.Token, waits)
			}
			verb := "which is held by"
			if e.Why == inspect.WaitAhead {
				verb = "behind"
			}
			pg.paragraph(whyMargin, "%s %s, %s %s", e.From.Owner, waits, verb, e.To.Owner)
		}
		pg.paragraph(whyMargin, "%s", circleEndWords(c, f.now))
		pg.paragraph(whyMargin, "to end it now, at the cost of %s (%s):", c.Cut.Owner, cutReason(c))
		pg.line(whyMargin + "  " + printable(live.BreakCommand(c.Cut)))
	}
}

func circleSummary(c inspect.Circle) string {
	scopes := map[string]bool{}
	for _, e := range c.Edges {
		scopes[e.From.Scope] = true
	}
	if len(scopes) == 1 {
		return "over this one lock: each waits for the next, or for itself, and none can go on"
	}
	return fmt.Sprintf("over %d locks: each waits for the next, and none can go on", len(scopes))
}

// circleEndWords says what ends a circle by itself.
func circleEndWords(c inspect.Circle, now time.Time) string {
	if c.End == nil {
		return "nothing ends it by itself"
	}
	e := c.End
	at := "at " + when(e.At, now)
	if e.After <= 0 {
		at = "about now"
	}
	switch {
	case e.Cause == inspect.EndWaiting, e.Cause == inspect.EndAcquire:
		return fmt.Sprintf("it ends by itself %s, when %s gives up %s (%s)", at, e.Waiter.Owner, e.Waiter.Scope, e.Cause)
	case e.Evicted && e.Cause == inspect.EndLease:
		return fmt.Sprintf("it ends by itself %s, when %s takes %s from %s, whose lease is over",
			at, e.Waiter.Owner, e.Holder.Scope, e.Holder.Owner)
	case e.Evicted:
		return fmt.Sprintf("it ends by itself %s, when %s takes %s from %s by force",
			at, e.Waiter.Owner, e.Holder.Scope, e.Holder.Owner)
	case e.Cause == inspect.EndLease:
		return fmt.Sprintf("it ends by itself %s, when the lease of %s on %s is over and %s preempts it",
			at, e.Holder.Owner, e.Holder.Scope, e.Waiter.Owner)
	}
	return fmt.Sprintf("it ends by itself %s, when %s preempts %s on %s",
		at, e.Waiter.Owner, e.Holder.Owner, e.Holder.Scope)
}

// cutReason says why the cut is the least loss.
func cutReason(c inspect.Circle) string {
	holders, lowest := 0, 0
	for _, e := range c.Edges {
		if e.From.Holds {
			holders++
			if e.From.Priority == c.Cut.Priority {
				lowest++
			}
		}
	}
	switch {
	case holders == 1:
		return "the only holder in it"
	case lowest == 1:
		return fmt.Sprintf("the lowest priority in it, %d", c.Cut.Priority)
	}
	return fmt.Sprintf("the youngest of those with the lowest priority, %d", c.Cut.Priority)
}
