package console

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/observability/live"
)

//go:embed templates/*.html
var templateFiles embed.FS

// A page is one of those in the menu, or one that they lead to.
type page struct {
	pattern string
	name    string        // of its template
	menu    string        // which entry of the menu it belongs to
	every   time.Duration // how often it is drawn anew although no lock has changed; 0: never
	draw    func(v *visit) (any, error)
	act     func(v *visit) (deed, error) // what its forms do; nil: it has none
}

// factsEvery is how often a page looks at what is not pushed to it.
const factsEvery = 3 * time.Second

func (c *Console) pages(mux *http.ServeMux) {
	for _, p := range []page{
		{pattern: "/{$}", name: "locks", menu: "locks", every: factsEvery, draw: drawLocks},
		{pattern: "/locks/{scope...}", name: "lock", menu: "locks", every: factsEvery, draw: drawLock, act: actOnLock},
		{pattern: "/waits", name: "waits", menu: "waits", draw: drawWaits},
		{pattern: "/heat", name: "heat", menu: "heat", every: factsEvery, draw: drawHeat},
		{pattern: "/jobs", name: "jobs", menu: "jobs", every: factsEvery, draw: drawJobs},
		{pattern: "/jobs/{name...}", name: "job", menu: "jobs", every: factsEvery, draw: drawJob, act: actOnJob},
		{pattern: "/groups", name: "groups", menu: "groups", every: factsEvery, draw: drawGroups},
		{pattern: "/groups/{name...}", name: "group", menu: "groups", every: factsEvery, draw: drawGroup},
		{
			pattern: "/overrides", name: "overrides", menu: "overrides", every: factsEvery, draw: drawOverrides,
			act: actOnOverrides,
		},
		{
			pattern: "/approvals", name: "approvals", menu: "approvals", every: factsEvery, draw: drawApprovals,
			act: actOnApprovals,
		},
		{pattern: "/audit", name: "audit", menu: "audit", every: factsEvery, draw: drawAudit},
		{pattern: "/events", name: "events", menu: "events", draw: drawEvents},
	} {
		mux.HandleFunc("GET "+p.pattern, func(w http.ResponseWriter, r *http.Request) { c.show(w, r, p) })
		if p.act != nil {
			mux.HandleFunc("POST "+p.pattern, func(w http.ResponseWriter, r *http.Request) { c.submit(w, r, p) })
		}
	}
	mux.HandleFunc("GET /locks", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/", http.StatusPermanentRedirect)
	})
}

// view is what a template gets.
type view struct {
	*visit
	M any // of the page
}

// show answers with the page, or keeps it up to date (?live=1).
func (c *Console) show(w http.ResponseWriter, r *http.Request, p page) {
	query := r.URL.Query()
	if query.Get("live") == "1" {
		c.stream(w, r, p.every, func(ctx context.Context) ([]byte, error) {
			r := r.WithContext(ctx)
			key := fmt.Sprintf("%s\x00%s\x00%d", r.URL.RequestURI(), who(ctx), c.o.Board.Now().Version)
			return c.streams.drawn(key, func() ([]byte, error) { return c.fragment(c.visit(r), p) })
		})
		return
	}
	v := c.visit(r)
	body, err := c.fragment(v, p)
	if err != nil {
		c.problemPage(w, r, problemOf(err))
		return
	}
	status := http.StatusOK
	if v.problem != nil {
		status = v.problem.Status
	}
	c.shell(w, r, status,
		shell{Title: p.title(v), Menu: p.menu, Live: liveURL(r.URL), Body: body, Note: c.notes.take(query.Get("done"))})
}

// title names the page in the window.
func (p page) title(v *visit) string {
	name := strings.ToUpper(p.name[:1]) + p.name[1:]
	if scope := v.r.PathValue("scope"); scope != "" {
		return scope + ": " + v.state(scope)
	}
	if at := v.r.PathValue("name"); at != "" {
		return at
	}
	return name
}

// state says of a lock what is to be read in the title of a window.
func (v *visit) state(scope string) string {
	l := v.lock(scope)
	switch {
	case v.snap.Blind != nil || l == nil && !v.snap.Complete:
		return "not known now"
	case l == nil:
		return "free"
	case l.Damage != "":
		return "damaged"
	case len(l.Holders) == 0:
		return "free"
	case len(l.Waiters) > 0:
		return "held, " + thousands(len(l.Waiters)) + " waiting"
	}
	return "held"
}

// liveURL is where a page is kept up to date.
func liveURL(u *url.URL) string {
	query := u.Query()
	query.Del("done")
	query.Set("live", "1")
	return u.EscapedPath() + "?" + query.Encode()
}

// fragment draws what is between header and footer, and is pushed.
func (c *Console) fragment(v *visit, p page) ([]byte, error) {
	model, err := p.draw(v)
	if err != nil {
		return nil, err
	}
	if all := v.done("live", "done"); len(all) > 0 && v.problem == nil {
		return nil, badFields(all)
	}
	var out bytes.Buffer
	if err := c.templates.ExecuteTemplate(&out, p.name, view{visit: v, M: model}); err != nil {
		return nil, err
	}
	return tidy(out.Bytes()), nil
}

// tidy leaves out the empty lines of templates.
func tidy(page []byte) []byte {
	out := page[:0]
	for line := range bytes.Lines(page) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			out = append(append(out, line...), '\n')
		}
	}
	return out
}

// A shell is what is around all pages.
type shell struct {
	Title string
	Menu  string
	Live  string // where it is kept up to date; "" for pages that do not change
	Body  []byte
	Note  *note

	Name, Person, Version, Here    string
	Now                            int64
	Style, Script, HTMX, SSE, Icon string
	CanAct, CanSignIn, CanSignOut  bool
	Entries                        []entry
}

// An entry of the menu.
type entry struct {
	Name, Title, URL string
	Current          bool
}

var menu = []entry{
	{"locks", "Locks", "/", false},
	{"waits", "Waits", "/waits", false},
	{"heat", "Heat", "/heat", false},
	{"jobs", "Jobs", "/jobs", false},
	{"groups", "Groups", "/groups", false},
	{"overrides", "Overrides", "/overrides", false},
	{"approvals", "Approvals", "/approvals", false},
	{"audit", "Audit", "/audit", false},
	{"events", "Events", "/events", false},
}

// HTML is the body as it was drawn: by our templates, which escape.
func (s shell) HTML() template.HTML { return template.HTML(s.Body) } //nolint:gosec // see there

func (c *Console) shell(w http.ResponseWriter, r *http.Request, status int, s shell) {
	s.Name, s.Version, s.Person = c.o.Name, c.o.Version, who(r.Context())
	s.Now = c.o.Now().UnixMilli()
	s.Style, s.Script, s.Icon = c.assets.url("console.css"), c.assets.url("console.js"), c.assets.url("icon.svg")
	s.HTMX, s.SSE = c.assets.url("htmx.min.js"), c.assets.url("hx-sse.min.js")
	s.CanAct = c.o.Operator != nil
	s.CanSignIn = c.o.Users != nil && s.Person == ""
	s.CanSignOut = s.Person != "" && len(c.keys(r)) > 0
	s.Here = r.URL.RequestURI()
	if r.URL.Path == "/sign-in" { // after signing in the user returns to the previous page
		s.Here = localPath(r.URL.Query().Get("next"))
	}
	for _, e := range menu {
		e.Current = e.Name == s.Menu
		s.Entries = append(s.Entries, e)
	}
	var out bytes.Buffer
	if err := c.templates.ExecuteTemplate(&out, "shell", s); err != nil {
		c.log.Error("a page of the console cannot be drawn", "path", r.URL.Path, "error", err)
		http.Error(w, "the page cannot be drawn; the log of the daemon says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // the browser has gone
}

// problemPage says why there is no page.
func (c *Console) problemPage(w http.ResponseWriter, r *http.Request, p *problem) {
	var out bytes.Buffer
	if err := c.templates.ExecuteTemplate(&out, "problem", p); err != nil {
		http.Error(w, p.Error(), p.Status)
		return
	}
	c.shell(w, r, p.Status, shell{Title: p.Title, Body: tidy(out.Bytes())})
}

func (c *Console) parseTemplates() (*template.Template, error) {
	return template.New("").Funcs(template.FuncMap{
		"count": count, "human": human, "level": live.LevelText, "thousands": thousands, "short": short,
		"millis": millis, "does": does,
		"scopePath": scopePath, "breaks": breaks, "escapePath": escapePath, "join": strings.Join,
		"list": func(all ...any) []any { return all },
		"dict": func(pairs ...any) map[string]any {
			m := map[string]any{}
			for i := 0; i+1 < len(pairs); i += 2 {
				m[fmt.Sprint(pairs[i])] = pairs[i+1]
			}
			return m
		},
	}).ParseFS(templateFiles, "templates/*.html")
}

// breaks lets a long name go on in the next line, after its slashes.
func breaks(name string) template.HTML {
	return template.HTML(strings.ReplaceAll(template.HTMLEscapeString(name), "/", "/<wbr>")) //nolint:gosec // it is escaped
}
