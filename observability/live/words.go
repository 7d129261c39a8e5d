package live

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/inspect"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Words says what the state of a lock means, for people.
type Words struct {
	State lock.State

	// Frozen is how many requests for it overrides keep out of the queue.
	Frozen int

	// Absolute leaves out how far off a time is, for words that are read later.
	Absolute bool
}

func (v Words) when(t time.Time) string {
	if v.Absolute {
		return Short(t, v.State.At)
	}
	return Short(t, v.State.At) + ", " + Relative(t, v.State.At)
}

// Summary says who has the lock, in one sentence; now, if it is set, as of when.
func (v Words) Summary(now time.Time) string {
	asOf := ""
	if !now.IsZero() {
		asOf = fmt.Sprintf(" (%s)", Clock(now))
	}
	if v.Frozen > 0 {
		asOf = fmt.Sprintf(", %d frozen", v.Frozen) + asOf
	}
	switch {
	case len(v.State.Holders) == 0 && len(v.State.Delays) > 0:
		d := v.State.Delays[0]
		until := fmt.Sprintf("for %s from the next request on", Human(d.LockDelay))
		if !d.Until.IsZero() {
			until = "until about " + v.when(d.Until)
		}
		return fmt.Sprintf("free, and delayed %s, %s%s", until, UncleanEnds(v.State.Delays), asOf)
	case len(v.State.Holders) == 0 && len(v.State.Waiters) == 0:
		return "free; no holder, no waiters" + asOf
	case len(v.State.Holders) == 0:
		return fmt.Sprintf("free; %s is about to get it%s", v.State.Waiters[0].Owner, asOf)
	}
	text := fmt.Sprintf("held by %s", v.State.Holders[0].Owner)
	if n := len(v.State.Holders); n > 1 {
		text = fmt.Sprintf("held by %s together", words.Count(n, "reader"))
	}
	if len(v.State.Waiters) == 0 {
		return text + ", no waiters" + asOf
	}
	return fmt.Sprintf("%s, %d waiting%s", text, len(v.State.Waiters), asOf)
}

// Who names a request.
func Who(c lock.Contender) string {
	words := []string{LevelWords(c.Priority)}
	if c.Mode == priority.Shared {
		words = append(words, "shared")
	}
	return c.Owner + "  " + strings.Join(words, ", ")
}

// LevelWords names a priority.
func LevelWords(l priority.Level) string {
	if l == priority.Emergency {
		return "emergency priority"
	}
	return fmt.Sprintf("priority %d", l)
}

// Place says where a request comes from.
func Place(c lock.Contender) string { return fmt.Sprintf("host %s, pid %d", c.Host, c.PID) }

// Lease says how much of a lease is used.
func (v Words) Lease(h lock.Contender) string {
	if h.LeaseLeft <= 0 {
		return fmt.Sprintf("its lease of %s is over", Human(h.LeaseTimeout))
	}
	used := h.LeaseTimeout - h.LeaseLeft
	return fmt.Sprintf("%d%% of its lease of %s is used, it ends at %s",
		usedPercent(used, h.LeaseTimeout), Human(h.LeaseTimeout), v.when(v.State.At.Add(h.LeaseLeft)))
}

func usedPercent(used, whole time.Duration) int64 {
	if whole <= 0 {
		return 100
	}
	return int64(used * 100 / whole)
}

// Protected says until when a holder is not preempted for a priority; "" when it may be now.
func (v Words) Protected(h lock.Contender) string {
	switch {
	case h.MinRuntimeLeft <= 0:
		return ""
	case h.MinRuntimeLeft >= h.LeaseLeft:
		return "before its lease is over (min_runtime)"
	}
	return fmt.Sprintf("before %s (min_runtime %s)", v.when(v.State.At.Add(h.MinRuntimeLeft)), Human(h.MinRuntime))
}

// ProtectedFor says for how long a holder is not preempted for a priority: "-" when it has not asked for that.
func ProtectedFor(h lock.Contender) string {
	switch {
	case h.MinRuntime <= 0:
		return "-"
	case h.MinRuntimeLeft <= 0:
		return "over"
	}
	return Human(h.MinRuntimeLeft)
}

// CleanupWords says how long a holder may clean up.
func CleanupWords(h lock.Contender) string {
	if h.CleanupTimeout <= 0 {
		return "no time to clean up"
	}
	return fmt.Sprintf("at most %s to clean up", Human(h.CleanupTimeout))
}

// Asked says who has preempted a holder, why, until when it may clean up,
// and what then.
func (v Words) Asked(h lock.Contender, by lock.Preemptor) string {
	text := fmt.Sprintf("preempted by %s (%s) at %s", by.Owner, LevelWords(by.Priority), v.when(by.At))
	if by.Reason == priority.LeaseExpired {
		text += ", because its lease was over"
	}
	if o := by.Override; o != nil {
		text += fmt.Sprintf(", for override %s of %s (%s)", o.ID, o.By, o.Reason)
	}
	switch end := by.At.Add(by.Grace); {
	case by.Grace <= 0:
		text += "; it has no grace period"
	case end.After(v.State.At):
		text += fmt.Sprintf("; its grace period ends at %s", v.when(end))
	default:
		text += fmt.Sprintf("; its grace period of %s ended at %s", Human(by.Grace), v.when(end))
	}
	if by.Forceful || by.Reason == priority.LeaseExpired {
		return text + "; evicted after that, unless it releases first"
	}
	return text + "; polite: " + by.Owner + " waits for the release"
}

// MannerOf is how a waiter deals with those in its way.
func MannerOf(w lock.Contender) string {
	text := ""
	switch {
	case w.Forceful && w.WaitingTimeout != nil:
		text += ", forceful after " + Human(*w.WaitingTimeout)
	case w.Forceful:
		text += ", forceful"
	case w.WaitingTimeout != nil:
		text += fmt.Sprintf(", polite, waits %s for a cleanup", Human(*w.WaitingTimeout))
	}
	return text
}

// PatienceOf is how long it waits in all.
func PatienceOf(w lock.Contender) string {
	if w.AcquireTimeout == nil {
		return ""
	}
	const moment = time.Second // some milliseconds of it were spent before the queue
	if t := *w.AcquireTimeout; t > moment {
		return " of " + Human(t.Round(moment))
	}
	return " of " + Human(*w.AcquireTimeout)
}

// Bars says what keeps the first waiter from preempting the holders in its way.
func (v Words) Bars(w lock.Contender) []string {
	plan, ok := inspect.PlanOf(v.State, w.ID)
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
			texts = append(texts,
				fmt.Sprintf("does not preempt %s: its %s is not above %s", h.Owner, LevelWords(w.Priority), LevelText(h.Priority)))
		case priority.BarNever:
			texts = append(texts, fmt.Sprintf("does not preempt %s: it never preempts", h.Owner))
		case priority.BarDelta:
			texts = append(texts, fmt.Sprintf("does not preempt %s: its %s is not %d above %s (preempt_delta)",
				h.Owner, LevelWords(w.Priority), w.PreemptDelta, LevelText(h.Priority)))
		case priority.BarMinRuntime, priority.NoBar: // time lifts it: said with what is next
		}
	}
	return texts
}

// Next says what happens to a waiter, in order.
func (v Words) Next(p inspect.Prospect) string {
	w := p.Waiter
	var parts []string
	if w.Position > 1 {
		parts = append(parts, "waits "+v.behind(w))
	}
	if p.Overdue > 0 {
		parts = append(parts, fmt.Sprintf(
			"its waiting_timeout ended %s and it waits for an approval (lockkeeper approvals ls)", v.since(p.Overdue)))
	}
	for _, ask := range p.Asks {
		parts = append(parts, v.asking(p, ask))
	}
	return strings.Join(append(parts, v.end(p)), "; ")
}

// since says since when something is so for that long.
func (v Words) since(d time.Duration) string {
	if v.Absolute {
		return "at " + v.when(v.State.At.Add(-d))
	}
	return Human(d) + " ago"
}

func (v Words) behind(w lock.Contender) string {
	before := v.State.Waiters[:w.Position-1]
	text := fmt.Sprintf("behind %d", len(before))
	if together := !slices.ContainsFunc(before, func(b lock.Contender) bool { return !w.Mode.Admits(b.Mode) }); together {
		text = fmt.Sprintf("together with the %d before it", len(before))
	}
	return text
}

func (v Words) asking(p inspect.Prospect, ask inspect.ProspectAsk) string {
	text, evict := fmt.Sprintf("preempts %s now", ask.Holder.Owner), "evicts"
	if ask.After > 0 {
		text = fmt.Sprintf("will preempt %s at %s", ask.Holder.Owner, v.when(v.State.At.Add(ask.After)))
		evict = "evict"
	}
	if ask.Reason == priority.LeaseExpired {
		text += " (end of its lease)"
	}
	if ask.Reason == priority.Outranked && ask.After > 0 && ask.Holder.MinRuntimeLeft > 0 {
		text += " (end of its min_runtime)"
	}
	if p.Waiter.Forceful || ask.Reason == priority.LeaseExpired {
		text += ", then " + evict + " it"
	}
	return text
}

func (v Words) end(p inspect.Prospect) string {
	at := v.when(v.State.At.Add(p.After))
	switch p.Outcome {
	case inspect.OutcomeGranted:
		if p.After <= 0 {
			return "gets it now"
		}
		return "gets it at " + at + " at the latest"
	case inspect.OutcomeTakesOver:
		if p.After <= 0 {
			return "takes the lock now"
		}
		return "takes the lock at " + at + ", unless it is released before"
	case inspect.OutcomeGivesUp:
		return "gives up at " + at + ", unless it is released before (waiting_timeout)"
	case inspect.OutcomeTimesOut:
		return "gives up at " + at + ", unless it is released before (acquire_timeout)"
	case inspect.OutcomeInLine, inspect.OutcomeRefused:
	}
	return undecided
}

// undecided is said of one whose end does not follow.
const undecided = "those before it decide how long"

// behindMany is what is said of one that far behind.
func (v Words) behindMany(before int) string { return fmt.Sprintf("waits behind %d", before) }

// Eviction says who lost the lock by force. Of the State it needs the time.
func (v Words) Eviction(e lock.Eviction) string {
	text := e.Owner + " lost it"
	if !e.At.IsZero() {
		text += " at " + v.when(e.At) + ","
	}
	switch e.Reason {
	case "":
		text += fmt.Sprintf(" broken by %s: %s", e.By, e.Why)
	case lock.Superseded:
		text += fmt.Sprintf(" to %s, who has adopted its hold", e.By)
	case priority.LeaseExpired:
		text += fmt.Sprintf(" to %s, after its lease and its grace period", e.By)
	default:
		text += fmt.Sprintf(" to %s, who outranked it, after its grace period", e.By)
	}
	if o := e.Override; o != nil {
		text += fmt.Sprintf("; override %s of %s: %s", o.ID, o.By, o.Reason)
	}
	return text
}

// Delay says until when a lock is not granted because of a holder that has gone
// without releasing it.
func (v Words) Delay(d lock.Delay) string {
	whom := "no request is"
	if d.Mode == priority.Shared {
		whom = "no exclusive request is"
	}
	if d.Until.IsZero() {
		return fmt.Sprintf("delayed after the unclean end of %s: %s granted it for %s from the next request on (lock_delay)",
			d.Owner, whom, Human(d.LockDelay))
	}
	until := Clock(d.Until)
	if !v.Absolute {
		until += fmt.Sprintf(", %s more,", Human(d.Until.Sub(v.State.At)))
	}
	return fmt.Sprintf("delayed until about %s after the unclean end of %s: %s granted it before (lock_delay %s)",
		until, d.Owner, whom, Human(d.LockDelay))
}

// UncleanEnds names those whose ends delay a lock.
func UncleanEnds(delays []lock.Delay) string {
	return "after the unclean end of " +
		words.Join(delays, ", ", func(d lock.Delay) string { return fmt.Sprintf("%q", d.Owner) })
}

// Hold says with how many others a holder has the lock as one.
func (v Words) Hold(h lock.Contender) string {
	others := -1
	for _, o := range v.State.Holders {
		if o.Hold == h.Hold && o.Token == h.Token {
			others++
		}
	}
	switch {
	case others <= 0:
		return "hold " + h.Hold
	case others == 1:
		return fmt.Sprintf("hold %s, together with 1 other: the lock is held until both have gone", h.Hold)
	}
	return fmt.Sprintf("hold %s, together with %d others: the lock is held until all have gone", h.Hold, others)
}

// LevelText writes a priority for people.
func LevelText(p priority.Level) string {
	if p == priority.Emergency {
		return "emergency"
	}
	return fmt.Sprint(int(p))
}

// ShellWord writes s as one word of a shell.
func ShellWord(s string) string {
	plain := func(r rune) bool {
		return r > 0x7f || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' ||
			strings.ContainsRune("/._-:@%+=,", r)
	}
	if !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// BreakCommand is the command that takes the lock from a holder.
func BreakCommand(n inspect.WaitNode) string {
	return fmt.Sprintf("lockkeeper locks break %s --token %s --reason WHY", ShellWord(n.Scope), n.Token)
}
