package jobs

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// StatusError says that the answer to an HTTP request had a status that was
// not expected.
type StatusError struct {
	Body       string        // its beginning, at most 500 bytes
	Location   string        // where a redirect points to; "" if it is none
	Method     string        // of the request
	RetryAfter time.Duration // what the server asks for; 0 if it does not
	Status     int
	URL        string // without user, password and query
}

func (e *StatusError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s was answered with %d", e.Method, e.URL, e.Status)
	if text := http.StatusText(e.Status); text != "" {
		b.WriteString(" " + text)
	}
	if e.Location != "" {
		fmt.Fprintf(&b, ", a redirect to %s that is not followed", e.Location)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, ", try again in %s", e.RetryAfter)
	}
	if e.Body != "" {
		fmt.Fprintf(&b, ": %q", e.Body)
	}
	return b.String()
}

// CallError says that an HTTP request got no answer, or not all of it.
// errors.Is and errors.As find the cause, or what went wrong.
type CallError struct {
	Cause  error  // why the work was cancelled; nil if it was not
	Err    error  // what went wrong; nil if the work was cancelled
	Method string // of the request
	Sent   bool   // the server may have begun to act on it
	URL    string // without user, password and query
}

func (e *CallError) Error() string {
	what := fmt.Sprintf("%s %s", e.Method, e.URL)
	switch {
	case e.Cause != nil && e.Sent:
		return fmt.Sprintf("%s was stopped before its answer: %v", what, e.Cause)
	case e.Cause != nil:
		return fmt.Sprintf("%s was stopped before it was sent: %v", what, e.Cause)
	case e.Sent:
		return fmt.Sprintf("%s was sent, but whether it was done is not known: %v", what, e.Err)
	}
	return fmt.Sprintf("%s could not be sent: %v", what, e.Err)
}

// Is makes errors.Is find lockguard.ErrStopped if the work was cancelled: a
// guard then runs the hooks.
func (e *CallError) Is(target error) bool { return target == lockguard.ErrStopped && e.Cause != nil }

// Unwrap returns the cause, or what went wrong.
func (e *CallError) Unwrap() error {
	if e.Cause != nil {
		return e.Cause
	}
	return e.Err
}
