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

func (c *Console) apiSpec(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(c.spec)
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
