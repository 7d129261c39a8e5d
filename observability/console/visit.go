package console

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"time"

	"github.com/lockkeeper/lockkeeper/observability/live"
)

// A visit is one look at a page.
type visit struct {
	*params
	c      *Console
	ctx    context.Context
	r      *http.Request
	now    time.Time
	snap   *live.Snapshot
	person string

	form     url.Values // what was sent, and has to be corrected
	problem  *problem   // why
	question string     // or confirmed, and what with
}

func (c *Console) visit(r *http.Request) *visit {
	return &visit{
		params: &params{values: r.URL.Query()}, c: c, ctx: r.Context(), r: r, now: c.o.Now().UTC(), snap: c.o.Board.Now(),
		person: who(r.Context()),
	}
}

// Moments, as pages show them. They go on in the browser.

// Ago is how long ago something was.
func (v *visit) Ago(t time.Time) template.HTML {
	return v.moment(t, "ago", human(max(0, v.now.Sub(t))))
}

// Until is how long it takes to something, or how long it is over.
func (v *visit) Until(t time.Time) template.HTML {
	if d := t.Sub(v.now); d < 0 {
		return v.moment(t, "until", human(-d)+" over")
	}
	return v.moment(t, "until", human(t.Sub(v.now)))
}

// Clock is when something was.
func (v *visit) Clock(t time.Time) template.HTML { return v.moment(t, "", clock(t, v.now)) }

func (v *visit) moment(t time.Time, kind, text string) template.HTML {
	if t.IsZero() {
		return "–"
	}
	t = t.UTC()
	data := ""
	if kind != "" {
		data = fmt.Sprintf(` data-%s="%d"`, kind, t.UnixMilli())
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s UTC"%s>%s</time>`, //nolint:gosec // no foreign text is in it
		t.Format(time.RFC3339), t.Format("2006-01-02 15:04:05"), data, text))
}

// Blind says since when nothing is known, nil while that is not so.
func (v *visit) Blind() *live.Blind { return v.snap.Blind }

// Complete reports whether all locks have been looked at.
func (v *visit) Complete() bool { return v.snap.Complete }

// Seen is when the newest of what is shown was seen.
func (v *visit) Seen() time.Time { return v.snap.At }

// Seeing reports whether anything was seen at all.
func (v *visit) Seeing() bool { return !v.snap.At.IsZero() }

// CanAct reports whether the person can do anything here.
func (v *visit) CanAct() bool { return v.c.o.Operator != nil && v.person != "" }

// WhyNot says why not, and what to do about it.
func (v *visit) WhyNot() string {
	switch {
	case v.c.o.Operator == nil:
		return v.c.o.Refusal
	case v.person == "":
		if v.c.o.Users != nil {
			return "You are not signed in, so actions are disabled."
		}
		return "You are not signed in: " + v.c.howToSignIn() + "."
	}
	return ""
}

// CanSignIn reports whether it would help to sign in here.
func (v *visit) CanSignIn() bool {
	return v.c.o.Operator != nil && v.person == "" && v.c.o.Users != nil
}

// Here is the address of the page.
func (v *visit) Here() string {
	query := v.r.URL.Query()
	query.Del("live")
	query.Del("done")
	if len(query) == 0 {
		return v.r.URL.EscapedPath()
	}
	return v.r.URL.EscapedPath() + "?" + query.Encode()
}

// With is the address of the page with something else in its query.
func (v *visit) With(pairs ...string) string {
	query := v.r.URL.Query()
	query.Del("live")
	query.Del("done")
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			query.Del(pairs[i])
		} else {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	if len(query) == 0 {
		return v.r.URL.EscapedPath()
	}
	return v.r.URL.EscapedPath() + "?" + query.Encode()
}

// Sent is what somebody has written into a field and has to correct.
func (v *visit) Sent(field string) string { return v.form.Get(field) }

// Wrong is what is wrong with a field, "" for nothing.
func (v *visit) Wrong(field string) string {
	if v.problem == nil {
		return ""
	}
	for _, p := range v.problem.Problems {
		if p.Field == field {
			return p.Detail
		}
	}
	return ""
}

// Question is what has to be confirmed, "" for nothing.
func (v *visit) Question() string { return v.question }

// Problem says why a form was refused, nil if it was not.
func (v *visit) Problem() *problem { return v.problem }

// Person is the name of the visitor, "" if not signed in.
func (v *visit) Person() string { return v.person }
