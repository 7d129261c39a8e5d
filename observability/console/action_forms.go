package console

import (
	"net/http"
	"slices"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

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
	return &problem{
		Status: http.StatusBadRequest, Title: "Not a form", Detail: "what was sent cannot be read: " + clip(err.Error()),
		Next: "load the page again",
	}
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
	return &problem{
		Status: http.StatusBadRequest, Title: "Unknown action", Detail: "there is no action " + quoted(verb) + " here",
		Next: "load the page again",
	}
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
