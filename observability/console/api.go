package console

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

//go:embed openapi.json
var specFile embed.FS

// writeJSON answers with what an API returns.
func writeJSON(w http.ResponseWriter, answer any) {
	data, err := json.MarshalIndent(answer, "", "  ")
	if err != nil {
		writeProblem(w, *problemOf(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(data, '\n')) // the client has gone
}

// A route is one of the API.
type route struct {
	method, path string
	summary      string
	query        []queryParam
	body         string // the verb of a deed; "" for none
	answer       any    // of its type
	names        bool   // what it cannot read, in a header
	handler      http.HandlerFunc
}

// A queryParam is a parameter of a query.
type queryParam struct {
	name, kind, help string // kind: integer or string, or words with | between
}

var (
	limitParam = queryParam{"limit", "integer", "How many at most, 100 unless told, 1000 at most."}
	rangeParam = queryParam{"range", "10m|1h|6h|24h", "How far to go back from now."}
)

// routes are all of the API.
func (c *Console) routes() []route {
	return []route{
		{
			method: "GET", path: "/api/v1/locks", summary: "All locks: who holds them, how many wait, who blocks whom.", answer: locksPage{}, handler: c.apiLocks,
			query: []queryParam{
				{"q", "string", "Part of a scope, or of the name or host of a holder or waiter."},
				{"state", "all|waiting|held|free|trouble", "Which locks."},
				{"sort", "scope|blocked|waiters|oldest|since|lease", "What comes first."},
				{"waiters", "integer", "How many of each queue to list, 1 unless told, 1000 at most: waiters_more are there besides, waiter_count are there in all."},
				{"holders", "integer", "How many holders of each lock to list, 10 unless told, 1000 at most: holders_more are there besides, holder_count are there in all. An answer lists 5000 holders and waiters at most."},
				{"limit", "integer", "How many locks at most, 100 unless told, 1000 at most."},
				{"offset", "integer", "How many locks to leave out at the beginning; total is how many fit."},
			},
		},
		{
			method: "GET", path: "/api/v1/locks/{scope}", summary: "One lock: its holders, its queue and why each one waits, and the requests that overrides keep out of it. Slashes in the scope may be escaped (%2F).", answer: lockAnswer{}, handler: c.apiLock,
			query: []queryParam{
				{"waiters", "integer", "How many of its queue to list, 100 unless told, 1000 at most: waiters_more are there behind them, waiter_count are there in all."},
				{"offset", "integer", "How many of its queue to leave out at the beginning."},
				{"holders", "integer", "How many of its holders to list, 100 unless told, 1000 at most: holders_more are there besides, holder_count are there in all."},
			},
		},
		{
			method: "GET", path: "/api/v1/locks/{scope}/timeline", summary: "What happened to a lock: who waited and held when. Slashes in the scope may be escaped (%2F).",
			query: []queryParam{rangeParam}, answer: live.Timeline{}, handler: c.apiTimeline,
		},
		{method: "POST", path: "/api/v1/locks/{scope}/preempt", summary: "Preempt the holders of a lock. Slashes in the scope have to be escaped (%2F).", body: "preempt", answer: Done{}, handler: c.apiDeed("preempt", "scope")},
		{method: "POST", path: "/api/v1/locks/{scope}/break", summary: "Take a lock from its holder at once; confirm repeats the scope. Slashes in the scope have to be escaped (%2F).", body: "break", answer: Done{}, handler: c.apiDeed("break", "scope")},
		{method: "GET", path: "/api/v1/waits", summary: "Who waits for whom, and cycles.", answer: waitsAnswer{}, handler: c.apiWaits, query: []queryParam{
			{"limit", "integer", "How many requests at most, 200 unless told, 1000 at most: those of cycles in any case, then those that wait for each other over several locks, then the longest queues. hidden is how many are left out."},
		}},
		{method: "GET", path: "/api/v1/heat", summary: "Time lost by waiting: by lock and slice of time.", answer: live.Heat{}, handler: c.apiHeat, query: []queryParam{rangeParam, {"columns", "integer", "How many slices."}}},
		{method: "GET", path: "/api/v1/jobs", summary: "All jobs, as lockkeeper jobs ls has them.", answer: []views.Job{}, names: true, handler: apiFact(c, c.jobs)},
		{method: "GET", path: "/api/v1/jobs/{name}", summary: "One job: its history and its next ticks.", answer: views.JobDetail{}, handler: c.apiJob},
		{method: "POST", path: "/api/v1/jobs/{name}/pause", summary: "Keep a job from running.", body: "pause", answer: Done{}, handler: c.apiDeed("pause", "name")},
		{method: "POST", path: "/api/v1/jobs/{name}/resume", summary: "Let a paused job run again.", body: "resume", answer: Done{}, handler: c.apiDeed("resume", "name")},
		{method: "POST", path: "/api/v1/jobs/{name}/run", summary: "Have a job run now.", body: "run", answer: Done{}, handler: c.apiDeed("run", "name")},
		{method: "GET", path: "/api/v1/groups", summary: "All lock groups, as lockkeeper group ls has them.", answer: []views.Group{}, names: true, handler: apiFact(c, c.groups)},
		{method: "GET", path: "/api/v1/groups/{name}", summary: "One lock group: who holds which of its locks.", answer: views.Group{}, handler: c.apiGroup},
		{method: "GET", path: "/api/v1/overrides", summary: "The overrides in force, as lockkeeper override ls has them.", answer: []views.Override{}, names: true, handler: apiFact(c, c.overrides)},
		{method: "POST", path: "/api/v1/overrides", summary: "Put an override in force.", body: "apply", answer: Done{}, handler: c.apiDeed("apply", "")},
		{method: "POST", path: "/api/v1/overrides/{id}/clear", summary: "Clear an override.", body: "clear", answer: Done{}, handler: c.apiDeed("clear", "id")},
		{method: "GET", path: "/api/v1/approvals", summary: "What waits for a decision, as lockkeeper approvals ls has it.", answer: []views.Approval{}, names: true, handler: apiFact(c, c.approvals)},
		{method: "POST", path: "/api/v1/approvals/{id}/approve", summary: "Let a request take its lock when the grace of the holder is over.", body: "approve", answer: Done{}, handler: c.apiDeed("approve", "id")},
		{method: "POST", path: "/api/v1/approvals/{id}/force", summary: "Let a request take its lock at once.", body: "force", answer: Done{}, handler: c.apiDeed("force", "id")},
		{method: "POST", path: "/api/v1/approvals/{id}/deny", summary: "Let a request fail.", body: "deny", answer: Done{}, handler: c.apiDeed("deny", "id")},
		{
			method: "GET", path: "/api/v1/audit", summary: "Who did what to whose locks, the oldest first, as lockkeeper audit has it.", answer: []opstore.AuditRecord{}, names: true, handler: c.apiAudit,
			query: []queryParam{
				{"scope", "string", "Only scopes that fit the pattern."},
				{"by", "string", "Only actions of persons with this in the name or identity."},
				{"within", "string", "Only what is not older, for example 2h."},
				limitParam,
			},
		},
		{
			method: "GET", path: "/api/v1/events", summary: "What happened, the oldest first; with Accept: text/event-stream all that happens from now on, an event of the name entry each.",
			answer: entriesPage{}, handler: c.apiEvents,
			query: []queryParam{{"after", "integer", "The number of the last entry that is known."}, limitParam},
		},
		{method: "GET", path: "/api/v1/openapi.json", summary: "This description.", answer: map[string]any{}, handler: c.apiSpec},
	}
}

func (c *Console) api(mux *http.ServeMux) {
	for _, r := range c.routes() {
		pattern := r.path
		if r.method == "GET" { // names may have slashes in them
			for _, last := range []string{"{scope}", "{name}"} {
				if strings.HasSuffix(pattern, last) {
					pattern = strings.TrimSuffix(pattern, "}") + "...}"
				}
			}
		}
		mux.HandleFunc(r.method+" "+pattern, r.handler)
	}
}

func (c *Console) apiSpec(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(c.spec)
}

// aboutLocks is what every answer about locks begins with.
type aboutLocks struct {
	At       time.Time   `json:"at"`
	Version  uint64      `json:"version"`
	Complete bool        `json:"complete"` // all locks have been looked at
	Blind    *live.Blind `json:"blind"`    // null: ZooKeeper answers

	Unreadable []lock.Unreadable `json:"unreadable,omitempty"` // nodes in the place of locks, or of lists of locks
}

func about(s *live.Snapshot) aboutLocks {
	return aboutLocks{s.At, s.Version, s.Complete, s.Blind, s.Unreadable}
}

// locksPage are locks in JSON.
type locksPage struct {
	aboutLocks
	Totals live.Totals `json:"totals"` // of all locks
	Total  int         `json:"total"`  // locks that fit
	Offset int         `json:"offset"`
	Locks  []lockItem  `json:"locks"`
}

// lockItem is a lock with a part of its holders and of its queue.
type lockItem struct {
	live.Lock
	HolderCount int `json:"holder_count"`
	HoldersMore int `json:"holders_more"` // that are not listed
	WaiterCount int `json:"waiter_count"`
	WaitersMore int `json:"waiters_more"` // that are not listed, behind those that are
}

// newLockItem lists some of who holds a lock, and of who waits, from a place on.
func newLockItem(l *live.Lock, holders, waiters, from int) lockItem {
	item := lockItem{Lock: *l, HolderCount: len(l.Holders), WaiterCount: len(l.Waiters)}
	item.Holders = listed(l.Holders[:min(holders, len(l.Holders))])
	rest := l.Waiters[min(from, len(l.Waiters)):]
	item.Waiters = listed(rest[:min(waiters, len(rest))])
	item.HoldersMore, item.WaitersMore = len(l.Holders)-len(item.Holders), len(rest)-len(item.Waiters)
	return item
}

const (
	// maxLocks is how many locks one answer has, and how many holders or waiters of a
	// lock it lists.
	maxLocks = 1000

	// maxListed is how many holders and waiters of all its locks it lists.
	maxListed = 5000
)

func (c *Console) apiLocks(w http.ResponseWriter, r *http.Request) {
	v := c.visit(r)
	by := v.choice("sort", "scope", "blocked", "waiters", "oldest", "since", "lease")
	state := v.choice("state", "all", "waiting", "held", "free", "trouble")
	text := v.text("q")
	queue, holders := int(v.number("waiters", 1, 0, maxLocks)), int(v.number("holders", 10, 0, maxLocks))
	limit, offset := int(v.number("limit", 100, 1, maxLocks)), int(v.number("offset", 0, 0, 1_000_000))
	if all := v.done(); len(all) > 0 {
		writeProblem(w, *badFields(all))
		return
	}
	rows := wantedLocks(v.snap.Locks, text, state)
	_, blocked := v.blockers()
	sortLocks(rows, by, blocked)
	answer := locksPage{aboutLocks: about(v.snap), Totals: v.snap.Totals, Total: len(rows), Offset: min(offset, len(rows)), Locks: []lockItem{}}
	room := maxListed
	for _, l := range rows[answer.Offset:min(answer.Offset+limit, len(rows))] {
		some := min(holders, room, len(l.Holders))
		item := newLockItem(l, some, min(queue, room-some), 0)
		room -= len(item.Holders) + len(item.Waiters)
		answer.Locks = append(answer.Locks, item)
	}
	writeJSON(w, answer)
}

// lockAnswer is one lock in JSON.
type lockAnswer struct {
	aboutLocks
	Lock lockItem `json:"lock"`
}

func (c *Console) apiLock(w http.ResponseWriter, r *http.Request) {
	v := c.visit(r)
	scope := r.PathValue("scope")
	if v.lock(scope) == nil {
		if rest, ok := strings.CutSuffix(scope, "/timeline"); ok { // its slashes were not escaped
			r.SetPathValue("scope", rest)
			c.apiTimeline(w, r)
			return
		}
	}
	queue, holders := int(v.number("waiters", 100, 0, maxLocks)), int(v.number("holders", 100, 0, maxLocks))
	from := int(v.number("offset", 0, 0, 1_000_000))
	if all := v.done(); len(all) > 0 {
		writeProblem(w, *badFields(all))
		return
	}
	if _, err := lock.EscapeScope(scope); err != nil {
		writeProblem(w, *problemOf(err))
		return
	}
	l := v.lock(scope)
	if l == nil {
		l = &live.Lock{Scope: scope, State: "free"} // it was never locked
	}
	item := newLockItem(l, holders, queue, from)
	item.Frozen = v.frozen(scope)
	item.Frozen = item.Frozen[:min(maxLocks, len(item.Frozen))]
	writeJSON(w, lockAnswer{about(v.snap), item})
}

func (c *Console) apiTimeline(w http.ResponseWriter, r *http.Request) {
	v := c.visit(r)
	back, _, _ := v.timeRange()
	scope := r.PathValue("scope")
	if all := v.done(); len(all) > 0 {
		writeProblem(w, *badFields(all))
		return
	}
	if _, err := lock.EscapeScope(scope); err != nil {
		writeProblem(w, *problemOf(err))
		return
	}
	t := c.o.Board.Timeline(scope, v.now.Add(-back), v.now)
	t.Rows, t.Marks = listed(t.Rows), listed(t.Marks)
	writeJSON(w, t)
}

// waitsAnswer is the graph in JSON.
type waitsAnswer struct {
	aboutLocks
	Waits live.Graph `json:"waits"`
}

func (c *Console) apiWaits(w http.ResponseWriter, r *http.Request) {
	v := c.visit(r)
	most := int(v.number("limit", 200, 1, live.MaxGraphNodes))
	if all := v.done(); len(all) > 0 {
		writeProblem(w, *badFields(all))
		return
	}
	g := v.snap.Waits.Cut(most)
	g.Nodes, g.Edges, g.Circles = listed(g.Nodes), listed(g.Edges), listed(g.Circles)
	writeJSON(w, waitsAnswer{about(v.snap), g})
}

func (c *Console) apiHeat(w http.ResponseWriter, r *http.Request) {
	v := c.visit(r)
	back, _, _ := v.timeRange()
	columns := int(v.number("columns", heatColumns, 1, 500))
	if all := v.done(); len(all) > 0 {
		writeProblem(w, *badFields(all))
		return
	}
	h := c.o.Board.Heat(v.now.Add(-back), v.now, columns)
	h.Rows = listed(h.Rows)
	writeJSON(w, h)
}

// apiFact answers with a list that was looked up.
func apiFact[T any](c *Console, m *memo[[]T]) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p := &params{values: r.URL.Query()}
		if all := p.done(); len(all) > 0 {
			writeProblem(w, *badFields(all))
			return
		}
		f := m.get(r.Context())
		if f.Err != nil {
			writeProblem(w, *factProblem(f.Err))
			return
		}
		tellLeft(w, f.Left)
		writeJSON(w, listed(f.Is))
	}
}

// leftHeader names what a list cannot read, where the answer is the list itself: a
// node each, as {"path": …, "reason": …} in ASCII.
const leftHeader = "Lockkeeper-Unreadable"

func tellLeft(w http.ResponseWriter, all []lock.Unreadable) {
	for _, u := range (left{all}).Shown() {
		text, err := json.Marshal(u)
		if err == nil {
			w.Header().Add(leftHeader, ascii(string(text)))
		}
	}
}

// ascii writes a text in JSON without other characters.
func ascii(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r < utf8.RuneSelf && r != 0x7f:
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, "\\u%04x\\u%04x", high, low)
		}
	}
	return b.String()
}

// factProblem says why something is not known.
func factProblem(err error) *problem {
	if errors.Is(err, errNotHere) {
		return notFound(err.Error(), "look at the console of a daemon: lockkeeper run")
	}
	p := problemOf(err)
	if p.Status == http.StatusInternalServerError {
		p.Status, p.Title = http.StatusServiceUnavailable, "Not known now"
	}
	return p
}

func (c *Console) apiJob(w http.ResponseWriter, r *http.Request) {
	v := c.visit(r)
	if all := v.done(); len(all) > 0 {
		writeProblem(w, *badFields(all))
		return
	}
	j, err := v.job(r.PathValue("name"))
	if err != nil {
		writeProblem(w, *problemOf(err))
		return
	}
	j.History, j.Ticks = listed(j.History), listed(j.Ticks)
	writeJSON(w, j)
}

func (c *Console) apiGroup(w http.ResponseWriter, r *http.Request) {
	v := c.visit(r)
	if all := v.done(); len(all) > 0 {
		writeProblem(w, *badFields(all))
		return
	}
	f := c.groups.get(r.Context())
	if f.Err != nil {
		writeProblem(w, *factProblem(f.Err))
		return
	}
	name := r.PathValue("name")
	i := slices.IndexFunc(f.Is, func(g views.Group) bool { return g.Name == name })
	if i < 0 {
		writeProblem(w, *notFound("there is no group "+quoted(name), "all groups are at /api/v1/groups"))
		return
	}
	writeJSON(w, f.Is[i])
}

func (c *Console) apiAudit(w http.ResponseWriter, r *http.Request) {
	v := c.visit(r)
	q := opstore.AuditQuery{Scope: v.text("scope"), By: v.text("by")}
	if within := v.maybeDuration("within", time.Second, longest); within != nil {
		q.Since = v.now.Add(-*within)
	}
	q.Limit = int(v.number("limit", 100, 1, maxAudit))
	if all := v.done(); len(all) > 0 {
		writeProblem(w, *badFields(all))
		return
	}
	records, left, err := c.audit(r.Context(), q)
	if err != nil {
		writeProblem(w, *factProblem(err))
		return
	}
	tellLeft(w, left)
	lines := make([]json.RawMessage, 0, len(records))
	for _, r := range records {
		lines = append(lines, r.Line())
	}
	writeJSON(w, lines)
}

// listed is a list that is never null.
func listed[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}
