package console

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// lockModel is the page of one lock.
type lockModel struct {
	Scope   string
	Path    string
	Known   bool // it has been seen
	Lock    live.Lock
	Summary string
	Title   string // of the window
	Holders []holderCard
	Waiters []waiterRow
	Frozen  []frozenRow // that overrides keep out of the queue
	More    int         // of those, that are not listed
	Asks    []approvalRow
	Pages   pages
	Ranges  []option
	Range   string
	Picture template.HTML
	History []spellRow
	Deltas  []delta
	Events  []eventRow
	Since   template.HTML // nothing is known before; "" when that does not matter
	Oldest  template.HTML

	Form *lockForm // that is open
}

// A holderCard is one who has the lock.
type holderCard struct {
	live.Holder
	Since    template.HTML
	Lease    template.HTML
	Over     bool
	Left     int // percent of the lease
	Trace    string
	Workflow string
	Asked    []askedBy
	Preempt  string // where its form is
	Break    string
	Cleans   bool // it is cleaning up
}

// A frozenRow is a request that an override keeps out.
type frozenRow struct {
	live.Request
	Since template.HTML
	Doing string
}

type askedBy struct {
	live.Preemptor
	Ago   template.HTML
	Until template.HTML
}

// A waiterRow is one in the queue.
type waiterRow struct {
	live.Waiter
	Since    template.HTML
	Blockers []live.GraphNode
	Trace    string
	Workflow string
	Delayed  bool // only the lock-delay is in its way
}

// waitersPerPage is how many of a queue are shown at a time.
const waitersPerPage = 50

var ranges = []struct {
	name string
	is   time.Duration
}{{"10m", 10 * time.Minute}, {"1h", time.Hour}, {"6h", 6 * time.Hour}, {"24h", 24 * time.Hour}}

// timeRange reads how far a picture goes back.
func (v *visit) timeRange() (time.Duration, string, []option) {
	name := v.choice("range", "10m", "1h", "6h", "24h")
	var options []option
	is := ranges[0].is
	for _, r := range ranges {
		options = append(options, option{r.name, v.With("range", unless(r.name, "10m")), r.name == name})
		if r.name == name {
			is = r.is
		}
	}
	return is, name, options
}

//nolint:funlen // one field of the page after the other
func drawLock(v *visit) (any, error) {
	scope := v.r.PathValue("scope")
	if _, err := lock.EscapeScope(scope); err != nil {
		return nil, &problem{
			Status: 422, Title: "No such lock", Detail: "this cannot be the name of a lock: " + err.Error(), Next: "begin at /",
		}
	}
	m := &lockModel{Scope: scope, Path: scopePath(scope), Lock: live.Lock{Scope: scope, State: "free"}}
	back, name, options := v.timeRange()
	m.Range, m.Ranges = name, options
	at := int(v.number("from", 0, 0, 1_000_000))
	form, err := v.lockForm(scope)
	if err != nil {
		return nil, err
	}
	m.Form = form
	if len(v.problems) > 0 && v.problem == nil {
		return m, nil
	}
	if l := v.lock(scope); l != nil {
		m.Known, m.Lock = true, *l
	}
	m.Lock.Frozen = v.frozen(scope)
	for i, r := range m.Lock.Frozen {
		if i == waitersPerPage {
			m.More = len(m.Lock.Frozen) - i
			break
		}
		m.Frozen = append(m.Frozen, frozenRow{r, v.Ago(r.Since), r.AbsoluteWords(v.now)})
	}
	m.Asks = v.approvalsFor(scope)
	m.Summary, m.Title = v.summary(&m.Lock), scope+": "+v.state(scope)
	if m.Lock.OldestWait != nil {
		m.Oldest = v.Ago(*m.Lock.OldestWait)
	}
	for i := range m.Lock.Holders {
		if i == waitersPerPage {
			break
		}
		m.Holders = append(m.Holders, v.holderCard(m, &m.Lock.Holders[i]))
	}
	nodes := map[string]live.GraphNode{}
	for _, n := range v.snap.Waits.Nodes {
		nodes[n.ID] = n
	}
	waiters, pages := paged(v, m.Lock.Waiters, at, waitersPerPage)
	m.Pages = pages
	for _, w := range waiters {
		m.Waiters = append(m.Waiters, v.waiterRow(w, nodes))
	}
	timeline := v.c.o.Board.Timeline(scope, v.now.Add(-back), v.now)
	if timeline.Known.After(v.now.Add(-back)) {
		m.Since = v.Ago(timeline.Known)
		timeline = v.c.o.Board.Timeline(scope, timelineFrom(timeline.Known, v.now, back), v.now)
	}
	m.Picture, err = v.timelinePicture(timeline)
	if err != nil {
		return nil, err
	}
	m.History = v.history(timeline)
	m.Deltas = v.deltas(timeline)
	m.Events = v.eventRows(scope, "", 20)
	return m, nil
}

// frozen are the requests for a lock that overrides keep out of its queue.
func (v *visit) frozen(scope string) []live.Request {
	return live.FrozenFor(scope, v.c.frozen.get(v.ctx).Is)
}

// approvalsFor are the questions about a lock that wait for a decision.
func (v *visit) approvalsFor(scope string) (rows []approvalRow) {
	for _, a := range v.c.approvals.get(v.ctx).Is {
		if a.Scope != scope || a.Decision != nil {
			continue
		}
		row := approvalRow{Approval: a, Path: scopePath(a.Scope), Opened: v.Ago(a.Opened)}
		if a.Until != nil {
			row.Until = v.Until(*a.Until)
		}
		rows = append(rows, row)
	}
	return rows
}

// timelineFrom is where a timeline begins that would be blank for a part: where
// something is known, but not so late that moments fill it.
func timelineFrom(known, now time.Time, back time.Duration) time.Time {
	const least = 15 * time.Second
	if late := now.Add(-min(least, back)); known.After(late) {
		return late
	}
	return known
}

// summary is the lock in a sentence.
func (v *visit) summary(l *live.Lock) string {
	waiting := "no waiters"
	if n := len(l.Waiters); n > 0 {
		waiting = count(n, "request") + " " + map[bool]string{true: "waits", false: "wait"}[n == 1]
	}
	if n := len(l.Frozen); n > 0 {
		waiting += fmt.Sprintf(", %d frozen", n)
	}
	switch n := len(l.Holders); {
	case l.Damage != "":
		return "Damaged: " + l.Damage
	case n == 0 && len(l.Delays) > 0:
		return fmt.Sprintf("Free, and not granted yet: %s ended without releasing it; %s.", l.Delays[0].Owner, waiting)
	case n == 0 && len(l.Waiters) > 0:
		return fmt.Sprintf("Free; %s is about to get it.", l.Waiters[0].Owner)
	case n == 0 && len(l.Frozen) > 0:
		return fmt.Sprintf("Free; no waiters, %d frozen.", len(l.Frozen))
	case n == 0:
		return "Free: no holder, no waiters."
	case n == 1:
		return fmt.Sprintf("Held by %s; %s.", l.Holders[0].Owner, waiting)
	default:
		return fmt.Sprintf("Held by %s together; %s.", count(n, "request"), waiting)
	}
}

func (v *visit) holderCard(m *lockModel, h *live.Holder) holderCard {
	end := leaseEnd(&m.Lock, h)
	card := holderCard{
		Holder: *h, Since: v.Ago(h.Since), Lease: v.Until(end), Over: !end.After(v.now), Cleans: h.State == live.CleaningUp,
	}
	if h.LeaseTimeout > 0 {
		card.Left = int(max(0, min(100, 100*end.Sub(v.now)/millis(h.LeaseTimeout))))
	}
	card.Workflow = v.c.o.Links.workflowURL(workflowOf(h.Message), "")
	card.Trace = v.c.o.Links.traceURL(h.Trace)
	for _, p := range h.PreemptedBy {
		card.Asked = append(card.Asked, askedBy{p, v.Ago(p.Since), v.Until(p.Until)})
	}
	card.Preempt = v.With("do", "preempt", "token", h.Token.String()) + "#act"
	card.Break = v.With("do", "break", "token", h.Token.String()) + "#act"
	return card
}

// workflowOf returns the ID of the workflow that a message names, as the activities
// of package temporal do; "" if it names none.
func workflowOf(message string) string {
	id, ok := strings.CutPrefix(message, "workflow ")
	if !ok || id == "" || strings.ContainsAny(id, " \t\n") {
		return ""
	}
	return id
}

func (v *visit) waiterRow(w live.Waiter, nodes map[string]live.GraphNode) waiterRow {
	row := waiterRow{
		Waiter: w, Delayed: w.State == live.Delayed, Since: v.Ago(w.WaitingSince),
		Workflow: v.c.o.Links.workflowURL(workflowOf(w.Message), ""), Trace: v.c.o.Links.traceURL(w.Trace),
	}
	for _, id := range w.Blockers {
		if n, ok := nodes[id]; ok {
			row.Blockers = append(row.Blockers, n)
		}
	}
	return row
}
