package console

import (
	"context"
	"net/http"
	"slices"
	"time"

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
		may: []string{
			"scope", "job", "all", "below", "above", "priority", "forceful", "waiting", "lease", "cleanup", "acquire", "token",
		},
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
		e := Preemption{
			Scope: target, Token: p.token(), By: by, Force: p.flag("force"), Grace: p.maybeDuration("grace", 0, longest),
		}
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

// token reads a fencing token; 0 for none.
func (p *params) token() lock.Token { return lock.Token(p.number("token", 0, 1, 1<<62)) }

// may says why somebody may not do anything; nil if she may.
func (c *Console) may(person string) *problem {
	switch {
	case c.o.Operator == nil:
		return &problem{
			Status: http.StatusForbidden, Title: "This console is read-only", Detail: "nothing can be done here",
			Next: c.o.Refusal,
		}
	case person == "":
		return &problem{
			Status: http.StatusUnauthorized, Title: "Not signed in", Detail: "you are not signed in", Next: c.howToSignIn(),
		}
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
