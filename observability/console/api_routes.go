package console

import (
	"net/http"
	"strings"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

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
	limitParam = queryParam{"limit", "integer", "How many at most, 100 by default, at most 1000."}
	rangeParam = queryParam{"range", "10m|1h|6h|24h", "How far to go back from now."}
)

// routes are all of the API.
func (c *Console) routes() []route { //nolint:funlen // a table: one entry for each route
	return []route{
		{
			method: "GET", path: "/api/v1/locks", summary: "All locks: who holds them, how many wait, who blocks whom.",
			answer: locksPage{}, handler: c.apiLocks,
			query: []queryParam{
				{"q", "string", "Part of a scope, or of the name or host of a holder or waiter."},
				{"state", "all|waiting|held|free|trouble", "Which locks."},
				{"sort", "scope|blocked|waiters|oldest|since|lease", "What comes first."},
				{"waiters", "integer", "How many of each queue to list, 1 by default, at most 1000: " +
					"waiters_more are there besides, waiter_count are there in all."},
				{"holders", "integer", "How many holders of each lock to list, 10 by default, at most 1000: holders_more are " +
					"there besides, holder_count are there in all. An answer lists 5000 holders and waiters at most."},
				{"limit", "integer", "How many locks at most, 100 by default, at most 1000."},
				{"offset", "integer", "How many locks to leave out at the beginning; total is how many fit."},
			},
		},
		{
			method: "GET", path: "/api/v1/locks/{scope}", summary: "One lock: its holders, its queue and why each one waits, " +
				"and the requests that overrides keep out of it. Slashes in the scope may be escaped (%2F).",
			answer: lockAnswer{}, handler: c.apiLock,
			query: []queryParam{
				{"waiters", "integer", "How many of its queue to list, 100 by default, at most 1000: " +
					"waiters_more are there behind them, waiter_count are there in all."},
				{"offset", "integer", "How many of its queue to leave out at the beginning."},
				{"holders", "integer", "How many of its holders to list, 100 by default, at most 1000: " +
					"holders_more are there besides, holder_count are there in all."},
			},
		},
		{
			method: "GET", path: "/api/v1/locks/{scope}/timeline",
			summary: "What happened to a lock: who waited and held when. Slashes in the scope may be escaped (%2F).",
			query:   []queryParam{rangeParam}, answer: live.Timeline{}, handler: c.apiTimeline,
		},
		{method: "POST", path: "/api/v1/locks/{scope}/preempt", summary: "Preempt the holders of a lock. Slashes in the " +
			"scope have to be escaped (%2F).", body: "preempt", answer: Done{}, handler: c.apiDeed("preempt", "scope")},
		{
			method: "POST", path: "/api/v1/locks/{scope}/break", summary: "Take a lock from its holder at once; " +
				"confirm repeats the scope. Slashes in the scope have to be escaped (%2F).",
			body: "break", answer: Done{}, handler: c.apiDeed("break", "scope"),
		},
		{
			method: "GET", path: "/api/v1/waits", summary: "Who waits for whom, and cycles.", answer: waitsAnswer{},
			handler: c.apiWaits, query: []queryParam{
				{"limit", "integer", "How many requests at most, 200 by default, at most 1000: " +
					"those of cycles in any case, then those that wait for each other over several locks, then the longest queues. " +
					"hidden is how many are left out."},
			},
		},
		{
			method: "GET", path: "/api/v1/heat", summary: "Time lost by waiting: by lock and slice of time.",
			answer: live.Heat{}, handler: c.apiHeat,
			query: []queryParam{rangeParam, {"columns", "integer", "How many slices."}},
		},
		{
			method: "GET", path: "/api/v1/jobs", summary: "All jobs, as lockkeeper jobs ls has them.", answer: []views.Job{},
			names: true, handler: apiFact(c, c.jobs),
		},
		{
			method: "GET", path: "/api/v1/jobs/{name}", summary: "One job: its history and its next ticks.",
			answer: views.JobDetail{}, handler: c.apiJob,
		},
		{
			method: "POST", path: "/api/v1/jobs/{name}/pause", summary: "Keep a job from running.", body: "pause",
			answer: Done{}, handler: c.apiDeed("pause", "name"),
		},
		{
			method: "POST", path: "/api/v1/jobs/{name}/resume", summary: "Let a paused job run again.", body: "resume",
			answer: Done{}, handler: c.apiDeed("resume", "name"),
		},
		{
			method: "POST", path: "/api/v1/jobs/{name}/run", summary: "Have a job run now.", body: "run", answer: Done{},
			handler: c.apiDeed("run", "name"),
		},
		{
			method: "GET", path: "/api/v1/groups", summary: "All lock groups, as lockkeeper group ls has them.",
			answer: []views.Group{}, names: true, handler: apiFact(c, c.groups),
		},
		{
			method: "GET", path: "/api/v1/groups/{name}", summary: "One lock group: who holds which of its locks.",
			answer: views.Group{}, handler: c.apiGroup,
		},
		{
			method: "GET", path: "/api/v1/overrides", summary: "The overrides in force, as lockkeeper override ls has them.",
			answer: []views.Override{}, names: true, handler: apiFact(c, c.overrides),
		},
		{
			method: "POST", path: "/api/v1/overrides", summary: "Put an override in force.", body: "apply", answer: Done{},
			handler: c.apiDeed("apply", ""),
		},
		{
			method: "POST", path: "/api/v1/overrides/{id}/clear", summary: "Clear an override.", body: "clear", answer: Done{},
			handler: c.apiDeed("clear", "id"),
		},
		{
			method: "GET", path: "/api/v1/approvals", summary: "What waits for a decision, as lockkeeper approvals ls has it.",
			answer: []views.Approval{}, names: true, handler: apiFact(c, c.approvals),
		},
		{method: "POST", path: "/api/v1/approvals/{id}/approve", summary: "Let a request take its lock when the grace of " +
			"the holder is over.", body: "approve", answer: Done{}, handler: c.apiDeed("approve", "id")},
		{
			method: "POST", path: "/api/v1/approvals/{id}/force", summary: "Let a request take its lock at once.",
			body: "force", answer: Done{}, handler: c.apiDeed("force", "id"),
		},
		{
			method: "POST", path: "/api/v1/approvals/{id}/deny", summary: "Let a request fail.", body: "deny", answer: Done{},
			handler: c.apiDeed("deny", "id"),
		},
		{
			method: "GET", path: "/api/v1/audit",
			summary: "Who did what to whose locks, the oldest first, as lockkeeper audit has it.",
			answer:  []opstore.AuditRecord{}, names: true, handler: c.apiAudit,
			query: []queryParam{
				{"scope", "string", "Only scopes that fit the pattern."},
				{"by", "string", "Only records whose author has this in the name or identity."},
				{"within", "string", "Only what is not older, for example 2h."},
				limitParam,
			},
		},
		{
			method: "GET", path: "/api/v1/events", summary: "What happened, the oldest first; with Accept: text/event-stream " +
				"all that happens from now on, an event of the name entry each.", answer: entriesPage{}, handler: c.apiEvents,
			query: []queryParam{{"after", "integer", "The number of the last entry that is known."}, limitParam},
		},
		{
			method: "GET", path: "/api/v1/openapi.json", summary: "This description.", answer: map[string]any{},
			handler: c.apiSpec,
		},
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
