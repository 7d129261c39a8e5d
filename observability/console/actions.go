package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// A deed is what somebody wants done.
type deed struct {
	verb   string
	target string // a scope, a job, or an ID
	do     func(ctx context.Context, o Operator) (Done, error)

	// ask says what a person is asked before a form is carried out; nil: nothing.
	ask      func(ctx context.Context, o Operator) (string, error)
	answered bool // it has been

	back string // the page to go to when it is done
}

// deedPatience is how long an act may take. A preemption is waited for no longer
// than it takes to be sent.
const deedPatience = 30 * time.Second

// A deedBody has the fields that a deed needs, and those that it may have.
type deedBody struct{ must, may []string }

// deedBodies are all that can be done.
var deedBodies = map[string]deedBody{
	"preempt": {must: []string{"reason"}, may: []string{"token", "force", "grace"}},
	"break":   {must: []string{"reason", "token", "confirm"}},
	"apply": {
		must: []string{"reason", "id", "kind", "for"},
		may:  []string{"scope", "job", "all", "below", "above", "priority", "forceful", "waiting", "lease", "cleanup", "acquire", "token"},
	},
	"clear":   {must: []string{"reason"}},
	"approve": {must: []string{"reason"}},
	"force":   {must: []string{"reason"}},
	"deny":    {must: []string{"reason"}},
	"pause":   {must: []string{"reason"}, may: []string{"for"}},
	"resume":  {must: []string{"reason"}},
	"run":     {must: []string{"reason"}},
}

func (b deedBody) fields() []string { return slices.Concat(b.must, b.may) }

// deedTypes are the types in JSON that a field of a deed may have.
func deedTypes(field string) []string {
	switch field {
	case "all", "force":
		return []string{"boolean"}
	case "forceful":
		return []string{"boolean", "string"}
	case "above", "below", "priority", "token":
		return []string{"integer", "string"}
	}
	return []string{"string"}
}

const longest = 366 * 24 * time.Hour

// deed reads what is wanted. What is wrong with it is collected in p.
func (c *Console) deed(verb, target, person string, p *params) deed {
	by := By{Name: person, Reason: p.text("reason")}
	if by.Reason == "" && !p.isWrong("reason") {
		p.wrong("reason", "is missing; write why, for those who look at the record")
	}
	d := deed{verb: verb, target: target}
	switch verb {
	case "preempt":
		d.back = scopePath(target)
		e := Preemption{Scope: target, Token: p.token(), By: by, Force: p.flag("force"), Grace: p.maybeDuration("grace", 0, longest)}
		if e.Grace != nil && !e.Force {
			p.wrong("grace", "has no meaning without force; leave it empty")
		}
		d.do = func(ctx context.Context, o Operator) (Done, error) { return o.Preempt(ctx, e) }
	case "break":
		d.back = scopePath(target)
		token := p.token()
		if token == 0 && !p.isWrong("token") {
			p.wrong("token", "is missing; write the token of the holder")
		}
		if p.text("confirm") != target {
			p.wrong("confirm", "is not the name of the lock; write %s", quoted(target))
		}
		d.do = func(ctx context.Context, o Operator) (Done, error) { return o.Break(ctx, target, token, by) }
	case "apply":
		d.back = "/overrides"
		one := c.override(p, by)
		d.target, d.answered = one.ID, p.flag("confirm")
		d.do = func(ctx context.Context, o Operator) (Done, error) { return o.Apply(ctx, one) }
		if one.ForAll() {
			d.ask = func(ctx context.Context, o Operator) (string, error) { return forAll(ctx, o, one) }
		}
	case "clear":
		d.back = "/overrides"
		d.do = func(ctx context.Context, o Operator) (Done, error) { return o.Clear(ctx, target, by) }
	case "approve", "force", "deny":
		d.back = "/approvals"
		decision := opstore.Decision{Approved: verb != "deny", Force: verb == "force", By: by.Name, Reason: by.Reason}
		d.do = func(ctx context.Context, o Operator) (Done, error) { return o.Decide(ctx, target, decision) }
	case "pause":
		d.back = "/jobs/" + escapePath(target)
		var until time.Time
		if length := p.maybeDuration("for", time.Second, longest); length != nil {
			until = c.o.Now().Add(*length)
		}
		d.do = func(ctx context.Context, o Operator) (Done, error) { return o.Pause(ctx, target, until, by) }
	case "resume":
		d.back = "/jobs/" + escapePath(target)
		d.do = func(ctx context.Context, o Operator) (Done, error) { return o.Resume(ctx, target, by) }
	case "run":
		d.back = "/jobs/" + escapePath(target)
		d.do = func(ctx context.Context, o Operator) (Done, error) { return o.Run(ctx, target, by) }
	}
	return d
}

func (p *params) isWrong(field string) bool {
	return slices.ContainsFunc(p.problems, func(f fieldProblem) bool { return f.Field == field })
}

// token reads a fencing token; 0 for none.
func (p *params) token() lock.Token { return lock.Token(p.number("token", 0, 1, 1<<62)) }

// level reads a priority; nil for none.
func (p *params) level(name string) *priority.Level {
	text := p.text(name)
	if text == "" {
		return nil
	}
	if text == "emergency" {
		return new(priority.Emergency)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n == int64(priority.Emergency) {
		p.wrong(name, "%s is no priority; write a whole number from 0 to %d, or emergency", quoted(text), priority.Emergency-1)
		return nil
	}
	level, err := priority.LevelOf(n)
	if err != nil {
		p.wrong(name, "%v", err)
		return nil
	}
	return &level
}

// term reads a timeout of an override; nil for none. What is wrong with one that is negative, the override says.
func (p *params) term(name string) *time.Duration {
	if d, err := time.ParseDuration(p.values.Get(name)); err == nil && d < 0 {
		p.known = append(p.known, name)
		return &d
	}
	return p.maybeDuration(name, 0, longest)
}

// override reads one as the form has it.
func (c *Console) override(p *params, by By) override.Override {
	now := c.o.Now()
	o := override.Override{
		ID: p.text("id"), Kind: override.Kind(p.text("kind")), By: by.Name, Reason: by.Reason,
		Match:    override.Match{Scope: p.text("scope"), Job: p.text("job"), PriorityBelow: p.level("below"), PriorityAbove: p.level("above")},
		Priority: p.level("priority"), Token: int64(p.token()),
		WaitingTimeout: p.term("waiting"), LeaseTimeout: p.term("lease"),
		CleanupTimeout: p.term("cleanup"), AcquireTimeout: p.term("acquire"),
	}
	if text := p.text("forceful"); text != "" {
		o.Forceful = new(p.flag("forceful"))
	}
	length := p.maybeDuration("for", time.Second, longest)
	if length == nil {
		if !p.isWrong("for") {
			p.wrong("for", "is missing; write how long it lasts, for example 2h")
		}
		length = new(time.Minute)
	}
	o.Until = now.Add(*length).UTC().Truncate(time.Millisecond)
	switch all := p.flag("all"); {
	case p.isWrong("all"):
	case o.ForAll() && !all:
		p.wrong("all", "is missing: neither a scope nor a job limits this %s, and it would match everything; write one of them, or set all", o.Kind)
	case all && !o.ForAll() && o.Match.Scope+o.Match.Job != "":
		p.wrong("all", "is more than the scope or the job says; leave out one of them")
	}
	probe := o
	if probe.Reason == "" {
		probe.Reason = "said already"
	}
	for _, f := range fieldsOf(probe.Validate(override.Limits{Now: now, MaxDuration: longest, AllowBypass: true})) {
		if name := formField(f.Field); !p.isWrong(name) {
			p.wrong(name, "%s", f.Detail)
		}
	}
	return o
}

// forAll asks whether an override that matches everything is meant.
func forAll(ctx context.Context, o Operator, one override.Override) (string, error) {
	ctx, cancel := withPatience(ctx)
	defer cancel()
	n, err := o.Concerns(ctx, one)
	if err != nil {
		return "", err
	}
	what := "request"
	if one.Kind == override.Pause {
		what = "job"
	}
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%s (%s) matches everything: %d %s now, and later ones", one.ID, one.Kind, n, what), nil
}

// formField is what the form calls a field of an override.
func formField(field string) string {
	switch field {
	case "match", "scope":
		return "scope"
	case "until":
		return "for"
	case "priority_below":
		return "below"
	case "priority_above":
		return "above"
	case "waiting_timeout", "lease_timeout", "cleanup_timeout", "acquire_timeout":
		return field[:len(field)-len("_timeout")]
	}
	return field
}

// may says why somebody may not do anything; nil if she may.
func (c *Console) may(person string) *problem {
	switch {
	case c.o.Operator == nil:
		return &problem{Status: http.StatusForbidden, Title: "This console is read-only", Detail: "nothing can be done here", Next: c.o.Refusal}
	case person == "":
		return &problem{Status: http.StatusUnauthorized, Title: "Not signed in", Detail: "you are not signed in", Next: c.howToSignIn()}
	}
	return nil
}

// carryOut does what is wanted. The act is not cut short when the browser goes.
func (c *Console) carryOut(ctx context.Context, person string, d deed) (Done, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deedPatience)
	defer cancel()
	done, err := d.do(ctx, c.o.Operator)
	words := []any{"by", person, "deed", d.verb, "target", clip(d.target), "act", done.Act}
	if err != nil {
		c.log.Warn("action of the console failed", append(words, "error", err)...)
		return done, err
	}
	c.log.Info("action of the console done", words...)
	c.approvals.forget()
	c.jobs.forget()
	c.overrides.forget()
	return done, nil
}

// submit does what a form says, and shows the page again.
func (c *Console) submit(w http.ResponseWriter, r *http.Request, p page) {
	if err := r.ParseForm(); err != nil {
		c.refuse(w, r, *problemOf(formError(err)))
		return
	}
	person := who(r.Context())
	v := c.visit(r)
	v.form = r.PostForm
	again := func(bad *problem) {
		v.problem = bad
		body, err := c.fragment(v, p)
		status := http.StatusOK
		switch {
		case bad != nil && err != nil:
			c.problemPage(w, r, bad)
			return
		case err != nil:
			c.problemPage(w, r, problemOf(err))
			return
		case bad != nil:
			status = bad.Status
		}
		c.shell(w, r, status, shell{Title: p.title(v), Menu: p.menu, Live: "", Body: body})
	}
	if bad := c.may(person); bad != nil {
		again(bad)
		return
	}
	v.params = &params{values: r.PostForm}
	d, err := p.act(v)
	wrong := v.done("do", "id", "csrf")
	v.params = &params{values: r.URL.Query()}
	switch {
	case err != nil:
		again(problemOf(err))
		return
	case len(wrong) > 0:
		again(badFields(wrong))
		return
	}
	if d.ask != nil && !d.answered {
		if v.question, err = d.ask(r.Context(), c.o.Operator); err != nil {
			again(problemOf(err))
			return
		}
		again(nil)
		return
	}
	done, err := c.carryOut(r.Context(), person, d)
	if err != nil {
		again(failed(done, err))
		return
	}
	http.Redirect(w, r, d.back+"?done="+c.notes.put(note{Text: done.Text, Act: done.Act}), http.StatusSeeOther)
}

func formError(err error) error {
	if is[*http.MaxBytesError](err) {
		return err
	}
	return &problem{Status: http.StatusBadRequest, Title: "Not a form", Detail: "what was sent cannot be read: " + clip(err.Error()), Next: "load the page again"}
}

func actOnLock(v *visit) (deed, error) {
	verb := v.form.Get("do")
	scope := v.r.PathValue("scope")
	if _, err := lock.EscapeScope(scope); err != nil {
		return deed{}, err
	}
	if verb != "preempt" && verb != "break" {
		return deed{}, unknownDeed(verb)
	}
	return v.c.deed(verb, scope, v.person, v.params), nil
}

func actOnJob(v *visit) (deed, error) {
	switch verb := v.form.Get("do"); verb {
	case "pause", "resume", "run":
		return v.c.deed(verb, v.r.PathValue("name"), v.person, v.params), nil
	default:
		return deed{}, unknownDeed(verb)
	}
}

func actOnOverrides(v *visit) (deed, error) {
	switch verb := v.form.Get("do"); verb {
	case "apply":
		return v.c.deed(verb, "", v.person, v.params), nil
	case "clear":
		return v.c.deed(verb, v.form.Get("id"), v.person, v.params), nil
	default:
		return deed{}, unknownDeed(verb)
	}
}

func actOnApprovals(v *visit) (deed, error) {
	switch verb := v.form.Get("do"); verb {
	case "approve", "force", "deny":
		return v.c.deed(verb, v.form.Get("id"), v.person, v.params), nil
	default:
		return deed{}, unknownDeed(verb)
	}
}

func unknownDeed(verb string) error {
	return &problem{Status: http.StatusBadRequest, Title: "Unknown action", Detail: "there is no action " + quoted(verb) + " here", Next: "load the page again"}
}

// Forms that are open: by a link, or because what was sent has to be corrected.

// opened returns what somebody wants to do, and to whom.
func (v *visit) opened(verbs ...string) (verb, id, token string) {
	verb, id, token = v.text("do"), v.text("id"), v.text("token")
	if v.form != nil {
		verb, id, token = v.form.Get("do"), v.form.Get("id"), v.form.Get("token")
	}
	if !slices.Contains(verbs, verb) {
		if verb != "" && v.form == nil {
			v.wrong("do", "%s is none of what can be done here", quoted(verb))
		}
		return "", "", ""
	}
	return verb, clip(id), clip(token)
}

// lockForm preempts a holder, or breaks its lock.
type lockForm struct {
	Verb  string
	Token string
	Owner string // "": that token has no holder any more
	Close string
}

func (v *visit) lockForm(scope string) (*lockForm, error) {
	verb, _, token := v.opened("preempt", "break")
	if verb == "" {
		return nil, nil
	}
	f := &lockForm{Verb: verb, Token: token, Close: scopePath(scope)}
	if l := v.lock(scope); l != nil {
		for _, h := range l.Holders {
			if h.Token.String() == token {
				f.Owner = h.Owner
			}
		}
	}
	return f, nil
}

// jobForm pauses, resumes or runs a job.
type jobForm struct{ Verb, Close string }

func (v *visit) jobForm(name string) (*jobForm, error) {
	verb, _, _ := v.opened("pause", "resume", "run")
	if verb == "" {
		return nil, nil
	}
	return &jobForm{Verb: verb, Close: "/jobs/" + escapePath(name)}, nil
}

// overrideForm applies an override, or clears one.
type overrideForm struct{ Verb, ID, Close string }

func (v *visit) overrideForm() (*overrideForm, error) {
	verb, id, _ := v.opened("apply", "clear")
	if verb == "" {
		return nil, nil
	}
	return &overrideForm{Verb: verb, ID: id, Close: "/overrides"}, nil
}

// approvalForm decides about a question.
type approvalForm struct{ Verb, ID, Close string }

func (v *visit) approvalForm() (*approvalForm, error) {
	verb, id, _ := v.opened("approve", "force", "deny")
	if verb == "" {
		return nil, nil
	}
	return &approvalForm{Verb: verb, ID: id, Close: "/approvals"}, nil
}

// apiDeed does what a request in JSON says.
func (c *Console) apiDeed(verb, pathValue string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		person := who(r.Context())
		if bad := c.may(person); bad != nil {
			if bad.Status == http.StatusUnauthorized && c.o.Users != nil {
				w.Header().Set("WWW-Authenticate", `Basic realm="lockkeeper", charset="UTF-8"`)
			}
			writeProblem(w, *bad)
			return
		}
		p, err := jsonParams(r, deedBodies[verb].fields())
		if err != nil {
			writeProblem(w, *problemOf(err))
			return
		}
		target := ""
		if pathValue != "" {
			target = r.PathValue(pathValue)
		}
		if pathValue == "scope" {
			if _, err := lock.EscapeScope(target); err != nil {
				writeProblem(w, *problemOf(err))
				return
			}
		}
		d := c.deed(verb, target, person, p)
		if wrong := p.done(); len(wrong) > 0 {
			writeProblem(w, *badFields(wrong))
			return
		}
		done, err := c.carryOut(r.Context(), person, d)
		if err != nil {
			writeProblem(w, *failed(done, err))
			return
		}
		writeJSON(w, done)
	}
}

// jsonParams reads an object of texts, numbers and truth values.
func jsonParams(r *http.Request, known []string) (*params, error) {
	bad := func(detail string) error {
		return &problem{Status: http.StatusBadRequest, Title: "Not JSON", Detail: detail, Next: "send an object with the fields of /api/v1/openapi.json"}
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, &problem{
			Status: http.StatusUnsupportedMediaType, Title: "Not JSON", Detail: "the content type is " + quoted(r.Header.Get("Content-Type")), Next: "send application/json",
		}
	}
	decoder := json.NewDecoder(r.Body)
	decoder.UseNumber()
	var fields map[string]any
	if err := decoder.Decode(&fields); err != nil {
		if is[*http.MaxBytesError](err) {
			return nil, err
		}
		return nil, bad("the body cannot be read: " + clip(err.Error()))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, bad("there is something behind the object")
	}
	p := &params{values: url.Values{}}
	for name, value := range fields {
		if !slices.Contains(known, name) {
			p.wrong(clip(name), "means nothing here")
			continue
		}
		kind, text := "", ""
		switch is := value.(type) {
		case nil:
			continue
		case string:
			kind, text = "string", is
		case json.Number:
			kind, text = "integer", is.String()
		case bool:
			kind, text = "boolean", strconv.FormatBool(is)
		}
		if types := deedTypes(name); !slices.Contains(types, kind) {
			p.wrong(name, "is not of the type %s", strings.Join(types, " or "))
			continue
		}
		p.values.Set(name, text)
	}
	return p, nil
}
