package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// writeLocks writes one line for each lock, and in a wide table one for each
// holder.
func writeLocks(w io.Writer, found []ensembleLocks, wide bool) {
	type entry struct {
		lock.State
		ensemble string
	}
	var all []entry
	several := false
	for _, one := range found {
		several = several || one.ensemble != ""
		for _, s := range one.states {
			all = append(all, entry{s, one.ensemble})
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int { return strings.Compare(a.Scope, b.Scope) })
	row := func(w io.Writer, scope, ensemble string, cells ...any) {
		if several {
			cells = append([]any{ensemble}, cells...)
		}
		row(w, append([]any{scope}, cells...)...)
	}
	if wide {
		row(w, "SCOPE", "ENSEMBLE", "STATE", "HOLDER", "PRIO", "SINCE", "LEASE LEFT", "WAITERS", "MODE", "HOST", "PID",
			"TOKEN", "MIN RUNTIME", "PREEMPTED BY", "MESSAGE")
	} else {
		row(w, "SCOPE", "ENSEMBLE", "STATE", "HOLDER", "PRIO", "SINCE", "LEASE LEFT", "WAITERS")
	}
	for _, l := range all {
		s := l.State
		if len(s.Holders) == 0 {
			row(w, s.Scope, l.ensemble, live.StateWord(s), "-", "-", "-", "-", len(s.Waiters))
			continue
		}
		if !wide {
			row(w, s.Scope, l.ensemble, "held", fewOwners(s.Holders), levelText(highest(s.Holders)),
				since(s, earliest(s.Holders)), leaseLeft(s.Holders), len(s.Waiters))
			continue
		}
		for i, h := range s.Holders {
			if i == manyWaiters {
				row(w, s.Scope, l.ensemble, "held", fmt.Sprintf("… and %d more", len(s.Holders)-i), "-", "-", "-", len(s.Waiters))
				break
			}
			one := []lock.Contender{h}
			row(w, s.Scope, l.ensemble, "held", h.Owner, levelText(h.Priority), since(s, h.Since), leaseLeft(one),
				len(s.Waiters), h.Mode, h.Host, h.PID, h.Token, live.ProtectedFor(h), cmp.Or(preemptors(h), "-"), h.Message)
		}
	}
}

// since says how long ago something was when s was looked at.
func since(s lock.State, t time.Time) string { return human(s.At.Sub(t)) + " ago" }

func earliest(holders []lock.Contender) time.Time {
	return slices.MinFunc(holders, func(a, b lock.Contender) int { return a.Since.Compare(b.Since) }).Since
}

func highest(holders []lock.Contender) priority.Level {
	return slices.MaxFunc(holders, func(a, b lock.Contender) int { return cmp.Compare(a.Priority, b.Priority) }).Priority
}

// leaseLeft is what is left until the first of the leases is over.
func leaseLeft(holders []lock.Contender) string {
	left := slices.MinFunc(holders, func(a, b lock.Contender) int {
		return cmp.Compare(a.LeaseLeft, b.LeaseLeft)
	}).LeaseLeft
	if left <= 0 {
		return "over"
	}
	return human(left)
}

func preemptors(h lock.Contender) string {
	return words.Join(h.PreemptedBy, ", ", func(by lock.Preemptor) string { return by.Owner })
}

// writeLock writes all that is known about one lock.
func writeLock(w io.Writer, s lock.State, ensemble string, frozen []live.Request, wide bool) {
	state := live.StateWord(s)
	if s.Held() {
		state = "held, " + s.Holders[0].Mode.String()
	}
	if n := len(s.Waiters); n > 0 {
		state += fmt.Sprintf(", %d waiting", n)
	}
	if n := len(frozen); n > 0 {
		state += fmt.Sprintf(", %d frozen", n)
	}
	if ensemble != "" {
		state += "; on the ensemble " + ensemble
	}
	line(w, "%s: %s", s.Scope, state)
	for _, d := range s.Delays {
		line(w, "\ndelay   %s", live.Words{State: s}.Delay(d))
	}
	for i, h := range s.Holders {
		if i == manyWaiters && !wide {
			line(w, "\n… and %d more that hold it; all of them: lockkeeper locks show %s -o wide",
				len(s.Holders)-i, live.ShellWord(s.Scope))
			break
		}
		writeHolder(w, s, h, wide)
	}
	for i, c := range s.Waiters {
		if i == manyWaiters && !wide {
			line(w, "\n… and %d more; all of them: lockkeeper locks show %s -o wide", len(s.Waiters)-i, live.ShellWord(s.Scope))
			break
		}
		line(w, "\nwaiter  %d. %s", c.Position, contender(c))
		line(w, "        %s since %s, %s%s", live.WaiterState(s, c), clock(c.Joined), since(s, c.Joined), manner(c))
		details(w, c, wide)
	}
	for i, r := range frozen {
		if i == manyWaiters && !wide {
			line(w,
				"\n… and %d more frozen; all of them: lockkeeper locks show %s -o wide", len(frozen)-i, live.ShellWord(s.Scope))
			break
		}
		line(w, "\nfrozen  %s  host %s  pid %d", r.Owner, r.Host, r.PID)
		line(w, "        since %s, %s", clock(r.Since), r.Words(cmp.Or(s.At, time.Now())))
	}
	if s.Damage != "" {
		line(w, "\ndamaged  %s", s.Damage)
	}
	if len(s.Foreign) > 0 {
		line(w, "\nnodes that are no requests, ignored: %s", strings.Join(s.Foreign, ", "))
	}
}

func writeHolder(w io.Writer, s lock.State, h lock.Contender, wide bool) {
	line(w, "\nholder  %s", contender(h))
	line(w, "        since %s, %s; %s", clock(h.Since), since(s, h.Since), lease(h))
	line(w, "        token %s", h.Token)
	if live.HolderState(h) == live.CleaningUp {
		line(w, "        it is cleaning up")
	}
	if h.Hold != "" {
		line(w, "        %s", live.Words{State: s}.Hold(h))
	}
	if until := (live.Words{State: s}).Protected(h); until != "" {
		line(w, "        not preempted for a higher priority %s", until)
	}
	if h.Behind > 0 {
		line(w, "        %s waited behind it in its process when it was granted", words.Count(h.Behind, "more request"))
	}
	details(w, h, wide)
	for _, by := range h.PreemptedBy {
		line(w, "        %s", demand(s, by))
	}
}

func line(w io.Writer, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	lead := len(text) - len(strings.TrimLeft(text, "\n"))
	_, _ = fmt.Fprintln(w, text[:lead]+printable(text[lead:]))
}

func contender(c lock.Contender) string {
	text := fmt.Sprintf("%s  %s  host %s  pid %d", c.Owner, live.LevelWords(c.Priority), c.Host, c.PID)
	if c.Mode == priority.Shared {
		text += "  shared"
	}
	return text
}

func details(w io.Writer, c lock.Contender, wide bool) {
	if c.Message != "" {
		line(w, "        message: %s", c.Message)
	}
	if wide {
		line(w, "        id %s, session 0x%x, cleanup timeout %s", c.ID, uint64(c.Session), human(c.CleanupTimeout))
	}
}

func lease(h lock.Contender) string {
	if h.LeaseLeft <= 0 {
		return fmt.Sprintf("its lease of %s is over: the next request gets the lock", human(h.LeaseTimeout))
	}
	return fmt.Sprintf("%s left of its lease of %s", human(h.LeaseLeft), human(h.LeaseTimeout))
}

// manner is how a waiter deals with a holder that it outranks.
func manner(c lock.Contender) string {
	text := ""
	switch {
	case c.Forceful:
		text = "; forceful"
	case c.WaitingTimeout != nil:
		text = fmt.Sprintf("; waits %s for a cleanup", human(*c.WaitingTimeout))
	}
	switch {
	case c.NeverPreempts:
		text += "; never preempts"
	case c.PreemptDelta > 1:
		text += fmt.Sprintf("; preempts those %d below it", c.PreemptDelta)
	}
	return text
}

// demand says who preempts a holder, why, until when, and what then.
func demand(s lock.State, by lock.Preemptor) string {
	why := "which outranks it"
	if by.Reason == priority.LeaseExpired {
		why = "because its lease is over"
	}
	return fmt.Sprintf("preempted by %s (%s), %s; %s; %s",
		by.Owner, live.LevelWords(by.Priority), why, grace(s, by), patience(s, by))
}

func grace(s lock.State, by lock.Preemptor) string {
	end := by.At.Add(by.Grace)
	switch left := end.Sub(s.At); {
	case by.Grace <= 0:
		return "it has no grace period"
	case left <= 0:
		return fmt.Sprintf("its grace period of %s ended %s ago", human(by.Grace), human(-left))
	default:
		return fmt.Sprintf("its grace period ends at %s, %s more", clock(end), human(left))
	}
}

// patience is what happens after the grace.
func patience(s lock.State, by lock.Preemptor) string {
	if by.Forceful || by.Reason == priority.LeaseExpired {
		return "evicted after that, unless it releases first"
	}
	i := slices.IndexFunc(s.Waiters, func(c lock.Contender) bool { return c.ID == by.ID })
	switch {
	case i < 0:
		return "polite: " + by.Owner + " no longer waits"
	case s.Waiters[i].WaitingTimeout == nil:
		return "polite: " + by.Owner + " waits for the release"
	}
	end := by.At.Add(*s.Waiters[i].WaitingTimeout)
	if left := end.Sub(s.At); left > 0 {
		return fmt.Sprintf("polite: %s waits for the release until %s, %s more", by.Owner, clock(end), human(left))
	}
	return fmt.Sprintf("polite: the waiting timeout of %s ended %s ago", by.Owner, human(s.At.Sub(end)))
}
