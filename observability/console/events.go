package console

import (
	"encoding/json"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/observability/live"
)

// eventsModel is what has happened, the newest first.
type eventsModel struct {
	Rows  []eventRow
	Scope string
	Kind  string
	Kinds []option
	Total int
}

type eventRow struct {
	live.Entry
	Path string
	When template.HTML
	Tone string // for its colour: good, bad, warn or ""
}

// kindGroups are what one looks for.
var kindGroups = map[string][]live.EntryKind{
	"trouble": {
		live.EntryTakeover, live.EntryBreak, live.EntryLost, live.EntryDamaged, live.EntryBlind,
		live.EntryDeadlock, live.EntryAtRisk, live.EntryStuck, live.EntryRefused, live.EntryLeaseExpired,
	},
	"preemption": {
		live.EntryPreempted, live.EntryWithdrawn, live.EntryLeaseExpired, live.EntryTakeover, live.EntryBreak,
		live.EntryCleanup, live.EntryApproval,
	},
	"operators": {live.EntryBreak, live.EntryOverride, live.EntryApproval},
}

func drawEvents(v *visit) (any, error) {
	m := &eventsModel{Scope: v.text("scope")}
	m.Kind = v.choice("kind", "all", "trouble", "preemption", "operators")
	if len(v.problems) > 0 {
		return m, nil
	}
	for _, k := range []string{"all", "trouble", "preemption", "operators"} {
		m.Kinds = append(m.Kinds, option{k, v.With("kind", unless(k, "all")), k == m.Kind})
	}
	const most = 200
	m.Rows = v.eventRows(m.Scope, m.Kind, most)
	m.Total = int(v.snap.Entries)
	return m, nil
}

// eventRows are the newest entries about a scope ("": all) of a group of kinds
// ("": all).
func (v *visit) eventRows(scope, kind string, most int) []eventRow {
	entries := v.c.o.Board.Entries(0, 0)
	kinds, some := kindGroups[kind]
	var rows []eventRow
	for _, e := range slices.Backward(entries) {
		if len(rows) == most {
			break
		}
		if scope != "" && !strings.Contains(e.Scope, scope) || some && !slices.Contains(kinds, e.Kind) {
			continue
		}
		row := eventRow{Entry: e, When: v.Clock(e.At), Tone: toneOf(e.Kind)}
		if e.Scope != "" {
			row.Path = scopePath(e.Scope)
		}
		rows = append(rows, row)
	}
	return rows
}

func toneOf(k live.EntryKind) string {
	switch k {
	case live.EntryGranted, live.EntrySighted:
		return "good"
	case live.EntryTakeover, live.EntryBreak, live.EntryLost, live.EntryDamaged, live.EntryBlind, live.EntryDeadlock,
		live.EntryAtRisk, live.EntryStuck:
		return "bad"
	case live.EntryPreempted, live.EntryLeaseExpired, live.EntryRefused, live.EntryOverride, live.EntryApproval,
		live.EntryCleanup:
		return "warn"
	default:
		return ""
	}
}

// entriesPage is what happened, in JSON: the oldest first.
type entriesPage struct {
	Entries []live.Entry `json:"entries"`
	Next    uint64       `json:"next"` // what after is to be next time
	Newest  uint64       `json:"newest"`
}

// maxEntries is how many entries one answer has.
const maxEntries = 1000

// apiEvents answers with a page of entries, or with all that come.
func (c *Console) apiEvents(w http.ResponseWriter, r *http.Request) {
	p := &params{values: r.URL.Query()}
	after := uint64(p.number("after", 0, 0, 1<<62))
	most := int(p.number("limit", 100, 1, maxEntries))
	if all := p.done(); len(all) > 0 {
		writeProblem(w, *badFields(all))
		return
	}
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		if last := r.Header.Get("Last-Event-ID"); last != "" {
			n, err := strconv.ParseUint(last, 10, 63)
			if err != nil {
				writeProblem(w,
					*badFields([]fieldProblem{{Field: "Last-Event-ID", Detail: quoted(last) + " is not the number of an entry"}}))
				return
			}
			after = n
		}
		c.pushEntries(w, r, after)
		return
	}
	page := entriesPage{Entries: c.o.Board.Entries(after, most), Next: after, Newest: c.o.Board.Now().Entries}
	if page.Entries == nil {
		page.Entries = []live.Entry{}
	}
	if n := len(page.Entries); n > 0 {
		page.Next = page.Entries[n-1].N
	}
	writeJSON(w, page)
}

// pushEntries sends all entries after one, as they come.
func (c *Console) pushEntries(w http.ResponseWriter, r *http.Request, after uint64) {
	p := c.openPush(w, r)
	if p == nil {
		return
	}
	defer p.leave()
	ctx := r.Context()
	changed := c.watch(ctx)
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	again := time.NewTicker(recheck)
	defer again.Stop()
	if p.send([]byte(": entries, as they come\n\n")) != nil {
		return
	}
	for {
		for more := true; more; {
			entries := c.o.Board.Entries(after, maxEntries)
			if !stillKnown(ctx) { // by the time of the last of them
				return
			}
			more = len(entries) == maxEntries
			var out []byte
			for _, e := range entries {
				data, err := json.Marshal(e)
				if err != nil {
					return
				}
				out = append(out, "event: entry\nid: "+strconv.FormatUint(e.N, 10)+"\ndata: "+string(data)+"\n\n"...)
				after = e.N
			}
			if len(out) > 0 && p.send(out) != nil {
				return
			}
		}
		select {
		case <-changed:
		case <-again.C:
		case <-alive.C:
			if p.send([]byte(": ka\n\n")) != nil {
				return
			}
		case <-c.ending.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}
