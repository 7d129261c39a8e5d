package console

import (
	"bytes"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// signInModel is the page to sign in at.
type signInModel struct {
	Next, Name string
	Problem    *problem
	Can        bool
	Refusal    string
}

func (c *Console) signInPage(w http.ResponseWriter, r *http.Request) {
	c.drawSignIn(w, r, http.StatusOK, signInModel{Next: localPath(r.URL.Query().Get("next"))})
}

func (c *Console) drawSignIn(w http.ResponseWriter, r *http.Request, status int, m signInModel) {
	m.Can = c.o.Users != nil
	m.Refusal = c.o.Refusal
	var out bytes.Buffer
	if err := c.templates.ExecuteTemplate(&out, "signin", m); err != nil {
		c.refuse(w, r, *problemOf(err))
		return
	}
	c.shell(w, r, status, shell{Title: "Sign in", Body: tidy(out.Bytes())})
}

// localPath is where to go on: a page of ours, or the first one.
func localPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(next, "/") ||
		strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") {
		return "/"
	}
	return next
}

func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		c.refuse(w, r, *problemOf(formError(err)))
		return
	}
	m := signInModel{Next: localPath(r.PostForm.Get("next")), Name: clip(r.PostForm.Get("name"))}
	if c.o.Users == nil {
		c.refuse(w, r, problem{
			Status: http.StatusForbidden, Title: "No sign-in here", Detail: "there is no file of users", Next: c.o.Refusal,
		})
		return
	}
	name, password := r.PostForm.Get("name"), r.PostForm.Get("password")
	proof, err := c.o.Users.check(r.Context(), c.remote(r), name, password)
	var key string
	if err == nil {
		key, err = c.sessions.begin(name, proof)
	}
	if err != nil {
		m.Problem = problemOf(err)
		c.drawSignIn(w, r, m.Problem.Status, m)
		return
	}
	for _, before := range c.keys(r) {
		c.sessions.end(before)
	}
	c.log.Info("user signed in to the console", "name", name, "from", c.remote(r))
	http.SetCookie(w, c.cookie(key, c.secure(r), fullTime))
	http.Redirect(w, r, m.Next, http.StatusSeeOther)
}

func (c *Console) signOut(w http.ResponseWriter, r *http.Request) {
	for _, key := range c.keys(r) {
		c.sessions.end(key)
	}
	http.SetCookie(w, c.cookie("", c.secure(r), 0))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// notes are what was done, until the next page has said so.
type notes struct {
	now func() time.Time
	mu  sync.Mutex
	all map[string]note
}

// A note says what was done.
type note struct {
	Text, Act string
	at        time.Time
}

const (
	maxNotes  = 1000
	noteLasts = 5 * time.Minute
)

func newNotes(now func() time.Time) *notes { return &notes{now: now, all: map[string]note{}} }

func (n *notes) put(one note) (key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	one.at = n.now()
	for key, old := range n.all {
		if one.at.Sub(old.at) > noteLasts || len(n.all) >= maxNotes {
			delete(n.all, key)
		}
	}
	key = rand.Text()
	n.all[key] = one
	return key
}

// take returns a note, nil when there is none.
func (n *notes) take(key string) *note {
	n.mu.Lock()
	defer n.mu.Unlock()
	one, ok := n.all[key]
	if !ok {
		return nil
	}
	return &one
}
