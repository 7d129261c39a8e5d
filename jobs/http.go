package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// HTTP is one request as Work: the work goes on until the response has been
// read. The server learns of the run by headers:
//
//   - Idempotency-Key: Run.Key, the same in all attempts at a tick. A cleanup
//     hook appends "-cleanup" and the token of its lock.
//   - Lockkeeper-Job, Lockkeeper-Run (the attempt), and Lockkeeper-Scheduled
//     (RFC 3339, of runs that a schedule has started).
//   - Lockkeeper-Scope and Lockkeeper-Token (decimal): of the lock, of several
//     the first one. Lockkeeper-Tokens has the token of each scope, as a JSON
//     object whose values are decimal strings. Let the server refuse a token
//     that is smaller than one it has seen. What is not ASCII in a scope is
//     percent-encoded, and in JSON escaped.
//   - Lockkeeper-Cause, in a cleanup hook: why the work was interrupted
//     (CauseWord).
//   - traceparent: of the trace that the lock belongs to.
//
// When the context ends the request is cancelled, at once; the lock being at
// risk or lost does the same. What the server then does is its own affair: for
// work that has to be undone, add a hook with CleanedBy.
//
// HTTP has no state: it may run several times at once.
type HTTP struct {
	// Body is sent with the request, of whatever Method but GET and HEAD. Its
	// Content-Type, unless Header has one, is application/json if it is JSON.
	Body []byte

	// Client makes the request. Defaults to one of the run's own, which has the
	// proxies of the environment, 10s to connect and as much for the handshake
	// of TLS, no limit for the response (that is the Timeout of the job), and
	// which follows the redirects of a GET or HEAD that stay on their host and port, up
	// to 10. Others are answers like any: failures unless expected.
	Client *http.Client

	// Expect has the statuses that mean success. Defaults to 200 to 299.
	Expect []int

	// Header is sent along. Host is the host that is asked for. What Lockkeeper
	// sets itself may not be there, nor what belongs to the connection.
	Header http.Header

	// MaxOutput bounds, in bytes, how much of the response Job.NewOutput keeps:
	// the end of it. Defaults to 0: DefaultTail.
	MaxOutput int

	// Method defaults to POST.
	Method string

	// URL is absolute, of http or https. A user and a password in it are sent
	// as basic authentication. Errors tell neither them nor the query.
	URL string
}

// Validate returns everything that is wrong with r, joined (errors.Join); each
// problem is a *lockguard.RequestError.
func (r *HTTP) Validate() error {
	if r == nil {
		return &lockguard.RequestError{Field: "http", Reason: "is nil; give the request"}
	}
	var problems []error
	refuse := func(field, format string, args ...any) {
		problems = append(problems, &lockguard.RequestError{Field: field, Reason: fmt.Sprintf(format, args...)})
	}

	r.refuseURL(refuse)
	switch method := r.method(); {
	case !httpguts.ValidHeaderFieldName(method):
		refuse("method", "%q is no method of HTTP; write one such as POST", method)
	case method == http.MethodConnect:
		refuse("method", "CONNECT is for proxies; write one such as POST")
	case method != strings.ToUpper(method):
		refuse("method", "%q is not in capitals; write %s", method, strings.ToUpper(method))
	case readOnly(method) && len(r.Body) > 0:
		refuse("body", "a %s request has none; write another method, or leave the body out", method)
	}
	for name, values := range sorted(r.Header) {
		r.refuseHeader(refuse, name, values)
	}
	for i, status := range r.Expect {
		if status < 200 || status > 599 {
			refuse(fmt.Sprintf("expect[%d]", i),
				"%d is no status that a request ends with; write one between 200 and 599", status)
		}
	}
	if r.MaxOutput < 0 {
		refuse("output", "%d is negative; write how many bytes to keep, or leave it out", r.MaxOutput)
	}
	return errors.Join(problems...)
}

func (r *HTTP) refuseURL(refuse func(field, format string, args ...any)) {
	const instead = "write one such as https://example.com/compact"
	if r.URL == "" {
		refuse("url", "is missing; %s", instead)
		return
	}
	u, err := url.Parse(r.URL)
	switch {
	case err != nil:
		refuse("url", "it is no URL; %s", instead) // the error may tell a password
	case u.Scheme != "http" && u.Scheme != "https":
		refuse("url", "%q is not of http or https; %s", redacted(u), instead)
	case u.Hostname() == "":
		refuse("url", "%q names no host; %s", redacted(u), instead)
	case u.Fragment != "":
		refuse("url", "%q has a fragment, which no server gets; leave out what is behind the #", redacted(u))
	}
}

// Headers that a job cannot set.
var (
	ownHeaders        = []string{"Idempotency-Key", "Traceparent"}
	connectionHeaders = []string{
		"Connection", "Content-Length", "Expect", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding",
		"Upgrade",
	}
)

const ownPrefix = "Lockkeeper-"

func (r *HTTP) refuseHeader(refuse func(field, format string, args ...any), name string, values []string) {
	field := "headers." + name
	key := http.CanonicalHeaderKey(name)
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		refuse("headers", "%q is no name of a header; write letters, digits and hyphens", name)
	case strings.HasPrefix(key, ownPrefix) || slices.Contains(ownHeaders, key):
		refuse(field, "is set by lockkeeper itself; leave it out")
	case slices.Contains(connectionHeaders, key):
		refuse(field, "belongs to the connection, not to the request; leave it out")
	}
	for _, value := range values {
		if !httpguts.ValidHeaderFieldValue(value) { // it may be a secret
			refuse(field, "its value has a control character in it; write it without")
		}
	}
}

// Run sends the request and returns when its response has been read, which goes
// to Run.Stdout.
//
// It returns nil if the status is an expected one; *StatusError if it is
// another; and *CallError if there was no whole answer, also because the work
// was cancelled.
func (r *HTTP) Run(ctx context.Context, run Run) error {
	if h, ok := lockguard.FromContext(ctx); ok {
		return r.run(ctx, run, h)
	}
	return r.run(ctx, run, nil)
}

// run makes the request under h, which may be nil.
func (r *HTTP) run(ctx context.Context, run Run, h lockguard.WorkHold) error {
	if err := r.Validate(); err != nil {
		return err
	}
	signals := lockguard.NewStopSignals(ctx, h, run.Lost)
	target, err := url.Parse(r.URL)
	if err != nil {
		return err // it is valid
	}
	failure := &CallError{Method: r.method(), URL: redacted(target)}
	if failure.Cause = signals.Cause(); failure.Cause != nil {
		return failure
	}
	var sent atomic.Bool
	failed := func(err error) error {
		failure.Sent = sent.Load()
		if failure.Cause = signals.Cause(); failure.Cause == nil {
			failure.Err = err
		}
		return failure
	}

	ctx, stop := signals.Context()
	defer stop()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	request, err := http.NewRequestWithContext(ctx, r.method(), r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return failed(err)
	}
	r.fill(request, run, h)
	client, done := r.client()
	defer done()
	response, err := client.Do(request)
	if err != nil {
		return failed(withoutURL(err))
	}
	defer response.Body.Close()
	snippet := &head{limit: maxSnippet}
	if err := copyAll(response.Body, snippet, run.Stdout); err != nil {
		return failed(fmt.Errorf("the answer, %d, broke off: %w", response.StatusCode, err))
	}
	run.logger().DebugContext(ctx, "request was answered", "method", failure.Method, "url", failure.URL,
		"status", response.StatusCode)
	if r.expects(response.StatusCode) {
		return nil
	}
	return &StatusError{
		Method: failure.Method, URL: failure.URL, Status: response.StatusCode,
		Body: snippet.String(), RetryAfter: retryAfter(response.Header), Location: location(response),
	}
}

// fill writes the headers.
func (r *HTTP) fill(request *http.Request, run Run, h lockguard.WorkHold) {
	for name, values := range r.Header {
		for _, value := range values {
			request.Header.Add(name, value)
		}
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
		request.Header.Del("Host")
	}
	set := func(name, value string) {
		if value != "" {
			request.Header.Set(name, value)
		}
	}
	if len(r.Body) > 0 && request.Header.Get("Content-Type") == "" && json.Valid(r.Body) {
		set("Content-Type", "application/json")
	}
	if _, ok := request.Header["User-Agent"]; !ok {
		set("User-Agent", "lockkeeper")
	}
	key := run.Key()
	set(ownPrefix+"Job", run.Job)
	set(ownPrefix+"Run", run.Attempt)
	if !run.Scheduled.IsZero() {
		set(ownPrefix+"Scheduled", run.Scheduled.UTC().Format(time.RFC3339Nano))
	}
	if run.Cause != nil {
		set(ownPrefix+"Cause", CauseWord(run.Cause))
		key += "-cleanup"
	}
	if h != nil {
		info := h.Info()
		set(ownPrefix+"Scope", percentASCII(info.Requirement.Scope))
		set(ownPrefix+"Token", info.Token.String())
		set(ownPrefix+"Tokens", escapedASCII(tokens(h)))
		set("Traceparent", traceOf(request.Context(), h))
		if run.Cause != nil {
			key += "-" + info.Token.String()
		}
	}
	if run.Key() != "" {
		set("Idempotency-Key", key)
	}
}

func (r *HTTP) method() string {
	if r.Method == "" {
		return http.MethodPost
	}
	return r.Method
}

func (r *HTTP) expects(status int) bool {
	if r.Expect == nil {
		return status >= 200 && status <= 299
	}
	return slices.Contains(r.Expect, status)
}

// OutputLimit returns MaxOutput: see Job.NewOutput.
func (r *HTTP) OutputLimit() int { return r.MaxOutput }

func readOnly(method string) bool { return method == http.MethodGet || method == http.MethodHead }
