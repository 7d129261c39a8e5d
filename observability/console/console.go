package console

import (
	"context"
	"errors"
	"html/template"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A Board is what knows all locks: a *live.Board.
type Board interface {
	Now() *live.Snapshot
	Changes(ctx context.Context) iter.Seq[*live.Snapshot]
	Timeline(scope string, from, to time.Time) live.Timeline
	Heat(from, to time.Time, columns int) live.Heat
	Entries(after uint64, most int) []live.Entry
}

// Options say what a Console shows, and to whom. Board is required.
type Options struct {
	// Board knows all locks.
	Board Board

	// Facts are what is shown beside locks.
	Facts Facts

	// Hosts are the names, beside addresses and localhost, under which browsers
	// find the console. Requests for others are refused.
	Hosts []string

	// Links lead to traces and workflows.
	Links Links

	// Logger gets what goes wrong, and who did what. Defaults to none.
	Logger *slog.Logger

	// Name is what the console is called in titles: which cluster it shows.
	// Defaults to nothing.
	Name string

	// Now is the servers' clock. Defaults to that of this machine.
	Now func() time.Time

	// Operator does what people ask for. nil: the console is read-only, and says
	// Refusal.
	Operator Operator

	// Private shows nothing to those who have not signed in.
	Private bool

	// Proxy and Users authenticate people. Without either, all actions are
	// disabled.
	Proxy *Proxy
	Users *Users

	// Refusal says why there is no Operator, and what to do about it. Defaults to
	// a text about the configuration.
	Refusal string

	// TLS: the console is reached by https alone.
	TLS bool

	// Version is that of the program.
	Version string
}

// A Console shows locks. Make one with New.
type Console struct {
	o         Options
	log       *slog.Logger
	assets    *assets
	hosts     hostNames
	sessions  *sessions
	templates *template.Template
	streams   *streams
	notes     *notes
	spec      []byte

	approvals *memo[[]views.Approval]
	frozen    *memo[[]lock.FrozenRequest]
	groups    *memo[[]views.Group]
	jobs      *memo[[]views.Job]
	overrides *memo[[]views.Override]

	closed func()
	ending context.Context
}

// New checks the options. Nothing runs but what its Handler is asked.
func New(o Options) (*Console, error) {
	var problems []error
	if o.Board == nil {
		problems = append(problems, errors.New("console: the board is nil; make one with live.New"))
	}
	if o.Operator != nil && o.Users == nil && o.Proxy == nil {
		problems = append(problems,
			errors.New("console: an operator without people: give Users, or a Proxy that says who they are"))
	}
	if o.Private && o.Users == nil && o.Proxy == nil {
		problems = append(problems,
			errors.New("console: signing in would be impossible: give Users, or a Proxy that says who they are"))
	}
	if o.Proxy != nil && (o.Proxy.Header == "" || len(o.Proxy.Trusted) == 0) {
		problems = append(problems, errors.New("console: the proxy has no header or no addresses; give both"))
	}
	problems = append(problems, o.Links.check())
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Refusal == "" {
		o.Refusal = defaultRefusal
	}
	c := &Console{
		o: o, log: o.Logger, hosts: newHostNames(o.Hosts), sessions: newSessions(time.Now), notes: newNotes(time.Now),
	}
	c.approvals = newMemo(o.Facts.Approvals, time.Now)
	c.frozen = newMemo(o.Facts.Frozen, time.Now)
	c.groups = newMemo(o.Facts.Groups, time.Now)
	c.jobs = newMemo(o.Facts.Jobs, time.Now)
	c.overrides = newMemo(o.Facts.Overrides, time.Now)
	c.ending, c.closed = context.WithCancel(context.Background())
	c.streams = newStreams()
	var err error
	if c.assets, err = newAssets(); err == nil {
		c.templates, err = c.parseTemplates()
	}
	if err == nil {
		c.spec, err = specFile.ReadFile("openapi.json")
	}
	return c, err
}

const defaultRefusal = "This console is read-only. To act here, set console: {actions: true, users_file: " +
	"FILE} in the configuration of the daemon."

// Close ends the pages that are open, so that a server can be shut down. It may be
// called more than once.
func (c *Console) Close() { c.closed() }

// Handler answers all requests. It may be used by several servers.
func (c *Console) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /static/{file}", c.assets.ServeHTTP)
	c.pages(mux)
	c.api(mux)
	mux.HandleFunc("GET /sign-in", c.signInPage)
	mux.HandleFunc("POST /sign-in", c.signIn)
	mux.HandleFunc("POST /sign-out", c.signOut)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		p := notFound("there is nothing at "+quoted(r.URL.Path), "begin at /")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			p = &problem{
				Status: http.StatusMethodNotAllowed, Title: "Not like this",
				Detail: r.Method + " means nothing at " + quoted(r.URL.Path), Next: "see /api/v1/openapi.json",
			}
		}
		c.refuse(w, r, *p)
	})
	return c.guarded(c.identified(mux))
}

type personKey struct{}

// An identity is who has sent a request.
type identity struct {
	name  string      // "" if not signed in
	holds func() bool // whether that is still so; nil: as long as the request
}

// identified finds out who somebody is.
func (c *Console) identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/static/") {
			next.ServeHTTP(w, r)
			return
		}
		person, err := c.person(r)
		if err != nil {
			c.refuse(w, r, *problemOf(err))
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), personKey{}, person))
		if person.name == "" && c.o.Private && r.URL.Path != "/sign-in" {
			c.demandSignIn(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// who returns the name of the person who sent a request, "" if not signed in.
func who(ctx context.Context) string {
	person, _ := ctx.Value(personKey{}).(identity)
	return person.name
}

// stillKnown reports whether who has sent a request, which may be long ago, would
// be known by it now: she may have signed out, or be in the file no more.
func stillKnown(ctx context.Context) bool {
	person, _ := ctx.Value(personKey{}).(identity)
	return person.holds == nil || person.holds()
}

// demandSignIn says that one has to sign in to see anything.
func (c *Console) demandSignIn(w http.ResponseWriter, r *http.Request) {
	p := problem{
		Status: http.StatusUnauthorized, Title: "Sign in", Detail: "sign-in required", Next: c.howToSignIn(),
	}
	if c.o.Users != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		!strings.HasPrefix(r.URL.Path, "/api/") && r.URL.Query().Get("live") == "" {
		http.Redirect(w, r, "/sign-in?next="+template.URLQueryEscaper(r.URL.RequestURI()), http.StatusSeeOther)
		return
	}
	if c.o.Users != nil && strings.HasPrefix(r.URL.Path, "/api/") {
		w.Header().Set("WWW-Authenticate", `Basic realm="lockkeeper", charset="UTF-8"`)
	}
	c.refuse(w, r, p)
}

func (c *Console) howToSignIn() string {
	if c.o.Users != nil {
		return "sign in at /sign-in, or send name and password (basic authentication) with each request to /api/"
	}
	return "use the proxy that signs you in"
}
