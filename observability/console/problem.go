package console

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// A problem is an answer that says why there is no other one, as RFC 9457 has it.
type problem struct {
	Type     string         `json:"type"` // about:blank
	Title    string         `json:"title"`
	Status   int            `json:"status"`
	Detail   string         `json:"detail"`
	Next     string         `json:"next,omitempty"`     // what to do about it
	Problems []fieldProblem `json:"problems,omitempty"` // with what was sent
	Act      string         `json:"act,omitempty"`      // what the audit trail calls what was begun
	Unsure   bool           `json:"-"`                  // what was begun may have been done
}

func (p *problem) Error() string {
	if p.Next == "" {
		return p.Detail
	}
	return p.Detail + "; " + p.Next
}

func badFields(all []fieldProblem) *problem {
	return &problem{
		Status: http.StatusUnprocessableEntity, Title: "Invalid input", Problems: all,
		Detail: all[0].Field + ": " + all[0].Detail, Next: "correct that, and send it again",
	}
}

func notFound(detail, next string) *problem {
	return &problem{Status: http.StatusNotFound, Title: "Not found", Detail: detail, Next: next}
}

// problemOf makes an answer of an error. Errors of ours say what to do next
// themselves.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	p := &problem{Status: http.StatusInternalServerError, Title: "Failed", Detail: err.Error()}
	if fields := fieldsOf(err); len(fields) > 0 {
		p = badFields(fields)
		return p
	}
	switch {
	case is[*lock.UnavailableError](err), errors.Is(err, context.DeadlineExceeded):
		p.Status, p.Title = http.StatusServiceUnavailable, "ZooKeeper does not answer"
		p.Next = "try again; lockkeeper doctor says what is wrong"
	case is[*lock.StaleTokenError](err), is[*lock.NotHeldError](err):
		p.Status, p.Title = http.StatusConflict, "The holder has changed"
		p.Next = "look at the lock as it is now"
	case is[*NotKnownError](err):
		p.Status, p.Title = http.StatusNotFound, "Not found"
	case is[*opstore.NoOverrideError](err), is[*opstore.NoApprovalError](err):
		p.Status, p.Title = http.StatusNotFound, "No such override or approval"
	case is[*lock.IdentityError](err), is[*lock.UntrustedError](err), is[*lock.AccessError](err),
		is[*lock.EmergencyError](err):
		p.Status, p.Title = http.StatusForbidden, "The daemon lacks the permission"
		p.Next = "give the daemon the credentials of an operator: " +
			"zookeeper: {auth: ..., operators: [...]} in its configuration"
	case is[*lock.RequestError](err):
		p.Status, p.Title = http.StatusUnprocessableEntity, "Invalid input"
		p.Next = "correct that, and send it again"
	case is[*http.MaxBytesError](err):
		p.Status, p.Title = http.StatusRequestEntityTooLarge, "Too large"
		p.Next = "send less than 64 KiB"
	}
	return p
}

// failed says what has become of a deed that ended with an error. One that had begun
// may have been done when ZooKeeper has not said so.
func failed(done Done, err error) *problem {
	p := problemOf(err)
	if done.Act == "" {
		return p
	}
	p.Act = done.Act
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || is[*lock.UnavailableError](err) {
		p.Title, p.Unsure = "Perhaps done", true
		p.Detail = "it had begun, and ZooKeeper has not said whether it was done: " + p.Detail
		p.Next = "look whether it was done before you try again; it is on record as " + done.Act
	}
	return p
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// fieldsOf returns what is wrong with an override, field by field.
func fieldsOf(err error) (all []fieldProblem) {
	if field, ok := err.(*override.FieldError); ok { //nolint:errorlint // joined errors are looked at one by one
		return []fieldProblem{{Field: strings.TrimPrefix(field.Field, "match."), Detail: field.Reason}}
	}
	switch e := err.(type) { //nolint:errorlint // likewise
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			all = append(all, fieldsOf(err)...)
		}
	case interface{ Unwrap() error }:
		all = fieldsOf(e.Unwrap())
	}
	return all
}

// writeProblem answers in JSON.
func writeProblem(w http.ResponseWriter, p problem) {
	p.Type = "about:blank"
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(p) // the client has gone
}

// refuse answers as the client wants it: the API in JSON, pages as pages.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, p problem) {
	if strings.HasPrefix(r.URL.Path, "/api/") {
		writeProblem(w, p)
		return
	}
	c.problemPage(w, r, &p)
}
