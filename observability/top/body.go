package top

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/observability/lettering"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/picture"
	"github.com/lockkeeper/lockkeeper/priority"
)

// How much is shown of one lock. The rest is counted.
const (
	mostRequests = 200 // holders, and waiters
	mostNames    = 5   // of those that one waits for
	mostBars     = 12  // of the timeline
)

// bodyHead is above a page of text.
func (v View) bodyHead(look Look) []string {
	lines := look.lines(v.width, v.heading()...)
	title := "Keys"
	if v.page == lockPage {
		title = lettering.Line(v.open)
	}
	return append(lines, look.paint(look.cutMiddle(title, v.width), strong))
}

// bodyRoom is how many lines of a page of text there is room for.
func (v View) bodyRoom() int { return max(1, v.height-len(v.bodyHead(Look{}))-1) }

func (v View) drawBody(look Look) []string {
	lines := v.bodyHead(look)
	body := v.body(look)
	room := v.bodyRoom()
	first := max(0, min(v.scroll, len(body)-room))
	last := min(first+room, len(body))
	lines = append(lines, body[first:last]...)
	var where []phrase
	if len(body) > room {
		where = []phrase{{fmt.Sprintf("lines %d-%d of %d", first+1, last, len(body)), usual}}
	}
	return v.finish(lines, v.hints(look, where, "Esc back", "q quit", "up/down scroll", "? help"))
}

// body is the text of a page, folded.
func (v View) body(look Look) []string {
	t := &text{look: look, width: max(1, v.width)}
	if v.page == help {
		t.help()
		return t.lines
	}
	l := v.find(v.open)
	if l == nil {
		t.say("", usual, "This lock is gone: it was unused for long.")
		return t.lines
	}
	v.tell(t, l)
	return t.lines
}

// A text is a page while it is written.
type text struct {
	look  Look
	width int
	lines []string
}

// say writes a sentence behind a lead; its further lines begin below its first.
func (t *text) say(lead string, s style, format string, args ...any) {
	in := lettering.Columns(lead)
	if in > t.width/2 {
		lead, in = "", 0
	}
	for i, line := range lettering.Fold(fmt.Sprintf(format, args...), t.width-in) {
		if i > 0 {
			lead = strings.Repeat(" ", in)
		}
		t.lines = append(t.lines, lead+t.look.paint(t.look.cut(line, t.width-in), s))
	}
}

func (t *text) title(words string) {
	t.lines = append(t.lines, "", t.look.paint(t.look.cut(words, t.width), strong))
}

// tell writes all that is known of one lock.
func (v View) tell(t *text, l *live.Lock) {
	v.summary(t, l)
	v.holders(t, l)
	v.queue(t, l)
	v.timeline(t)
}

func (v View) summary(t *text, l *live.Lock) {
	state := v.stateOf(l).String()
	if l.Mode != nil {
		state += ", " + l.Mode.String()
	}
	if n := len(l.Waiters); n > 0 {
		state += fmt.Sprintf(", %d waiting, the oldest %s", n, v.oldestWait(l))
	} else {
		state += ", no waiters"
	}
	if l.Ensemble != "" {
		state += "; on the ensemble " + lettering.Line(l.Ensemble)
	}
	t.say("", v.stateOf(l).style(), "%s", state)
	switch {
	case l.InCircle:
		t.say("", alarm,
			"The waiters wait for each other: lockkeeper locks why %s says how to end it.", live.ShellWord(l.Scope))
	case l.RootBlocker != nil:
		r := l.RootBlocker
		where := ""
		if r.Scope != l.Scope {
			where = ", which " + r.State + " " + r.Scope
		}
		t.say("root blocker: ", usual, "%s (%s)%s", r.Owner, live.LevelWords(r.Priority), where)
	}
	for _, d := range l.Delays {
		until := "from the next request on, for " + live.Human(time.Duration(d.LockDelay)*time.Millisecond)
		if d.Until != nil {
			until = "until " + v.moment(*d.Until)
		}
		t.say("delayed: ", notice, "after the unclean end of %s, %s", d.Owner, until)
	}
	if l.Damage != "" {
		t.say("damaged: ", alarm, "%s", l.Damage)
	}
	if n := len(l.Foreign); n > 0 {
		t.say("", faint, "%s that are no requests: ignored", words.Count(n, "node"))
	}
}

// moment writes a time, and how far it is.
func (v View) moment(at time.Time) string {
	return live.Short(at, v.seen.At) + ", " + live.Relative(at, v.seen.At)
}

func (v View) holders(t *text, l *live.Lock) {
	if len(l.Holders) == 0 {
		return
	}
	t.title("HELD BY")
	for i, h := range l.Holders {
		if i == mostRequests {
			t.say("", faint, "and %d more: lockkeeper locks show %s -o wide", len(l.Holders)-i, live.ShellWord(l.Scope))
			break
		}
		t.say("", usual, "%s (%s)", h.Owner, kindOf(h.Contender))
		left := leaseWords(h.LeaseLeft)
		if h.LeaseLeft > 0 {
			left += " left"
		}
		t.say("    ", usual, "since %s; lease of %s: %s",
			v.moment(h.Since), live.Human(time.Duration(h.LeaseTimeout)*time.Millisecond), left)
		t.place(h.Contender, fmt.Sprintf(", token %s", h.Token))
		if h.MinLeft > 0 {
			t.say("    ", usual, "not preempted for a priority for %s more (min_runtime)", leaseWords(h.MinLeft))
		}
		for _, by := range h.PreemptedBy {
			t.say("    ", notice, "%s", v.asked(by))
		}
	}
}

func kindOf(c live.Contender) string {
	words := live.LevelWords(c.Priority)
	if c.Mode == priority.Shared {
		words += ", shared"
	}
	if o := c.Override; o != nil {
		words += ", override " + o.ID
	}
	return words
}

func (t *text) place(c live.Contender, more string) {
	t.say("    ", faint, "host %s, pid %d%s", c.Host, c.PID, more)
	if c.Message != "" {
		t.say("    ", faint, "message: %s", c.Message)
	}
}

// asked says who has preempted a holder, and what then.
func (v View) asked(by live.Preemptor) string {
	words := fmt.Sprintf("preempted by %s (%s) %s",
		by.Owner, live.LevelWords(by.Priority), live.Relative(by.Since, v.seen.At))
	if by.Reason == priority.LeaseExpired {
		words += ", because its lease was over"
	}
	switch {
	case by.Grace <= 0:
		words += "; it has no grace period"
	case by.Until.After(v.seen.At):
		words += "; its grace period ends at " + v.moment(by.Until)
	default:
		words += "; its grace period ended " + live.Relative(by.Until, v.seen.At)
	}
	if by.Forceful || by.Reason == priority.LeaseExpired {
		return words + "; evicted after that, unless it releases first"
	}
	return words + "; polite: " + by.Owner + " waits for the release"
}

func (v View) queue(t *text, l *live.Lock) {
	if len(l.Waiters) == 0 {
		return
	}
	names := map[string]string{}
	for _, h := range l.Holders {
		names[h.ID] = h.Owner
	}
	for _, w := range l.Waiters {
		names[w.ID] = w.Owner
	}
	t.title("WAITING, in the order in which they get it")
	for i, w := range l.Waiters {
		if i == mostRequests {
			t.say("", faint, "and %d more: lockkeeper locks show %s -o wide", len(l.Waiters)-i, live.ShellWord(l.Scope))
			break
		}
		words := kindOf(w.Contender)
		if w.Forceful {
			words += ", forceful"
		}
		t.say(fmt.Sprintf("%2d. ", w.Position), usual, "%s (%s) since %s", w.Owner, words, v.moment(w.WaitingSince))
		if w.Why != "" {
			t.say("    why: ", usual, "%s", w.Why)
		}
		if len(w.Blockers) > 0 {
			t.say("    waits for: ", usual, "%s", named(w.Blockers, names))
		}
		t.place(w.Contender, "")
	}
}

func named(ids []string, names map[string]string) string {
	all := make([]string, len(ids))
	for i, id := range ids {
		all[i] = cmp.Or(names[id], "another request")
	}
	return words.Few(all, mostNames)
}

func (v View) timeline(t *text) {
	if len(v.history.Rows) == 0 {
		return
	}
	const least = 40 // of a picture
	var b strings.Builder
	o := picture.TextOptions{
		Width: t.width, Now: v.seen.At, ASCII: t.look.ASCII, Colour: t.look.Colour && t.width >= least, Rows: mostBars,
	}
	if picture.TimelineText(&b, v.history, o) != nil {
		return
	}
	t.title("TIMELINE")
	_, drawn, _ := strings.Cut(strings.TrimRight(b.String(), "\n"), "\n") // the scope stands above
	for line := range strings.SplitSeq(drawn, "\n") {
		if t.width < least {
			line = t.look.cut(line, t.width)
		}
		t.lines = append(t.lines, line)
	}
}

// help explains the keys.
func (t *text) help() {
	for _, k := range [][2]string{
		{"q, Ctrl-C", "leave"},
		{"up k, down j", "move; PgUp, PgDn (space): by a page; Home g, End G: to the ends"},
		{"Enter", "open the chosen lock: who holds it, who waits and why, its timeline"},
		{"Esc", "back; in the list: all locks again"},
		{"s", "sort by oldest wait, waiters, state, scope"},
		{"r", "reverse the order"},
		{"/", "filter by what is typed, in scopes and owners; Enter keeps it, Esc clears it"},
		{"?", "this page"},
	} {
		t.say(fill(k[0], 14), usual, "%s", k[1])
	}
	t.title("STATES")
	for _, s := range [][2]string{
		{"cycle", "some wait for each other: locks why says how to end it"},
		{"damaged", "its node cannot be read: lockkeeper doctor"},
		{"preempting", "a holder has been preempted, and may be cleaning up"},
		{"delayed", "free, and not granted yet after an unclean end (lock_delay)"},
		{"held, free", "has a holder, has no holder"},
	} {
		t.say(fill(s[0], 14), usual, "%s", s[1])
	}
	t.title("COLUMNS")
	t.say("", usual, "SINCE is how long it is held. LEASE is what is left of the holder's lease; "+
		"over: the next request gets the lock. OLDEST is how long the oldest waiter has waited. "+
		"The ROOT BLOCKER has to release first, so that the lock moves. Times are those of the ZooKeeper servers. BLIND: "+
		"ZooKeeper does not answer, and the display is the last known state.")
}
